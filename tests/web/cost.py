#!/usr/bin/env python3
"""What the page costs the server: processor time a token with nobody looking, with the dashboard open, with its token view, with 50 dashboards.

    cost.py [--rounds N] [--tokens N] [--model NAME] [--json]

All conditions by turns in one run of one server with one engine thread. What counts is the processor time of the server's process (Linux),
which is little moved by what else the machine does; the time between tokens stands beside it. Medians of the ratios to the plain one.
Standard library only.
"""
import argparse
import http.client
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time

ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..")


def start(model, folder):
    ready = os.path.join(folder, "port")
    process = subprocess.Popen([os.path.join(ROOT, "build", "wane"), "serve", "--model", model, "--port", "0", "--ready-file", ready,
                                "--slots", "1", "--memo", "0", "--head", "always", "--threads", "1", "--batch-threads", "1"], stderr=subprocess.DEVNULL)
    while not os.path.exists(ready):
        if process.poll() is not None:
            raise SystemExit("cost: the server did not start")
        time.sleep(0.05)
    return process, int(open(ready).read())


def reply(port, tokens, headers):
    """Milliseconds of each token after the first."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    body = {"stream": True, "temperature": 0, "max_tokens": tokens, "wane_draft": False,
            "messages": [{"role": "user", "content": "Count slowly from one to three hundred, in words."}]}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    answer = connection.getresponse()
    first = last = None
    count = 0
    while line := answer.readline():
        if line.startswith(b"data: {") and b'"content":"' in line and b'"role"' not in line:
            last = time.monotonic()
            first = first or last
            count += 1
    connection.close()
    return 1000 * (last - first) / (count - 1)


def busy(process):
    """Milliseconds of processor time that the process has taken."""
    fields = open(f"/proc/{process.pid}/stat", encoding="utf-8").read().rsplit(")", 1)[1].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Viewers:
    """Dashboards: each reads the state and follows the samples."""

    def __init__(self, port, count):
        self.over = False
        self.samples = 0
        self.threads = [threading.Thread(target=self.follow, args=(port,), daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def follow(self, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/v1/wane/events")
        answer = connection.getresponse()
        while not self.over and answer.readline():
            self.samples += 1
        connection.close()

    def stop(self):
        self.over = True
        for thread in self.threads:
            thread.join(5)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    ways = [("nobody", 0, {}), ("one viewer", 1, {}), ("token view", 0, {"wane-trace": "1"}), ("50 viewers", 50, {})]
    times, work = {name: [] for name, _, _ in ways}, {name: [] for name, _, _ in ways}
    with tempfile.TemporaryDirectory() as folder:
        process, port = start(wanted.model, folder)
        reply(port, 32, {})
        for _ in range(wanted.rounds):
            for name, count, headers in ways:
                viewers = Viewers(port, count)
                time.sleep(0.2)
                before = busy(process)
                times[name].append(reply(port, wanted.tokens, headers))
                work[name].append((busy(process) - before) / wanted.tokens)
                viewers.stop()
        process.terminate()
        process.wait(timeout=60)
    plain = work["nobody"]
    result = {name: {"cpu_ms": round(statistics.median(work[name]), 3), "ms": round(statistics.median(times[name]), 3),
                     "ratio": round(statistics.median(a / b for a, b in zip(work[name], plain)), 4)} for name in times}
    if wanted.json:
        print(json.dumps({"model": wanted.model, "rounds": wanted.rounds, "tokens": wanted.tokens, "ways": result}))
        return
    for name, one in result.items():
        print(f"{name:12} {one['cpu_ms']:8.3f} ms of processor a token, {one['ratio']:.4f} of nobody's; {one['ms']:8.3f} ms between tokens")


if __name__ == "__main__":
    main()
