#!/usr/bin/env python3
"""How many replies go round in loops with the fuse and without, and how often it ends what is none.

usage: loops.py run FOLDER [--model smollm2-135m] [--replies 500] [--clean N] [--texts N] [--max-tokens 512] [--threads N] [--slots 1]
                [--fuse-window 5] [--fuse-limit 0.03] [--seconds N] [--wane build/wane] [--forcer build/tests/bench_fuse] [--json FILE]
       loops.py report FOLDER [--json FILE]

run: start one `wane serve` whose domains are off and on: mode wane, greedy, one answer, the governor off, the fuse off and on, and nothing else
different. Three parts, in this order; each finished item is a line of FOLDER/lines.jsonl, so that a run that was stopped, or that
stopped itself after about --seconds, goes on where it was:

replies   --replies prompts (tasks and topics made here), each answered with the fuse off and on
texts     the texts of bench/clean_texts.py (code, quotations, lists), teacher-forced: the model reads them as if it had written them,
          and the fuse of both rules looks on
clean     the prompts of bench/clean_texts.py, answered as above

A loop, by the text alone and not by what the fuse looks at: a reply that was cut at --max-tokens while it repeated a piece of up to 200 words, three
times at least and over 60 words at least. "With counters": the same where numbers count as one and the same number, and one word in ten may differ. A false fire: the
fuse ended a reply that goes on and ends, or says something else, without it; of a teacher-forced text, any fire. One reply is decoded at a
time and nothing is reused, so that the fuse's reply is a beginning of the other one; where it is not, floats differed between two engine calls (--slots
above 1 does that), and a fire of such a pair is counted as a false one.
"""
import argparse
import concurrent.futures
import http.client
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import clean_texts  # noqa: E402

TASKS = ["Tell a long story about {}.", "Explain {} in great detail.", "Write an essay on the history of {}.", "Write a long poem about {}.",
         "List everything that you know about {}.", "Describe a day in the life of somebody who works with {}.", "Write a guide for beginners about {}.",
         "Give fifty tips about {}.", "Write a speech in praise of {}.", "Compare {} in ten countries.", "Write a dialogue about {} that goes on and on.",
         "Write the rules of a club for {}.", "Summarise ten books about {}.", "Write a diary of a month that is all about {}.",
         "Ask a hundred questions about {}.", "Write a report on {} for a ministry.", "Invent twenty proverbs about {}.",
         "Write a letter to a friend about {}.", "Explain to a child why {} matter.", "Plan a festival of {} hour by hour."]
TOPICS = ["lighthouses", "bees", "old bridges", "tea", "glaciers", "railway stations", "sailing ships", "mushrooms", "clocks", "wool", "volcanoes", "libraries",
          "bread", "comets", "canals", "violins", "deserts", "maps", "salt", "kites", "owls", "windmills", "tulips", "coral reefs", "chess"]


class Stop(Exception):
    pass


# ------------------------------------------------------------------------------------------------------------------ loops

def words_of(text, counters):
    words = re.findall(r"\w+|[^\w\s]", text)
    return ["0" if counters and w.isdigit() else w for w in words]


def tail_loop(text, counters=False, longest=200):
    """The piece in words that the text's end repeats, and how many words of the end it covers; (0, 0): it does not."""
    words = words_of(text, counters)
    for p in range(1, longest + 1):
        run, misses = 0, 0
        for i in range(len(words) - 1, p - 1, -1):
            if words[i] != words[i - p]:
                misses += 1
                if not counters or misses > 1 + run // 10:
                    break
            run += 1
        if run + p >= max(3 * p, 60):
            return p, run + p
    return 0, 0


def is_loop(line, counters=False):
    return line["finish"] == "length" and tail_loop(line["text"], counters)[0] > 0


def goes_on(whole, cut):
    """Without the fuse: does the reply come out of the loop in which the fuse ended it, or end by itself?"""
    return whole["finish"] != "length" or tail_loop(whole["text"])[1] < len(words_of(whole["text"][len(cut["text"]):], False))


