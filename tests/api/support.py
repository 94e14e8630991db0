"""What the API tests share: starting a server, talking raw HTTP to it, reading its streams and metrics."""
import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time

import pytest

BUILD = os.environ.get("WANE_BUILD", os.path.join(os.path.dirname(__file__), "..", "..", "build"))
SCRIPT_SERVER = os.environ.get("WANE_SCRIPT_SERVER", os.path.join(BUILD, "tests", "script_server"))
WANE = os.environ.get("WANE_BIN", os.path.join(BUILD, "wane"))

# A sanitizer's build starts and answers more slowly; limits on time are stretched by this.
SLOW = float(os.environ.get("WANE_TEST_SLOW", "1"))


def eventually(condition, seconds=5.0, what="it"):
    """Wait until the condition holds; the scheduler and the metrics are told of an end a moment after the client."""
    until = time.monotonic() + seconds * SLOW
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < until, f"{what} did not happen within {seconds} s"
        time.sleep(0.01)


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


class Server:
    """A server process and the port it answers on."""

    def __init__(self, process, port, log):
        self.process, self.port, self.log = process, port, log
        self.url = f"http://127.0.0.1:{port}"

    def connect(self, timeout=30):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout * SLOW)

    def request(self, method, path, body=None, headers=None, connection=None):
        own = connection is None
        connection = connection or self.connect()
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode("utf-8", "surrogatepass")
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        reply = Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        if own:
            connection.close()
        return reply

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body, **more):
        return self.request("POST", path, body, **more)

    def metrics(self, headers=None):
        reply = self.get("/metrics", headers=headers)
        # Connections that a test has just closed may still count: then this one is one too many for a moment.
        if reply.status == 503:
            reply = eventually(lambda: next((r for r in [self.get("/metrics", headers=headers)] if r.status != 503), None),
                               what="a place for /metrics")
        assert reply.status == 200, reply.body
        text = reply.body.decode()
        values = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
        return values

    def count(self, what):
        if not os.path.isdir("/proc/self/fd"):
            pytest.skip("this system has no /proc to count them in")
        return len(os.listdir(f"/proc/{self.process.pid}/{what}"))

    def fds(self):
        return self.count("fd")

    def threads(self):
        return self.count("task")

    def idle(self):
        def now():
            m = self.metrics()
            return m["wane_slots_busy"] == 0 and m["wane_queue_length"] == 0
        eventually(now, what="an idle scheduler")

    def terminate(self, timeout=20):
        """Stop it as an operator would; returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=timeout * SLOW)


def wakes(metrics, reason):
    """Wakes of the vote, by their reason; the model's name is a label too."""
    found = [value for name, value in metrics.items() if name.startswith("sfcl_fallback_total{") and f'reason="{reason}"' in name]
    assert len(found) == 1, found
    return found[0]


def start_scripted(folder, name, **setup):
    path = os.path.join(folder, name + ".json")
    log = os.path.join(folder, name + ".log")
    with open(path, "w") as file:
        json.dump(setup, file)
    with open(log, "w") as errors:
        process = subprocess.Popen([SCRIPT_SERVER, path], stdout=subprocess.PIPE, stderr=errors, text=True)
    line = process.stdout.readline()
    if not line.startswith("port "):
        process.wait(timeout=10)
        raise RuntimeError(open(log).read())
    return Server(process, int(line.split()[1]), log)


def start_real(folder, *more):
    """`wane serve` with the test model and these options, as a user starts it."""
    if not os.path.exists(WANE):
        pytest.skip(f"no {WANE}: build first")
    ready, log = folder / "port", folder / "log"
    model = os.environ.get("WANE_TEST_MODEL", "smollm2-135m")
    command = [WANE, "serve", "--model", model, "--port", "0", "--ready-file", str(ready), *more]
    with open(log, "w") as errors:
        process = subprocess.Popen(command, stdout=errors, stderr=errors)
    until = time.monotonic() + 120 * SLOW
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            pytest.fail("wane serve did not become ready:\n" + log.read_text()[-2000:])
        time.sleep(0.05)
    return Server(process, int(ready.read_text()), str(log))


