#!/usr/bin/env python3
"""How often the answers are right in the modes off, legacy and wane, and what that costs.

usage: quality.py run FOLDER --set gsm8k|humaneval --data FILE.gz --model NAME [--items N] [--modes off,legacy,wane]
                  [--budgets 8,0,2,32] [--temperature 0.8] [--threads N] [--slots 4] [--seed 1] [--max-tokens 400]
                  [--skip N] [--at-once N] [--turn 12] [--record] [--seconds N] [--gate FILE] [--set-wane WORDS]
                  [--wane build/wane] [--json FILE]
       quality.py report FOLDER... [--json FILE]

run: start `wane serve` in each mode by turns, --turn items each, and send it the items of the set, several at once. --items takes the first so many
of the set in an order that the seed makes; 0: all; --skip leaves out the first so many of these. An item has the same seed in all modes. In mode wane
there is one turn for each doubt budget of --budgets; the first of them stands for the mode in the comparison, all of them are the curve. --set-wane
WORDS: more options of the server in mode wane. --at-once N: so many requests at once (as many as slots; a vote takes three of these). --record: keep
traces in FOLDER/traces. Each finished request is a line of FOLDER/replies.jsonl: a run that was stopped, or that stopped itself after about
--seconds, goes on where it was, also with more items, modes or budgets. The report goes to standard output and to FOLDER/report.json; `report` makes
it anew of what is there, also of several folders together: runs of other items, modes or budgets with the same settings, side by side or on several
machines.

gsm8k (github.com/openai/grade-school-math, its test file through gzip): right if the number behind the reply's last #### is the
item's. The vote is told to compare these numbers. humaneval (github.com/openai/human-eval, HumanEval.jsonl.gz): right if the item's
tests pass in bench/sandbox.py. Only items that were answered in all modes and budgets are compared. docs/quality.md says how to read
the report.
"""
import argparse
import concurrent.futures
import decimal
import gzip
import hashlib
import json
import math
import pathlib
import random
import re
import shlex
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandbox  # noqa: E402
import serving  # noqa: E402
from serving import Stop, seed_of, wilson  # noqa: E402

MODES = ["off", "legacy", "wane"]
FIELDS = {"item", "mode", "budget", "right", "tokens", "spare_tokens", "vote", "finish"}  # of a reply that counts
DRAWS = 10000  # of the bootstrap

# The same expression is given to the server, whose vote compares its first group; ICU and Python read it alike.
VALUE = r"####\s*[$€£]?\s*(-?[$€£]?[0-9][0-9,]*(?:\.[0-9]+)?|-?\.[0-9]+)"

ASK_NUMBER = ("Solve the problem step by step, one short line for each step. The last line is #### and then the number alone.\n\n")
SHOWN = [("A baker makes 25 rolls. He sells 3 bags of 5 rolls each and eats 2 of the others. How many rolls are left?",
          "3 bags hold 3 * 5 = 15 rolls.\n25 - 15 = 10 rolls are not sold.\n10 - 2 = 8 rolls are left.\n#### 8"),
         ("A ticket to the museum costs $14, and children pay half of that. What do 2 adults and 3 children pay together?",
          "A child pays 14 / 2 = $7.\n2 adults pay 2 * 14 = $28.\n3 children pay 3 * 7 = $21.\nTogether they pay 28 + 21 = $49.\n"
          "#### 49")]
ASK_CODE = "Complete this Python function. Reply with the whole function, with its imports, in one block of code.\n\n"


# -------------------------------------------------------------------------------------------------------- sets and scoring

def number_of(text):
    """A number as it is compared: 1,200.50 and $1200.5 are the same. None when it is none."""
    try:
        return decimal.Decimal(re.sub(r"[$€£,\s]", "", text))
    except decimal.InvalidOperation:
        return None


def value_of(reply):
    """What stands behind the last ####, or None."""
    found = re.findall(VALUE, reply)
    return found[-1] if found else None


