#!/usr/bin/env python3
"""Programs that people already run, with `wane exec` in front and without: tokens a second, and whether the tokens are the same.

usage: bench/adapters/run.py run FOLDER --model NAME [--programs llama-server,llama-bench,node] [--samplings greedy,default] [--streams 1,4]
                             [--drafts off,on] [--rounds 3] [--tokens 128] [--threads 2] [--seconds N] [--wane build/wane] [--json FILE]
       bench/adapters/run.py report FOLDER [--json FILE]

run: of each program two copies stand side by side, one under `wane exec`, and each request goes to both, one after the other, in an order
that alternates, so that whatever else the machine does meets both alike. A pair is a line of FOLDER/lines.jsonl, and a run that was stopped, or that
stopped itself after about --seconds, goes on where it was. llama-server and llama-bench are those of the pinned release (scripts/engine --server makes
them, minutes of a core, once); node is bench/adapters/node.mjs on the package that tests/exec/node pins (tests/exec/run --node installs it).

Sampling: greedy; default is what the program does when nobody says (llama-server: temperature 0.8, top-k 40, top-p 0.95, min-p 0.05), or, for
node, whose default is greedy, temperature 0.8, top-k 40, top-p 0.95; seeds are given, so that tokens can be compared. Drafts are
llama-server's own (ngram-mod), on prompts that repeat themselves. llama-bench draws no tokens: only its time is compared.

Decoding alone is timed, by the program's own clock; of several streams, all their tokens in the time of the longest. What the report gives is the
median of the pairs' ratios. Tokens count as compared up to the first one that differs, in each reply. Where there are several streams, the copy without
`wane exec` answers twice, because a program may not be like itself there.
"""
import argparse
import itertools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import threading

BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))
import rivals  # noqa: E402
import serving  # noqa: E402
from serving import Stop  # noqa: E402

FIELDS = {"case", "prompt", "round", "plain", "exec"}  # of a line that counts
OPENINGS = ["The lighthouse keeper had not spoken to anyone for three weeks when", "To repair a bicycle tyre, you first",
            "In the year 1905 a young clerk in Bern", "Dear customer,\nthank you for your letter about", "Photosynthesis is the process by which",
            "def parse_date(text):\n    \"\"\"", "The three most common mistakes in a kitchen are", "Once upon a time, in a village by the sea, there lived"]
GREEDY = {"temperature": 0}
TIMED_LEAST = 12  # tokens; what ends sooner is compared, not timed
DRAFTS = ["--spec-type", "ngram-mod", "--spec-ngram-mod-n-match", "8", "--spec-ngram-mod-n-min", "4", "--spec-ngram-mod-n-max", "48"]


def prompts(drafts, streams, turn):
    """Sets of as many prompts as there are streams, with names; other ones in each round where they repeat themselves."""
    one = [text for _, text in rivals.prompts("short", turn)] if drafts else OPENINGS
    shifted = [one[i:] + one[:i] for i in range(len(one))]
    return [(f"{i}", mine[:streams]) for i, mine in enumerate(shifted) if streams == 1 or i % 2 == 0]


# --------------------------------------------------------------------------------------------------------------- programs

class Case:
    """One program in one way of use: two copies of it, `plain` and `exec`, from entering to leaving."""

    def __init__(self, args, program, sampling, streams, drafts):
        self.args, self.program, self.sampling, self.streams, self.drafts = args, program, sampling, streams, drafts
        self.name = f"{program} {sampling} {streams}" + (" drafts" if drafts else "")
        self.copies = {}

    def under(self, folder, kind):
        """What stands before the command of a copy, and its environment."""
        if kind == "plain":
            return [], {}
        stats = folder / "stats.json"
        stats.unlink(missing_ok=True)
        return [self.args.wane, "exec", "--"], {"WANE_STATS": str(stats)}

    def folder(self, kind):
        path = pathlib.Path(self.args.folder) / self.name.replace(" ", "-") / kind
        path.mkdir(parents=True, exist_ok=True)
        return path

    def __enter__(self):
        try:
            for kind in ("plain", "exec"):
                self.copies[kind] = self.start(kind)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for copy in self.copies.values():
            copy.__exit__()
        self.copies = {}

    def stats(self):
        """What the copy under `wane exec` said of itself when it ended."""
        try:
            return json.loads((self.folder("exec") / "stats.json").read_text())
        except (OSError, ValueError):
            return None


class Host(rivals.Way):
    """A llama-server, under `wane exec` or not."""

    def __init__(self, case, kind):
        args, folder = case.args, case.folder(kind)
        super().__init__(args, folder, case.name, ["--parallel", str(case.streams), "--ctx-size", str(1024 * case.streams), *(DRAFTS if case.drafts else [])],
                         args.llama_server)
        before, more = case.under(folder, kind)
        self.command = [*before, *self.command]
        self.environment.update(more)


