#!/usr/bin/env python3
"""What watching costs: a server that audits, counts, is scraped and has a rollout, against one that does nothing of this.

usage: operations.py run FOLDER [--model smollm2-135m] [--rounds 60] [--streams 4] [--tokens 96] [--threads 2] [--seconds N] [--wane build/wane] [--json FILE]
       operations.py report FOLDER [--json FILE]

run: start two `wane serve` on the same model. One has an audit log, a rollout under way of every shortcut, alerts with a command, and its metrics are fetched
every second; the other has none of it. Each round sends --streams requests at once to one of them, then to the other, who is first by
turns; a round is a line of FOLDER/lines.jsonl, and a run that was stopped, or that stopped itself after about --seconds, goes on where it
was. The time of a token is that of a round from the first text of any reply to the last of all, over the tokens of one reply; what
counts is the ratio of the two within a round, so that whatever else the machine does meets both alike. Printed are the medians and the
95 % interval of the median ratio (bootstrap).
"""
import argparse
import concurrent.futures
import http.client
import json
import pathlib
import random
import statistics
import sys
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import serving  # noqa: E402
from serving import Stop  # noqa: E402

FIELDS = {"round", "plain", "watched"}
WAYS = ("plain", "watched")


class Scraper(threading.Thread):
    """Fetches the metrics every second, as Prometheus would, more often than it mostly does."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.done = port, threading.Event()

    def run(self):
        while not self.done.wait(1):
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as reply:
                reply.read()


def stream(server, number, args, seed):
    """When each piece of a reply came."""
    body = {"messages": [{"role": "user", "content": f"Tell a story about lighthouse number {number}."}], "max_tokens": args.tokens, "stream": True,
            "temperature": 0.8, "seed": seed, "user": f"user {number}"}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 200:
        raise Stop(f"{server.name}: status {answer.status}: {answer.read()[:300].decode('utf-8', 'replace')}")
    came = []
    for line in answer:
        if line.startswith(b"data: {") and json.loads(line[6:])["choices"][0]["delta"].get("content"):
            came.append(time.perf_counter())
    connection.close()
    return came


def measure(server, pool, number, args):
    """Milliseconds between tokens, over all streams: the mean, since what comes in bursts has no median."""
    jobs = [pool.submit(stream, server, args.streams * number + i, args, serving.seed_of(number, str(i))) for i in range(args.streams)]
    replies = [job.result() for job in jobs]
    spans = [(came[-1] - came[0], len(came) - 1) for came in replies if len(came) > 8]
    if not spans:
        raise Stop(f"{server.name}: the replies are too short to be timed")
    return 1000 * sum(span for span, _ in spans) / sum(count for _, count in spans)


def run(args):
    folder = pathlib.Path(args.folder)
    settings = {"model": args.model, "threads": args.threads, "streams": args.streams, "tokens": args.tokens}
    with serving.Run(args, "lines.jsonl", FIELDS, lambda line: line["round"], settings) as one:
        place = {way: folder / way for way in WAYS}
        for path in place.values():
            path.mkdir(exist_ok=True)
        state = place["watched"]
        for name in ("rollout.json", "audit.db"):
            (state / name).unlink(missing_ok=True)
        more = ["--audit", str(state / "audit.db"), "--rollout", str(state / "rollout.json"), "--rollout-features", "head", "--rollout-share", "1",
                "--alert-command", "true"]
        with serving.Server(args, place["plain"], "plain", []) as plain, serving.Server(args, state, "watched", more) as watched, \
                concurrent.futures.ThreadPoolExecutor(args.streams) as pool:
            order = urllib.request.Request(f"http://127.0.0.1:{watched.port}/v1/wane/rollout", json.dumps({"do": "start"}).encode())
            urllib.request.urlopen(order, timeout=60).read()
            scraper = Scraper(watched.port)
            scraper.start()
            servers = {"plain": plain, "watched": watched}
            for server in servers.values():
                measure(server, pool, -1, args)
            for number in range(args.rounds):
                if number in one.done:
                    continue
                if one.over():
                    break
                ways = WAYS if number % 2 == 0 else WAYS[::-1]
                times = {way: measure(servers[way], pool, number, args) for way in ways}
                one.keep({"round": number, **times})
                one.say("rounds", number + 1, args.rounds)
            scraper.done.set()


def report(args):
    folder = pathlib.Path(args.folder)
    settings, lines = serving.read_settings(folder), serving.read_lines(folder / "lines.jsonl", FIELDS)
    if not lines:
        raise Stop(f"{folder} has no finished round")
    ratios = [line["watched"] / line["plain"] for line in lines]
    dice = random.Random(1)
    draws = sorted(statistics.median(dice.choices(ratios, k=len(ratios))) for _ in range(2000))
    result = {**settings, "rounds": len(lines), "ratio": statistics.median(ratios), "low": draws[50], "high": draws[1949],
              **{f"{way}_ms": statistics.median(line[way] for line in lines) for way in WAYS}}
    print(f"{settings['model']}, {settings['streams']} streams, {settings['threads']} threads, {len(lines)} rounds: {result['plain_ms']:.3f} ms a token without, "
          f"{result['watched_ms']:.3f} with; ratio {result['ratio']:.4f} (95 %: {result['low']:.4f} to {result['high']:.4f})")
    serving.write_result(folder, result, args.json, indent=1)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("folder")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--wane", default="build/wane")
    parser.add_argument("--json", default="")
    args = parser.parse_args()
    args.slots = args.streams
    sys.exit(serving.carry_out("operations", (lambda: run(args)) if args.what == "run" else None, lambda: report(args)))


if __name__ == "__main__":
    main()
