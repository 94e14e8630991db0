import io
import uuid

files = {}  # path -> (bytes, etag)


class Memory:
    def info(self, path):
        path = path.rstrip("/")
        if path in files:
            return {"name": path, "size": len(files[path][0]), "type": "file", "ETag": files[path][1]}
        if any(name.startswith(path + "/") for name in files):
            return {"name": path, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    def ls(self, path, detail):
        inside = sorted(name for name in files if name.startswith(path.rstrip("/") + "/"))
        return [self.info(name) for name in inside] if detail else inside

    def unstrip_protocol(self, name):
        return "memory://" + name

    def open(self, path, mode):
        assert mode == "rb"
        return io.BytesIO(self.cat_file(path))

    def cat_file(self, path, start=0, end=None):
        if path not in files:
            raise FileNotFoundError(path)
        return files[path][0][start:end]

    def pipe_file(self, path, data):
        files[path] = bytes(data), uuid.uuid4().hex

    def put_file(self, local, path):
        with open(local, "rb") as file:
            self.pipe_file(path, file.read())

    def get_file(self, path, local):
        with open(local, "wb") as file:
            file.write(self.cat_file(path))

    def mv(self, path, to):
        files[to] = files.pop(path)

    def rm_file(self, path):
        del files[path]

    def makedirs(self, path, exist_ok):
        assert exist_ok

    def invalidate_cache(self):
        pass


def url_to_fs(address):
    protocol, path = address.split("://", 1)
    if protocol != "memory":
        raise ValueError(f"Protocol not known: {protocol}")
    return Memory(), path