def program_of(reply, item):
    """The program that a reply means: what the prompt has before the function and the reply's, or the prompt and its body."""
    name = re.escape(item["entry_point"])
    defines = re.compile(rf"^(?:async )?def +{name}\b", re.M)
    blocks = re.findall(r"^[ \t]*```[^\n`]*\n(.*?)(?:^[ \t]*```|\Z)", reply, re.M | re.S)
    code = next((b for b in blocks if defines.search(b)), blocks[0] if blocks else reply)
    if defines.search(code):
        if not blocks:  # talk around it
            begin = re.search(r"^(?:from |import |def |@)", code, re.M)
            code = code[begin.start():]
        before = defines.search(item["prompt"])
        return item["prompt"][:before.start() if before else 0] + "\n" + code
    return item["prompt"] + code


class Numbers:
    name, pattern = "gsm8k", VALUE

    @staticmethod
    def item(line, at):
        return {"name": f"gsm8k/{at}", "question": line["question"], "answer": line["answer"].rsplit("####", 1)[1].strip()}

    @staticmethod
    def messages(item):
        talk = []
        for question, answer in SHOWN:
            talk += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        talk.append({"role": "user", "content": item["question"]})
        talk[0]["content"] = ASK_NUMBER + talk[0]["content"]
        return talk

    @staticmethod
    def score(reply, item):
        value = value_of(reply)
        if value is None:
            return {"right": False, "why": "no number behind ####"}
        right = number_of(value) is not None and number_of(value) == number_of(item["answer"])
        return {"right": right, "why": "" if right else f"{value} is not {item['answer']}"}


class Code:
    name, pattern = "humaneval", None

    @staticmethod
    def item(line, at):
        return {"name": line["task_id"], **{k: line[k] for k in ("prompt", "entry_point", "test")}}

    @staticmethod
    def messages(item):
        return [{"role": "user", "content": f"{ASK_CODE}```python\n{item['prompt'].strip()}\n```"}]

    @staticmethod
    def score(reply, item):
        right, why = sandbox.passes(program_of(reply, item), item)
        return {"right": right, "why": why}


SETS = {kind.name: kind for kind in (Numbers, Code)}