def wilson(part, whole):
    if whole == 0:
        return math.nan, math.nan
    z, p = 1.96, part / whole
    middle, half = p + z * z / 2 / whole, z * math.sqrt(p * (1 - p) / whole + z * z / 4 / whole / whole)
    return max(0.0, (middle - half) / (1 + z * z / whole)), min(1.0, (middle + half) / (1 + z * z / whole))


# ------------------------------------------------------------------------------------------------------------------ report

def read_lines(path):
    if not path.exists():
        return []
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            pass  # the last one of a run that was killed
    return lines


def pairs_of(lines, part):
    by = {}
    for line in lines:
        if line["part"] == part:
            by.setdefault(line["item"], {})[line["domain"]] = line
    return [(p["off"], p["on"]) for p in by.values() if len(p) == 2]


def is_false(off, on):
    return not off["text"].startswith(on["text"]) or goes_on(off, on)


def share(part, whole):
    low, high = wilson(part, whole)
    return {"count": part, "of": whole, "share": part / whole if whole else None, "low": low if whole else None, "high": high if whole else None}


def report_of(folder):
    lines = read_lines(folder / "lines.jsonl")
    report = dict(json.loads((folder / "settings.json").read_text()))
    pairs = pairs_of(lines, "replies")
    report["replies"] = {"pairs": len(pairs), "apart": sum(not a["text"].startswith(b["text"]) for a, b in pairs)}
    for name, counters in (("loops", False), ("loops_with_counters", True)):
        off = sum(is_loop(a, counters) for a, _ in pairs)
        on = sum(is_loop(b, counters) for _, b in pairs)
        report["replies"][name] = {"off": share(off, len(pairs)), "on": share(on, len(pairs)), "fewer": 1 - on / off if off else None}
    fired = [(a, b) for a, b in pairs if b["fuse"]]
    report["replies"]["fired"] = share(len(fired), len(pairs))
    report["replies"]["false_fires"] = share(sum(is_false(a, b) for a, b in fired), len(pairs))
    report["replies"]["tokens"] = {"off": sum(a["tokens"] for a, _ in pairs), "on": sum(b["tokens"] for _, b in pairs)}
    texts = [line for line in lines if line["part"] == "texts"]
    pairs = pairs_of(lines, "clean")
    fired = [(a, b) for a, b in pairs if b["fuse"]]
    false = sum(is_false(a, b) for a, b in fired)
    report["texts"] = {"all": {rule: share(sum(line[rule] is not None for line in texts), len(texts)) for rule in ("loop", "plain")},
                       "tokens": sum(line["tokens"] for line in texts), "longest_stretch": max((line["stretch"] for line in texts), default=0)}
    for kind in ("code", "quotation", "list"):
        own = [line for line in texts if line["kind"] == kind]
        report["texts"][kind] = {rule: share(sum(line[rule] is not None for line in own), len(own)) for rule in ("loop", "plain")}
    report["clean"] = {"pairs": len(pairs), "fired": share(len(fired), len(pairs)), "false_fires": share(false, len(pairs))}
    all_clean, all_false = len(texts) + len(pairs), report["texts"]["all"]["loop"]["count"] + false
    report["clean_set"] = share(all_false, all_clean)
    return report


def words_for(s):
    if not s["of"]:
        return "nothing yet"
    return f"{s['count']} of {s['of']} ({100 * s['share']:.1f} %, 95 %: {100 * s['low']:.1f} to {100 * s['high']:.1f})"