class ServerCase(Case):
    def start(self, kind):
        return Host(self, kind).__enter__()

    def measure(self, kind, texts, seed, most):
        host, replies = self.copies[kind], [None] * len(texts)
        body = {"n_predict": most, "cache_prompt": False, "return_tokens": True, "seed": seed, **(GREEDY if self.sampling == "greedy" else {})}

        def ask(i):
            try:
                replies[i] = host.ask({**body, "prompt": texts[i]}, "/completion")
            except Stop as why:
                replies[i] = why
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(texts))]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        for one in replies:
            if isinstance(one, Stop):
                raise one
        times = [one["timings"] for one in replies]
        # The first token of each came with its prompt.
        counted = sum(max(one["predicted_n"] - 1, 0) for one in times)
        return {"ms": max(one["predicted_ms"] for one in times), "counted": counted, "ids": [one["tokens"] for one in replies],
                "drafted": sum(one.get("draft_n", 0) for one in times)}


class Lines:
    """A program that answers JSON lines."""

    def __init__(self, case, kind):
        args, folder = case.args, case.folder(kind)
        before, more = case.under(folder, kind)
        self.command = [*before, "node", str(BENCH / "adapters" / "node.mjs"), args.file, str(args.threads), str(case.streams)]
        self.log, kept = folder / "log", ("WANE_CACHE",)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("WANE_") or k in kept}
        if case.streams > 1:  # docs/node.md: several streams sampled at once are mixed up
            environment["UV_THREADPOOL_SIZE"] = "1"
        with open(self.log, "w", encoding="utf-8") as log:
            try:
                self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=args.node,
                                                env={**environment, **more})
            except OSError as why:
                raise Stop(f"{self.command[0]} cannot be started: {why}") from None
        self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise Stop(f"{' '.join(self.command)} ended:\n{self.log.read_text()[-2000:]}")
        return json.loads(line)

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.read()

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class NodeCase(Case):
    def start(self, kind):
        return Lines(self, kind)

    def measure(self, kind, texts, seed, most):
        options = GREEDY if self.sampling == "greedy" else {"temperature": 0.8, "topK": 40, "topP": 0.95, "seed": seed}
        return self.copies[kind].ask({"prompts": texts, "tokens": most, "options": options})


class BenchCase(Case):
    """llama-bench: each measurement is a process of its own, and its tokens are made up."""

    def __enter__(self):
        return self

    def measure(self, kind, _texts, _seed, most):
        before, more = self.under(self.folder(kind), kind)
        command = [*before, str(pathlib.Path(self.args.llama_server).parent / "llama-bench"), "-m", self.args.file, "-p", "0", "-n", str(most),
                   "-r", "1", "-t", str(self.args.threads), "-o", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **more})
        if done.returncode:
            raise Stop(f"{' '.join(command)} gave {done.returncode}:\n{done.stderr[-2000:]}")
        return {"ms": statistics.fmean(json.loads(done.stdout)[0]["samples_ns"]) / 1e6, "counted": most, "ids": []}


def cases(args):
    for program in args.programs.split(","):
        if program == "llama-bench":
            yield BenchCase(args, program, "none", 1, False)
        elif program == "node":
            for sampling, streams in itertools.product(args.samplings.split(","), args.streams.split(",")):
                yield NodeCase(args, program, sampling, int(streams), False)
        elif program == "llama-server":
            for drafts, sampling, streams in itertools.product(args.drafts.split(","), args.samplings.split(","), args.streams.split(",")):
                yield ServerCase(args, program, sampling, int(streams), drafts == "on")
        else:
            raise Stop(f"there is no program {program}; there are llama-server, llama-bench and node")


# -------------------------------------------------------------------------------------------------------------------- run