def read_items(kind, path, count, seed):
    """The first `count` of the set (0: all) in the seed's order: fewer are the beginning of more."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            items = [kind.item(json.loads(line), at) for at, line in enumerate(file) if line.strip()]
    except (OSError, ValueError, KeyError, IndexError) as why:
        raise Stop(f"{path} is not the gzipped JSON lines of {kind.name} ({type(why).__name__}: {why}); the help says where "
                   "they come from") from None
    if not items:
        raise Stop(f"{path} holds no items")
    random.Random(seed).shuffle(items)
    return items[:count] if count else items


# ---------------------------------------------------------------------------------------------------------------- intervals

def mcnemar(better, worse):
    """Two-sided exact p of so many items right in one of two modes only, were both modes equally good."""
    count = better + worse
    tail = sum(math.comb(count, i) for i in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / 2 ** count)


def paired_interval(better, worse, count, seed=1):
    """
    95 % interval of the difference of two shares over the same items: percentiles of a bootstrap by item. Where no item is right in
    one of them only there is nothing to draw from: then the exact bound of the share of such items.
    """
    if count == 0:
        return -1.0, 1.0
    if better + worse == 0:
        bound = 1 - 0.025 ** (1 / count)
        return -bound, bound
    r = random.Random(seed)
    items = [1] * better + [-1] * worse + [0] * (count - better - worse)
    sums = sorted(sum(r.choices(items, k=count)) for _ in range(DRAWS))
    return sums[int(0.025 * DRAWS)] / count, sums[int(0.975 * DRAWS) - 1] / count


def compare(a, b):
    """How two lists of rights and wrongs of the same items differ: a minus b."""
    better, worse = sum(x and not y for x, y in zip(a, b)), sum(y and not x for x, y in zip(a, b))
    low, high = paired_interval(better, worse, len(a))
    return {"difference": (better - worse) / len(a) if a else 0.0, "low": low, "high": high, "better": better, "worse": worse,
            "p": mcnemar(better, worse)}


# -------------------------------------------------------------------------------------------------------------------- report

def variant(mode, budget):
    return f"wane {budget}" if mode == "wane" else mode


def summary(lines):
    count, hits = len(lines), sum(line["right"] for line in lines)
    tokens, spare = sum(line["tokens"] for line in lines), sum(line["spare_tokens"] for line in lines)
    votes = [line["vote"] for line in lines if line["vote"]]
    low, high = wilson(hits, count)
    return {"requests": count, "right": hits, "accuracy": hits / count if count else 0.0, "low": low, "high": high,
            "tokens": tokens, "spare_tokens": spare, "cost": (tokens + spare) / tokens if tokens else 0.0,
            "decoded": (tokens + spare) / count if count else 0.0,
            "wakes": len(votes) / count if count else 0.0, "votes": len(votes),
            "changed": sum(vote["chosen"] != 0 for vote in votes), "by_value": sum(vote["by_value"] for vote in votes),
            "cut": sum(line["finish"] == "length" for line in lines)}


def choose_budget(curve):
    """The cheapest budget that is not below the best one by more than the interval of their difference."""
    best = max(curve, key=lambda row: (row["accuracy"], -row["cost"]))
    for row in curve:
        row["to_best"] = compare(row["rights"], best["rights"])
    fine = [row for row in curve if row is best or row["to_best"]["high"] >= 0]
    return min(fine, key=lambda row: (row["cost"], -row["budget"]))["budget"], best["budget"]


def make_report(settings, lines):
    """The report of the items that all variants have answered."""
    by = {}
    for line in lines:
        by.setdefault(variant(line["mode"], line["budget"]), {})[line["item"]] = line
    wanted = [variant(mode, b) for mode in settings["modes"] for b in (settings["budgets"] if mode == "wane" else [None])]
    names = sorted(set.intersection(*(set(by.get(name, {})) for name in wanted)) if wanted else [])
    chosen = {name: [by.get(name, {})[item] for item in names] for name in wanted}
    rights = {name: [line["right"] for line in chosen[name]] for name in wanted}
    first = {"off": "off", "legacy": "legacy", "wane": variant("wane", settings["budgets"][0])}
    modes = {mode: summary(chosen[first[mode]]) for mode in settings["modes"]}
    pairs = {f"{a} - {b}": compare(rights[first[a]], rights[first[b]])
             for a, b in (("wane", "legacy"), ("wane", "off"), ("legacy", "off")) if a in modes and b in modes}
    report = {**settings, "compared": len(names), "answered": {name: len(by.get(name, {})) for name in wanted},
              "modes_report": modes, "differences": pairs}
    if "wane" in settings["modes"]:
        curve = [{"budget": b, "rights": rights[variant("wane", b)], **summary(chosen[variant("wane", b)])}
                 for b in sorted(settings["budgets"])]
        report["chosen_budget"], report["best_budget"] = choose_budget(curve)
        report["curve"] = [{k: v for k, v in row.items() if k != "rights"} for row in curve]
    return report


def points(share):
    return f"{100 * share:+6.1f}"


def show(report):
    print(f"{report['set']}, {report['model']}, temperature {report['temperature']}, at most {report['max_tokens']} tokens, "
          f"seed {report['seed']}: {report['compared']} items that were answered everywhere, of {report['count']}")
    if report["compared"] == 0:
        print("nothing to compare yet")
        return
    print("\nmode      right  accuracy    95 % (Wilson)  decoded/delivered  wakes/request  votes  changed  by value   cut")
    for mode, m in report["modes_report"].items():
        print(f"{mode:<8} {m['right']:>6} {100 * m['accuracy']:>8.1f}% {100 * m['low']:>7.1f} to {100 * m['high']:>4.1f}% "
              f"{m['cost']:>18.3f} {m['wakes']:>14.3f} {m['votes']:>6} {m['changed']:>8} {m['by_value']:>9} {m['cut']:>5}")
    print("\ndifference      points   95 % (bootstrap by item)  only first  only second  p (McNemar, exact)")
    for name, d in report["differences"].items():
        print(f"{name:<14} {points(d['difference'])}        {points(d['low'])} to {points(d['high'])} {d['better']:>11} "
              f"{d['worse']:>12} {d['p']:>20.3f}")
    if "curve" in report:
        print("\ndoubt budget  accuracy    95 % (Wilson)  decoded/delivered  wakes/request  changed  to the best (points, 95 %)")
        for row in report["curve"]:
            t = row["to_best"]
            print(f"{row['budget']:>12} {100 * row['accuracy']:>8.1f}% {100 * row['low']:>7.1f} to {100 * row['high']:>4.1f}% "
                  f"{row['cost']:>18.3f} {row['wakes']:>14.3f} {row['changed']:>8}  {points(t['difference'])} "
                  f"({points(t['low'])} to {points(t['high'])})")
        print(f"the cheapest budget that is not below the best one ({report['best_budget']}) by more than their interval: "
              f"{report['chosen_budget']}")
    if report["sandbox_lacks"]:
        print("\nthe sandbox lacked: " + "; ".join(report["sandbox_lacks"]))


# ----------------------------------------------------------------------------------------------------------------- the run

class Server(serving.Server):
    """`wane serve` in one mode."""

    def __init__(self, args, kind, folder, mode, budget):
        options = ["--breaker-wakes", "0", "--mode", mode]
        if budget is not None:
            options += ["--doubt-budget", str(budget)]
        if mode == "wane":
            options += shlex.split(args.set_wane)
        if args.gate:
            options += ["--gate", args.gate]
        if args.record:
            traces = folder / "traces" / variant(mode, budget).replace(" ", "-")
            traces.mkdir(parents=True, exist_ok=True)
            options += ["--no-compress", "--record", str(traces)]
        if kind.pattern:
            options += ["--final-value", kind.pattern]
        super().__init__(args, folder, variant(mode, budget), options)

    def judge(self):
        """In mode wane without a gate every request votes: that would be measured as something that it is not."""
        if not self.name.startswith("wane"):
            return
        if re.search(r"^wane_gate_on 1$", self.metrics(), re.M) is None:
            raise Stop("the model has no gate, so that all requests would vote in mode wane; --gate names one, --modes leaves "
                       "the mode out")


class Run(serving.Run):
    def __init__(self, args):
        self.kind = SETS[args.set]
        self.items = read_items(self.kind, args.data, args.items, args.seed)[args.skip:]
        if not self.items:
            raise Stop(f"--skip {args.skip} leaves no item")
        settings = {name: getattr(args, name) for name in ("set", "model", "temperature", "max_tokens", "seed", "slots", "threads", "gate")}
        settings["set_wane"] = args.set_wane
        settings["data"] = hashlib.sha256(pathlib.Path(args.data).read_bytes()).hexdigest()[:16]
        settings["wane"] = version_of(args.wane)
        more = {"modes": args.modes, "budgets": args.budgets, "count": len(self.items),
                "sandbox_lacks": list(sandbox.missing()) if args.set == "humaneval" else []}
        super().__init__(args, "replies.jsonl", FIELDS, lambda line: (line["item"], line["mode"], line["budget"]), settings, more)

    def one(self, server, mode, budget, item):
        if self.over():
            return
        begun, seed = time.time(), seed_of(self.args.seed, item["name"])
        reply = server.ask({"messages": self.kind.messages(item), "temperature": self.args.temperature, "seed": seed,
                            "max_tokens": self.args.max_tokens})
        text, vote = reply["choices"][0]["message"]["content"] or "", reply.get("wane", {}).get("vote")
        self.keep({"item": item["name"], "mode": mode, "budget": budget, "seed": seed, "reply": text,
                   "finish": reply["choices"][0]["finish_reason"], "prompt_tokens": reply["usage"]["prompt_tokens"],
                   "tokens": reply["usage"]["completion_tokens"], "spare_tokens": vote["spare_tokens"] if vote else 0, "vote": vote,
                   "ms": round(1000 * (time.time() - begun)), **self.kind.score(text, item)})

    def turn(self, mode, budget, items):
        """One mode's server, and those of these items that it has not answered."""
        left = [item for item in items if (item["name"], mode, budget) not in self.done]
        if not left or self.over():
            return
        with Server(self.args, self.kind, self.folder, mode, budget) as server, \
                concurrent.futures.ThreadPoolExecutor(self.args.at_once or self.args.slots) as pool:
            try:
                jobs = [pool.submit(self.one, server, mode, budget, item) for item in left]
                for job in concurrent.futures.as_completed(jobs):
                    job.result()
            except BaseException:
                self.stopping = True
                server.process.terminate()  # so that nobody waits for the rest
                raise

    def all(self):
        turns = [(mode, b) for mode in self.args.modes for b in (self.args.budgets if mode == "wane" else [None])]
        with self:
            for at in range(0, len(self.items), self.args.turn):
                for mode, budget in turns:
                    self.turn(mode, budget, self.items[at:at + self.args.turn])
                    self.say(f"{variant(mode, budget)}:", min(at + self.args.turn, len(self.items)), len(self.items))
                if self.over():
                    print("quality.py: the time is up; the same command goes on from here", file=sys.stderr)
                    return