def stop_real(server):
    status = server.terminate()
    assert status == 0, open(server.log).read()[-2000:]


class Stream:
    """A request whose reply is read event by event from the socket: what a client sees, and when."""

    def __init__(self, server, path, body, headers=None):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=30 * SLOW)
        data = json.dumps(body).encode()
        lines = [f"POST {path} HTTP/1.1", "host: x", f"content-length: {len(data)}", "connection: close"]
        lines += [f"{k}: {v}" for k, v in (headers or {}).items()]
        self.started = time.monotonic()
        self.socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
        self.file = self.socket.makefile("rb")
        self.status, self.headers = None, {}

    def read_headers(self):
        self.status = int(self.file.readline().split()[1])
        while (line := self.file.readline().strip()):
            key, value = line.decode().split(":", 1)
            self.headers[key.lower()] = value.strip()
        return time.monotonic() - self.started

    def _bytes(self):
        while True:
            size = int(self.file.readline() or b"0", 16)
            if size == 0:
                return
            yield self.file.read(size)
            self.file.readline()

    def events(self):
        """(event name or "comment" or "data", payload text) in order."""
        if self.status is None:
            self.read_headers()
        rest = b""
        for piece in self._bytes():
            rest += piece
            while b"\n\n" in rest:
                block, rest = rest.split(b"\n\n", 1)
                name, data = "data", None
                for line in block.decode().split("\n"):
                    if line.startswith("event: "):
                        name = line[7:]
                    elif line.startswith("data: "):
                        data = line[6:]
                    elif line.startswith(":"):
                        name, data = "comment", line
                yield name, data

    def close(self):
        """Vanish, as a client does that was killed: the kernel closes its end."""
        self.file.close()
        self.socket.close()


def messages(text, **more):
    return {"model": "default", "max_tokens": 200, "messages": [{"role": "user", "content": text}], **more}


def chat(text, **more):
    return {"messages": [{"role": "user", "content": text}], **more}


def anthropic_stream(server, body, headers=None):
    """Collect a stream of /v1/messages: (names, joined text, deltas, last message_delta, error)."""
    stream = Stream(server, "/v1/messages", {**body, "stream": True}, headers)
    names, deltas, last, error = [], [], None, None
    for name, data in stream.events():
        value = json.loads(data)
        names.append(name)
        assert value["type"] == name
        if name == "content_block_delta":
            deltas.append(value["delta"]["text"])
        elif name == "message_delta":
            last = value
        elif name == "error":
            error = value
    stream.close()
    return names, "".join(deltas), deltas, last, error


def openai_stream(server, path, body, headers=None):
    """Collect a stream of the OpenAI routes: (chunks, done, error)."""
    stream = Stream(server, path, {**body, "stream": True}, headers)
    chunks, done, error = [], False, None
    for name, data in stream.events():
        if name == "comment":
            continue
        if data == "[DONE]":
            done = True
            continue
        value = json.loads(data)
        if "error" in value:
            error = value["error"]
        else:
            chunks.append(value)
    stream.close()
    return chunks, done, error


def vote_seed(seed, answer):
    """What another answer of a vote is drawn with: splitmix64 of the first one's seed; signed, as JSON has it."""
    most = (1 << 64) - 1
    mixed = (seed + answer * 0x9E3779B97F4A7C15) & most
    mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9) & most
    mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & most
    mixed ^= mixed >> 31
    return mixed - (1 << 64) if mixed >> 63 else mixed


def together(functions):
    """Run them at once; returns their results in order, or raises the first that one of them raised."""
    results, faults = [None] * len(functions), []

    def run(i, function):
        try:
            results[i] = function()
        except BaseException as fault:  # noqa: BLE001 - handed on below
            faults.append(fault)

    threads = [threading.Thread(target=run, args=(i, f)) for i, f in enumerate(functions)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if faults:
        raise faults[0]
    return results