def show(report):
    print(f"{report['model']}, greedy, at most {report['max_tokens']} tokens; window {report['fuse_window']}, limit {report['fuse_limit']}")
    r = report["replies"]
    print(f"\nlong replies: {r['pairs']} pairs" + (f", {r['apart']} of them differ before the fuse" if r["apart"] else ""))
    for name, title in (("loops", "loops"), ("loops_with_counters", "with counters")):
        fewer = "-" if r[name]["fewer"] is None else f"{100 * r[name]['fewer']:.1f} % fewer"
        print(f"  {title:<14} fuse off {words_for(r[name]['off'])}; on {words_for(r[name]['on'])}: {fewer}")
    print(f"  {'fired':<14} {words_for(r['fired'])}, of these falsely {r['false_fires']['count']}")
    print(f"  {'tokens':<14} off {r['tokens']['off']}, on {r['tokens']['on']}")
    t = report["texts"]
    print(f"\nclean texts, {t['tokens']} tokens, longest stretch that repeats {t['longest_stretch']} tokens")
    for kind in ("code", "quotation", "list", "all"):
        print(f"  {kind:<14} loop {words_for(t[kind]['loop'])}; plain {words_for(t[kind]['plain'])}")
    print(f"\nclean replies: {report['clean']['pairs']} pairs; fired {words_for(report['clean']['fired'])}; falsely {words_for(report['clean']['false_fires'])}")
    print(f"false fires on the whole clean set: {words_for(report['clean_set'])}")


# --------------------------------------------------------------------------------------------------------------------- run

class Server:
    def __init__(self, args, folder):
        self.ready, self.log, config = folder / "port", folder / "serve.log", folder / "serve.conf"
        self.ready.unlink(missing_ok=True)
        config.write_text("[quality]\nmode = wane\nanswers = 1\ngovernor = off\nfallback = none\n\n[domain.off]\nfuse = off\n\n[domain.on]\nfuse = loop\n"
                          f"fuse_window = {args.fuse_window}\nfuse_limit = {args.fuse_limit}\n")
        self.command = [args.wane, "serve", "--model", args.model, "--host", "127.0.0.1", "--port", "0", "--ready-file", str(self.ready),
                        "--slots", str(args.slots), "--memo", "0", "--draft", "off", "--no-prefix-reuse", "--log-level", "warn"]
        if args.threads:
            self.command += ["--threads", str(args.threads), "--batch-threads", str(args.threads)]
        kept = ("WANE_CACHE", "WANE_BACKENDS", "WANE_OFFLINE")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("WANE_") or k in kept}
        self.environment["WANE_CONFIG"] = str(config)

    def __enter__(self):
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, env=self.environment)
        until = time.monotonic() + 300
        while not self.ready.exists():
            if self.process.poll() is not None or time.monotonic() > until:
                self.__exit__()
                raise Stop("the server did not become ready:\n" + self.log.read_text()[-2000:])
            time.sleep(0.05)
        self.port = int(self.ready.read_text())
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()

    def ask(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1800)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as why:
            raise Stop(f"the server did not answer: {why}") from None
        finally:
            connection.close()
        if answer.status != 200:
            raise Stop(f"status {answer.status}: {text[:500].decode('utf-8', 'replace')}")
        return json.loads(text)