def version_of(wane):
    try:
        return subprocess.run([wane, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as why:
        raise Stop(f"{wane} does not run: {why}") from None


def read_lines(path):
    return serving.read_lines(path, FIELDS)


def join(folders):
    """Settings and lines of runs of the same kind: all their modes, budgets and items."""
    first, lines, kept = serving.read_settings(folders[0]), [], ("modes", "budgets", "count", "sandbox_lacks")
    for folder in folders:
        settings = serving.read_settings(folder)
        for name in set(settings) | set(first):
            if name not in kept and settings.get(name) != first.get(name):
                raise Stop(f"{folder} holds a run with {name} {settings.get(name)}, and {folders[0]} one with {first.get(name)}")
        for name in kept:
            first[name] = max(first[name], settings[name]) if name == "count" else list(dict.fromkeys(first[name] + settings[name]))
        lines += read_lines(folder / "replies.jsonl")
    first["modes"].sort(key=MODES.index)
    return first, lines


def report(args):
    folders = [pathlib.Path(folder) for folder in [args.folder, *args.more]]
    made = make_report(*join(folders))
    serving.write_result(folders[0], made, args.json, indent=2)
    show(made)


def some(kind, allowed=None):
    def read(text):
        values = [kind(word) for word in text.split(",")]
        if len(set(values)) != len(values) or any(v not in allowed if allowed else v < 0 for v in values):
            raise ValueError
        return values
    return read


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("more", metavar="FOLDER", nargs="*")
    parser.add_argument("--set", choices=sorted(SETS))
    parser.add_argument("--data")
    parser.add_argument("--model")
    parser.add_argument("--items", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--modes", type=some(str, MODES), default=MODES)
    parser.add_argument("--budgets", type=some(int), default=[8])
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--at-once", type=int, default=0)
    parser.add_argument("--turn", type=int, default=12)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-tokens", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--gate")
    parser.add_argument("--set-wane", default="")
    parser.add_argument("--wane", default="build/wane")
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.what == "run" and not (args.set and args.data and args.model):
        parser.error("a run needs --set, --data and --model")
    if args.what == "run" and args.more:
        parser.error("a run has one folder")
    if min(args.slots, args.max_tokens, args.turn) < 1 or min(args.items, args.skip, args.at_once) < 0:
        parser.error("--slots, --max-tokens and --turn begin at 1, --items, --skip and --at-once at 0")

    return serving.carry_out("quality.py", (lambda: Run(args).all()) if args.what == "run" else None, lambda: report(args))


if __name__ == "__main__":
    sys.exit(main())
