#!/usr/bin/env python3
"""Sends mixed requests, with clients that leave in the middle, and watches that the server does not grow.

usage: soak.py URL [--pid PID] [--requests 5000] [--workers 16] [--seed 1] [--key KEY] [--tokens 24] [--json FILE]

Needs nothing but Python. With --pid (on the same machine) resident memory, open files and threads are sampled over time.
Exit status 1 if the server did not come to rest, a request got an unexpected answer, files leaked, or memory of the last
quarter lies more than 10 % and 16 MiB above that of the second.
"""
import argparse
import collections
import http.client
import json
import os
import random
import socket
import sys
import threading
import time
import urllib.parse

KINDS = ["whole", "stream", "openai", "text", "abort-queued", "abort-stream", "bad", "cut", "count", "health"]


class Client:
    def __init__(self, args):
        parts = urllib.parse.urlsplit(args.url)
        self.host, self.port = parts.hostname, parts.port or 80
        self.headers = {"x-api-key": args.key} if args.key else {}
        self.tokens = args.tokens

    def call(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=300)
        try:
            connection.request(method, path, body=body, headers=self.headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def messages(self, chance, stream):
        text = " ".join(chance.choice("red green blue one two three cat dog sea sky".split()) for _ in range(chance.randint(3, 60)))
        return json.dumps({"model": "default", "max_tokens": chance.randint(1, self.tokens), "stream": stream,
                           "messages": [{"role": "user", "content": text}]})

    def abort(self, chance, read):
        body = self.messages(chance, chance.random() < 0.7).encode()
        head = f"POST /v1/messages HTTP/1.1\r\nhost: {self.host}\r\ncontent-length: {len(body)}\r\n"
        head += "".join(f"{k}: {v}\r\n" for k, v in self.headers.items())
        with socket.create_connection((self.host, self.port), timeout=60) as raw:
            raw.sendall(head.encode() + b"\r\n" + body)
            if read:
                raw.settimeout(chance.random() * 0.3 + 0.01)
                try:
                    raw.recv(chance.randint(1, 4096))
                except TimeoutError:
                    pass
        return "left"

    def once(self, kind, chance):
        """What happened, in a word, and whether that is what should happen."""
        if kind.startswith("abort"):
            return self.abort(chance, kind == "abort-stream"), True
        if kind == "bad":
            field, value = chance.choice([("top_p", -1), ("stream", "true"), ("messages", None), ("x", 1), ("max_tokens", 0)])
            status, _ = self.call("POST", "/v1/messages", json.dumps({**json.loads(self.messages(chance, False)), field: value}))
            return status, status == 400
        if kind == "cut":
            body = self.messages(chance, False)
            status, _ = self.call("POST", "/v1/chat/completions", body[:chance.randint(1, len(body) - 1)])
            return status, status == 400
        if kind == "count":
            status, _ = self.call("POST", "/v1/messages/count_tokens", self.messages(chance, False))
            return status, status == 200
        if kind == "health":
            status, _ = self.call("GET", chance.choice(["/health", "/ready", "/metrics", "/v1/models"]))
            return status, status == 200
        if kind == "text":
            status, _ = self.call("POST", "/v1/completions", json.dumps({"prompt": "Once", "max_tokens": self.tokens}))
        elif kind == "openai":
            body = {**json.loads(self.messages(chance, True)), "logprobs": True, "top_logprobs": 3}
            status, data = self.call("POST", "/v1/chat/completions", json.dumps(body))
            return status, status == 429 or (status == 200 and data.rstrip().endswith(b"[DONE]"))
        else:
            status, data = self.call("POST", "/v1/messages", self.messages(chance, kind == "stream"))
            if kind == "stream" and status == 200:
                return status, b"event: message_stop" in data
        return status, status in (200, 429)

    def metrics(self):
        values = {}
        for line in self.call("GET", "/metrics")[1].decode().splitlines():
            if line and line[0] != "#":
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
        return values


def sample(pid):
    with open(f"/proc/{pid}/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return {"rss_kib": int(fields["VmRSS"].split()[0]), "threads": int(fields["Threads"]),
            "fds": len(os.listdir(f"/proc/{pid}/fd"))}


def run(args, client):
    left, lock = [args.requests], threading.Lock()
    outcomes, faults = collections.Counter(), []

    def work(number):
        chance = random.Random(args.seed * 1000003 + number)
        while True:
            with lock:
                if left[0] == 0:
                    return
                left[0] -= 1
            kind = chance.choice(KINDS)
            try:
                what, fine = client.once(kind, chance)
            except OSError as fault:
                what, fine = type(fault).__name__, False
            with lock:
                outcomes[f"{kind} {what}"] += 1
                if not fine:
                    faults.append(f"{kind}: {what}")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(args.workers)]
    for t in threads:
        t.start()
    start, samples = time.monotonic(), []
    while any(t.is_alive() for t in threads):
        if args.pid:
            samples.append({"seconds": round(time.monotonic() - start, 2), "left": left[0], **sample(args.pid)})
        time.sleep(0.5)
    return {"seconds": round(time.monotonic() - start, 1), "outcomes": dict(sorted(outcomes.items())), "faults": faults,
            "samples": samples}


def rest(client, seconds=60):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        m = client.metrics()
        if m["wane_slots_busy"] == 0 and m["wane_queue_length"] == 0:
            return m
        time.sleep(0.05)
    return None


def mean(values):
    return sum(values) / max(len(values), 1)


def judge(result, before, after, metrics):
    complaints = []
    if metrics is None:
        complaints.append("sequences were still busy a minute after the last client had left")
    if result["faults"]:
        complaints.append(f"{len(result['faults'])} unexpected answers, the first: {result['faults'][0]}")
    if before and after["fds"] > before["fds"] + 2:
        complaints.append(f"open files grew from {before['fds']} to {after['fds']}")
    rss = [s["rss_kib"] for s in result["samples"]]
    if len(rss) >= 8:
        quarter = len(rss) // 4
        early, late = mean(rss[quarter:2 * quarter]), mean(rss[-quarter:])
        result["rss_second_quarter_kib"], result["rss_last_quarter_kib"] = round(early), round(late)
        if late > 1.1 * early and late > early + 16384:
            complaints.append(f"memory grew from {early / 1024:.0f} MiB to {late / 1024:.0f} MiB")
    return complaints


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "), add_help=True)
    parser.add_argument("url")
    for name, kind, default in (("pid", int, None), ("requests", int, 5000), ("workers", int, 16), ("seed", int, 1),
                                ("key", str, None), ("tokens", int, 24), ("json", str, None)):
        parser.add_argument("--" + name, type=kind, default=default)
    args = parser.parse_args()
    client = Client(args)
    before = sample(args.pid) if args.pid else None
    result = run(args, client)
    metrics = rest(client)
    time.sleep(0.5)  # the last connections close
    after = sample(args.pid) if args.pid else None
    complaints = judge(result, before, after, metrics)
    print(f"{args.requests} requests in {result['seconds']} s from {args.workers} clients")
    for what, count in result["outcomes"].items():
        print(f"  {count:6d}  {what}")
    if before:
        print(f"  memory {before['rss_kib'] / 1024:.0f} → {after['rss_kib'] / 1024:.0f} MiB (peak "
              f"{max(s['rss_kib'] for s in result['samples']) / 1024:.0f}), files {before['fds']} → {after['fds']}, "
              f"threads {before['threads']} → {after['threads']}")
    for complaint in complaints:
        print("FAULT:", complaint)
    print("fine" if not complaints else "not fine")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({**result, "before": before, "after": after, "metrics": metrics, "complaints": complaints}, file, indent=1)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
