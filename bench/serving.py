"""What the long measurements share: a `wane serve` of their own, runs that go on where they were stopped, the interval of a share.

A finished piece of a run is a line of a file in its folder; its settings stand beside it, and another run is not mixed in.
"""
import hashlib
import http.client
import json
import math
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request


class Stop(Exception):
    pass


def wilson(hits, count, z=1.959964):
    """95 % interval of a share."""
    if count == 0:
        return 0.0, 1.0
    share, square = hits / count, z * z / count
    middle = (share + square / 2) / (1 + square)
    half = z / (1 + square) * math.sqrt(share * (1 - share) / count + square / (4 * count))
    return max(0.0, middle - half), min(1.0, middle + half)


def seed_of(seed, name):
    """An item's seed: the same wherever it is asked, whatever else is."""
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:6], "little")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def answers(port, path):
    """Whether a server says 200 there."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            return reply.status == 200
    except OSError:
        return False


class Server:
    """`wane serve` with these options and settings file, from entering to leaving. `name` is what complaints call it."""

    def __init__(self, args, folder, name, options, config=""):
        ready, file = folder / "port", folder / "serve.conf"
        ready.unlink(missing_ok=True)
        file.write_text(config)
        self.ready, self.log, self.name = ready, folder / "serve.log", name
        self.command = [args.wane, "serve", "--model", args.model, "--host", "127.0.0.1", "--port", "0", "--ready-file", str(ready),
                        "--slots", str(args.slots), "--memo", "0", "--draft", "off", "--log-level", "warn", *options]
        if args.threads:
            self.command += ["--threads", str(args.threads), "--batch-threads", str(args.threads)]
        # Somebody's own settings must not change what is measured.
        kept = ("WANE_CACHE", "WANE_BACKENDS", "WANE_OFFLINE")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("WANE_") or k in kept}
        self.environment["WANE_CONFIG"] = str(file)

    def __enter__(self):
        with open(self.log, "w", encoding="utf-8") as log:
            try:
                self.process = subprocess.Popen(self.command, stdout=log, stderr=log, env=self.environment)
            except OSError as why:
                raise Stop(f"{self.command[0]} cannot be started: {why}") from None
        try:
            until = time.monotonic() + 300
            while not self.is_ready():
                if self.process.poll() is not None or time.monotonic() > until:
                    raise Stop(f"{' '.join(self.command)} did not become ready:\n" + self.log.read_text()[-2000:])
                time.sleep(0.05)
            self.judge()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()

    def is_ready(self):
        if self.ready.exists():
            self.port = int(self.ready.read_text())
        return self.ready.exists()

    def judge(self):
        """Raise Stop where the server is not what is to be measured."""

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as reply:
            return reply.read().decode()

    def ask(self, body, path="/v1/chat/completions"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1800)
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as why:
            raise Stop(f"mode {self.name}: the server did not answer ({why})") from None
        finally:
            connection.close()
        if answer.status != 200:
            raise Stop(f"mode {self.name}: status {answer.status}: {text[:500].decode('utf-8', 'replace')}")
        return json.loads(text)


def read_lines(path, fields):
    """The lines of a run that have these fields."""
    lines = []
    if path.exists():
        for text in path.read_text(encoding="utf-8").splitlines():
            try:
                line = json.loads(text)
                if fields <= set(line):
                    lines.append(line)
            except (ValueError, TypeError):
                pass  # a line that was cut by an interruption is asked for again
    return lines


def read_settings(folder):
    try:
        return json.loads((folder / "settings.json").read_text())
    except (OSError, ValueError):
        raise Stop(f"{folder} holds no run") from None


def write_result(folder, result, also, **form):
    """A report as FOLDER/report.json, and once more in the file `also`, where one is named."""
    text = json.dumps(result, **form) + "\n"
    (folder / "report.json").write_text(text)
    if also:
        pathlib.Path(also).write_text(text)


class Run:
    """A run in args.folder. Of `settings` none may change when it goes on; `more` may. `key` of a line says which piece it is."""

    def __init__(self, args, lines, fields, key, settings, more=None):
        self.args, self.folder, self.key = args, pathlib.Path(args.folder), key
        self.began, self.lock, self.stopping = time.time(), threading.Lock(), False
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "settings.json"
        old = json.loads(path.read_text()) if path.exists() else settings
        for name, value in settings.items():
            if old.get(name) != value:
                raise Stop(f"{self.folder} holds a run with {name} {old.get(name)}, not {value}; give it another folder")
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps({**settings, **(more or {})}))
        fresh.rename(path)
        self.lines = self.folder / lines
        self.done = {key(line) for line in read_lines(self.lines, fields)}

    def __enter__(self):
        self.file = open(self.lines, "a", encoding="utf-8")
        if self.file.tell() > 0:
            self.file.write("\n")  # behind a line that was cut
        return self

    def __exit__(self, *_):
        self.file.close()

    def keep(self, line):
        with self.lock:
            self.file.write(json.dumps(line) + "\n")
            self.file.flush()
            self.done.add(self.key(line))

    def over(self):
        return self.stopping or self.args.seconds and time.time() - self.began > self.args.seconds

    def say(self, what, done, of):
        end, lead = ("", "\r\033[K") if sys.stderr.isatty() else ("\n", "")
        print(f"{lead}{time.time() - self.began:6.0f} s  {what} {done} of {of}", end=end, file=sys.stderr, flush=True)


def carry_out(program, run, report):
    """Call `run` (None: there is nothing to run), then `report`; the exit status."""
    def end(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, end)
    try:
        if run is not None:
            run()
            if sys.stderr.isatty():
                print(file=sys.stderr)
        report()
        return 0
    except Stop as why:
        print(f"{program}: {why}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\n{program}: stopped; the same command goes on from here", file=sys.stderr)
        return 130