class Run:
    def __init__(self, args):
        self.args, self.folder = args, pathlib.Path(args.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path, self.began, self.lock, self.failed = self.folder / "lines.jsonl", time.time(), threading.Lock(), None
        settings = {name: getattr(args, name) for name in ("model", "max_tokens", "threads", "slots", "fuse_window", "fuse_limit")}
        kept = self.folder / "settings.json"
        if kept.exists() and json.loads(kept.read_text()) != settings:
            raise Stop(f"{self.folder} holds a run with other settings ({kept.read_text()}); give it another folder")
        kept.write_text(json.dumps(settings))
        self.done = {(line["part"], line["item"], line.get("domain")) for line in read_lines(self.path)}

    def over(self):
        return self.failed is not None or (self.args.seconds and time.time() - self.began > self.args.seconds)

    def say(self, part, done, of):
        end, lead = ("", "\r\033[K") if sys.stderr.isatty() else ("\n", "")
        if sys.stderr.isatty() or done % 20 == 0 or done == of:
            print(f"{lead}{time.time() - self.began:6.0f} s  {part} {done} of {of}", end=end, file=sys.stderr, flush=True)

    def keep(self, file, line):
        with self.lock:
            file.write(json.dumps(line) + "\n")
            file.flush()
            self.done.add((line["part"], line["item"], line.get("domain")))

    def pair(self, server, file, part, item, prompt, extra):
        for domain in ("off", "on"):
            if (part, item, domain) in self.done or self.over():
                continue
            reply = server.ask({"messages": [{"role": "user", "content": prompt}], "temperature": 0, "max_tokens": self.args.max_tokens,
                                "wane_domain": domain})
            choice = reply["choices"][0]
            self.keep(file, {"part": part, "item": item, "domain": domain, "text": choice["message"]["content"] or "", "finish": choice["finish_reason"],
                             "fuse": reply.get("wane", {}).get("fuse"), "tokens": reply["usage"]["completion_tokens"], **extra})

    def replies(self, server, file, part, prompts):
        with concurrent.futures.ThreadPoolExecutor(self.args.slots) as pool:
            jobs = [pool.submit(self.pair, server, file, part, at, prompt, extra) for at, (prompt, extra) in enumerate(prompts)]
            for done, job in enumerate(jobs, 1):
                try:
                    job.result()
                except Stop as why:
                    self.failed = why
                if not self.over():
                    self.say(part, done, len(jobs))
        if self.failed:
            raise self.failed

    def texts(self, file, texts):
        left = [(at, kind, text) for at, (kind, text) in enumerate(texts) if ("texts", at, None) not in self.done]
        for at in range(0, len(left), 20):
            if self.over():
                return
            some = left[at:at + 20]
            model = subprocess.run([self.args.wane, "model", "path", self.args.model], capture_output=True, text=True, check=True).stdout.strip()
            out = subprocess.run([self.args.forcer, model, str(self.args.threads or 1)], input="\0".join(t for _, _, t in some) + "\0",
                                 capture_output=True, text=True, check=True).stdout.splitlines()
            for (item, kind, _), line in zip(some, out, strict=True):
                self.keep(file, {"part": "texts", "item": item, "kind": kind, **json.loads(line)})
            self.say("texts", at + len(some), len(left))

    def all(self):
        prompts = [(task.format(topic), {}) for topic in TOPICS for task in TASKS][:self.args.replies]
        clean = [(prompt, {"kind": kind}) for kind, prompt in clean_texts.PROMPTS]
        # Spread over the kinds, so that a part of it is one of all of them.
        clean = [clean[(i * 37) % len(clean)] for i in range(len(clean))][:self.args.clean]
        texts = [clean_texts.TEXTS[(i * 91) % len(clean_texts.TEXTS)] for i in range(len(clean_texts.TEXTS))][:self.args.texts]
        with open(self.path, "a", encoding="utf-8") as file:
            with Server(self.args, self.folder) as server:
                self.replies(server, file, "replies", prompts)
                self.replies(server, file, "clean", clean)
            self.texts(file, texts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("folder")
    run.add_argument("--model", default="smollm2-135m")
    run.add_argument("--replies", type=int, default=500)
    run.add_argument("--clean", type=int, default=len(clean_texts.PROMPTS))
    run.add_argument("--texts", type=int, default=len(clean_texts.TEXTS))
    run.add_argument("--max-tokens", type=int, default=512)
    run.add_argument("--threads", type=int, default=0)
    run.add_argument("--slots", type=int, default=1)
    run.add_argument("--fuse-window", type=int, default=5)
    run.add_argument("--fuse-limit", type=float, default=0.03)
    run.add_argument("--seconds", type=float, default=0)
    run.add_argument("--wane", default="build/wane")
    run.add_argument("--forcer", default="build/tests/bench_fuse")
    report = commands.add_parser("report")
    report.add_argument("folder")
    for one in (run, report):
        one.add_argument("--json")
    args = parser.parse_args()
    try:
        if args.command == "run":
            Run(args).all()
        result = report_of(pathlib.Path(args.folder))
    except (Stop, OSError, subprocess.CalledProcessError) as why:
        print(f"\nloops.py: {why}", file=sys.stderr)
        return 1
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(result, indent=1) + "\n")
    show(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
