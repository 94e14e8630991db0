"""Where traces lie and where parts are kept: folders that every node sees, or any address that fsspec knows.

It owns names, listing and putting a file in its place in one piece. It never changes a trace. An address is a text with "://" in it;
fsspec is asked for only then, and takes its secrets from its own configuration. Everything here also runs on the cluster's nodes.
"""
import hashlib
import json
import os
import shutil
import time
import uuid

ENDINGS = (".jsonl", ".jsonl.zst")
BLOCK = 1 << 20
# A file's stamp tells one content from another only when it is older than a clock may be wrong.
SETTLED = 10.0


class PlaceError(Exception):
    """A sentence for people: what is wrong, where, what to do."""


def is_address(text):
    return "://" in text


def filesystem(address):
    """(file system, path in it) of an address."""
    try:
        import fsspec.core
    except ImportError as why:
        raise PlaceError(f"{address} needs the Python package fsspec, here and on every node: pip install fsspec") from why
    try:
        return fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as why:
        raise PlaceError(f"cannot use {address}: {why}") from why


def is_trace(name):
    base = name.rsplit("/", 1)[-1]
    return not base.startswith(".") and any(base.endswith(end) and len(base) > len(end) for end in ENDINGS)


def list_traces(named):
    """[(path or address, bytes)] of the traces in a file or folder, as `wane table build` takes them: sorted by name."""
    try:
        found = remote_traces(named) if is_address(named) else local_traces(named)
    except FileNotFoundError as why:
        raise PlaceError(f"there is no {named}") from why
    except OSError as why:
        raise PlaceError(f"cannot list {named}: {why.strerror or why}") from why
    if not found:
        raise PlaceError(f"there is no trace (*.jsonl, *.jsonl.zst) in {named}")
    return found


def local_traces(named):
    named = os.path.abspath(named)
    if not os.path.isdir(named):
        return [(named, os.stat(named).st_size)]
    paths = sorted((os.path.join(named, name) for name in os.listdir(named) if is_trace(name)), key=os.fsencode)
    return [(path, os.stat(path).st_size) for path in paths]


def remote_traces(named):
    fs, path = filesystem(named)
    about = fs.info(path)
    if about["type"] != "directory":
        return [(named, about["size"])]
    inside = [one for one in fs.ls(path, detail=True) if one["type"] == "file" and is_trace(one["name"])]
    return sorted((fs.unstrip_protocol(one["name"]), one["size"]) for one in inside)


def stamp_of(named):
    """A text that changes when the file does; None where nothing reliable is known of it."""
    if not is_address(named):
        about = os.stat(named)
        settled = time.time() - about.st_mtime > SETTLED
        return f"{about.st_size} {about.st_mtime_ns} {about.st_ino}" if settled else None
    fs, path = filesystem(named)
    about = fs.info(path)
    marks = {key: str(about[key]) for key in ("ETag", "etag", "md5Hash", "generation", "content_md5") if about.get(key)}
    return json.dumps([about["size"], marks], sort_keys=True) if marks else None


def size_and_time(named):
    """What shows that a file was written to meanwhile, where that can be seen at all."""
    if not is_address(named):
        about = os.stat(named)
        return about.st_size, about.st_mtime_ns
    fs, path = filesystem(named)
    return fs.info(path)["size"], None


def digest_of(named, copy=None):
    """BLAKE2b-256 of a file's bytes, in hex; `copy`: a path that gets them."""
    digest = hashlib.blake2b(digest_size=32)
    if is_address(named):
        fs, path = filesystem(named)
        source = fs.open(path, "rb")
    else:
        source = open(named, "rb")
    with source, open(copy or os.devnull, "wb") as out:
        while block := source.read(BLOCK):
            digest.update(block)
            if copy:
                out.write(block)
    return digest.hexdigest()


class Folder:
    """Parts in a folder that all nodes see."""

    def __init__(self, path):
        self.path = path

    def prepare(self):
        os.makedirs(self.path, exist_ok=True)

    def size(self, name):
        try:
            return os.stat(os.path.join(self.path, name)).st_size
        except FileNotFoundError:
            return None

    def read(self, name):
        try:
            with open(os.path.join(self.path, name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def head(self, name, count):
        with open(os.path.join(self.path, name), "rb") as file:
            return file.read(count)

    def write(self, name, data):
        fresh = self.fresh(name, None)
        with open(fresh, "wb") as file:
            file.write(data)
        self.take(fresh, name)

    def fresh(self, name, scratch):
        """Where a file is written before it gets its name: beside it, so that giving the name is one step."""
        return os.path.join(self.path, f".{name}.{uuid.uuid4().hex}")

    def take(self, fresh, name):
        handle = os.open(fresh, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        os.rename(fresh, os.path.join(self.path, name))

    def bring(self, name, scratch):
        """A path with the file's bytes."""
        return os.path.join(self.path, name)

    def sweep(self, names):
        """Removes what lost workers left of these files."""
        for left in os.listdir(self.path):
            if left.startswith(".") and left[1:].split(".part")[0] + ".part" in names:
                os.remove(os.path.join(self.path, left))


class Address:
    """Parts at an address; a node's scratch folder holds what it works on."""

    def __init__(self, address):
        self.address = address
        self.fs, self.path = filesystem(address)

    def at(self, name):
        return f"{self.path.rstrip('/')}/{name}"

    def prepare(self):
        self.fs.makedirs(self.path, exist_ok=True)

    def size(self, name):
        # What another process put there must be seen.
        self.fs.invalidate_cache()
        try:
            return self.fs.info(self.at(name))["size"]
        except FileNotFoundError:
            return None

    def read(self, name):
        return self.fs.cat_file(self.at(name)) if self.size(name) is not None else None

    def head(self, name, count):
        return self.fs.cat_file(self.at(name), 0, count)

    def write(self, name, data):
        self.fs.pipe_file(self.at(name), data)

    def fresh(self, name, scratch):
        return os.path.join(scratch, name)

    def take(self, fresh, name):
        # An object store shows an object when it is whole; for the others a name is given last.
        there = self.at(f"{name}.{uuid.uuid4().hex}")
        self.fs.put_file(fresh, there)
        self.fs.mv(there, self.at(name))
        os.remove(fresh)

    def bring(self, name, scratch):
        path = os.path.join(scratch, name)
        self.fs.get_file(self.at(name), path)
        return path

    def sweep(self, names):
        self.fs.invalidate_cache()
        for left in self.fs.ls(self.path, detail=False):
            base = left.rsplit("/", 1)[-1]
            if base.split(".part.")[0] + ".part" in names and ".part." in base:
                self.fs.rm_file(left)


def place_of(text):
    return Address(text) if is_address(text) else Folder(os.path.abspath(text))


def fetch(named, scratch, number):
    """(path with the bytes, digest) of a trace: where it lies, or a copy in `scratch`."""
    if not is_address(named):
        return named, digest_of(named)
    ending = ".jsonl.zst" if named.endswith(".zst") else ".jsonl"
    copy = os.path.join(scratch, f"trace-{number:06d}{ending}")
    return copy, digest_of(named, copy)


def remove_folder(path):
    shutil.rmtree(path, ignore_errors=True)