def measure(args, run, case):
    todo = [(name, texts, i) for i in range(args.rounds) for name, texts in prompts(case.drafts, case.streams, i)
            if (case.name, name, i) not in run.done]
    if case.program == "llama-bench":
        todo = [("made up", [], i) for i in range(args.rounds * 4) if (case.name, "made up", i) not in run.done]
    if not todo or run.over():
        return
    with case:
        if todo[0][1]:  # what is loaded and learned once
            for kind in ("plain", "exec"):
                case.measure(kind, [text + " x" for text in todo[0][1]], 0, 16)
        for turn, (name, texts, i) in enumerate(todo):
            if run.over():
                break
            order = ("plain", "exec") if (turn + i) % 2 == 0 else ("exec", "plain")
            both = {kind: case.measure(kind, texts, 1 + i, args.tokens) for kind in order}
            if case.streams > 1:  # who shares a batch with whom is chance, and a batch's width may change bits: is the program like itself?
                both["again"] = case.measure("plain", texts, 1 + i, args.tokens)["ids"]
            run.keep({"case": case.name, "prompt": name, "round": i, **both})
            run.say(case.name, turn + 1, len(todo))
    said = case.stats()
    if said is not None:
        with open(run.folder / "stats.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"case": case.name, "stats": said}) + "\n")


def installed_node():
    done = subprocess.run([str(BENCH.parent / "tests" / "exec" / "run"), "--node"], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Stop("tests/exec/run --node did not install the package; leave node out of --programs")
    return done.stdout.strip()


def run(args):
    args.file = rivals.model_file(args.model)
    if "llama" in args.programs:
        args.llama_server = args.llama_server or rivals.pinned_server()
    if "node" in args.programs:
        args.node = installed_node()
    settings = {"model": args.model, "threads": args.threads, "tokens": args.tokens}
    with serving.Run(args, "lines.jsonl", FIELDS, lambda line: (line["case"], line["prompt"], line["round"]), settings) as one:
        for case in cases(args):
            measure(args, one, case)


# ----------------------------------------------------------------------------------------------------------------- report

def compared(one, other):
    """Tokens of two replies that were compared, and whether the last of them differs."""
    for i, (a, b) in enumerate(zip(one, other)):
        if a != b:
            return i + 1, True
    return min(len(one), len(other)), len(one) != len(other)


def median(values):
    values = list(values)
    return statistics.median(values) if values else math.nan


def summary(lines):
    pairs = [(line["plain"]["counted"] / line["plain"]["ms"] * 1e3, line["exec"]["counted"] / line["exec"]["ms"] * 1e3) for line in lines
             if min(line["plain"]["counted"], line["exec"]["counted"]) >= TIMED_LEAST]
    replies = [pair for line in lines for pair in zip(line["plain"]["ids"], line["exec"]["ids"])]
    again = [pair for line in lines for pair in zip(line["plain"]["ids"], line.get("again", []))]
    looked = [compared(*pair) for pair in replies]
    gains = sorted(b / a for a, b in pairs) or [math.nan]
    return {"pairs": len(pairs), "plain_tps": median(a for a, _ in pairs), "exec_tps": median(b for _, b in pairs),
            "gain": median(gains), "least": gains[0], "most": gains[-1], "replies": len(replies), "tokens": sum(n for n, _ in looked),
            "differ": sum(d for _, d in looked), "again": len(again), "again_differ": sum(compared(*pair)[1] for pair in again)}


def add(sums, stats):
    """What a copy counted, to what those before it did."""
    for name in ("tokens", "certified", "checked", "divergent"):
        sums[name] = sums.get(name, 0) + stats[name]
    for why, count in stats["dense"].items():
        if count:
            sums.setdefault("dense", {})[why] = sums.get("dense", {}).get(why, 0) + count


def report(args):
    folder = pathlib.Path(args.folder)
    settings, lines = serving.read_settings(folder), serving.read_lines(folder / "lines.jsonl", FIELDS)
    by_case = {}
    for line in lines:
        by_case.setdefault(line["case"], []).append(line)
    result = {**settings, "cases": {name: summary(mine) for name, mine in by_case.items()}}
    result["stats"] = {}
    for line in serving.read_lines(folder / "stats.jsonl", {"case", "stats"}):
        add(result["stats"].setdefault(line["case"], {}), line["stats"])
    print(f"\n{settings['model']}, {settings['threads']} threads, {settings['tokens']} tokens a reply\n")
    print("| program, sampling, streams | tokens/s | with `wane exec` | gain (least to most) | pairs | tokens compared | replies that differ | certified; dense why |")
    print("|---|---|---|---|---|---|---|---|")
    for name, one in result["cases"].items():
        same = f"{one['tokens']:,} | {one['differ']} of {one['replies']}" if one["replies"] else "– | –"
        same += f" ({one['again_differ']} of {one['again']} without twice)" if one["again"] else ""
        said = result["stats"].get(name)
        how = "–" if said is None else f"{said['certified'] / max(said['tokens'], 1):.0%}; " + ", ".join(f"{k} {v:,}" for k, v in said.get("dense", {}).items())
        print(f"| {name} | {one['plain_tps']:.1f} | {one['exec_tps']:.1f} | {one['gain']:.2f} ({one['least']:.2f} to {one['most']:.2f}) | {one['pairs']} | "
              f"{same} | {how} |")
    serving.write_result(folder, result, args.json, indent=1, ensure_ascii=False)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0], add_help=True)
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("folder")
    parser.add_argument("--model", default="gemma3-270m")
    parser.add_argument("--programs", default="llama-server,llama-bench,node")
    parser.add_argument("--samplings", default="greedy,default")
    parser.add_argument("--streams", default="1,4")
    parser.add_argument("--drafts", default="off,on")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--llama-server", default="")
    parser.add_argument("--wane", default=str(BENCH.parent / "build" / "wane"))
    parser.add_argument("--json", default="")
    args = parser.parse_args()
    args.slots = 1
    sys.exit(serving.carry_out("adapters", (lambda: run(args)) if args.what == "run" else None, lambda: report(args)))


if __name__ == "__main__":
    main()
