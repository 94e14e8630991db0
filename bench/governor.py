#!/usr/bin/env python3
"""What the governor does to replies: diversity, loops, and how often answers are right, with it and without it.

usage: governor.py run FOLDER --model NAME [--sets text,questions,humaneval] [--items N] [--replies 4] [--data HumanEval.jsonl.gz]
                   [--off OPTIONS] [--on OPTIONS] [--temperature 0.8] [--max-tokens N] [--slots 4] [--threads N] [--seed 1]
                   [--seconds N] [--wane build/wane] [--json FILE]
       governor.py report FOLDER [--json FILE]

run: start `wane serve` with the options --off and --on by turns, a few prompts each, and ask both the same with the same seeds. Defaults:
--off "--mode wane --answers 1 --no-governor --fuse off", --on "--mode wane --answers 1 --governor --fuse loop --fallback none". Sets: text, open prompts (bench/data/prompts.txt) with --replies
replies each; questions with known answers (bench/data/questions.tsv); humaneval (github.com/openai/human-eval, HumanEval.jsonl.gz), which
--data names. --items takes the first so many of each set in an order that the seed makes; 0: all. Each finished reply is a line of
FOLDER/replies.jsonl: a run that was stopped, or that stopped itself after about --seconds, goes on where it was. The report goes to
standard output and to FOLDER/report.json; `report` makes it anew of what is there.

Of text: distinct-n is the share of different n-grams of words among all of a prompt's replies; self-BLEU is how alike they are (BLEU-4 of each
against the others, mean). A loop is a stretch of words that says the same three times over and is 24 words long or longer. Of questions: right if
the pattern is found in the first 200 characters. Of humaneval: right if the item's tests pass in bench/sandbox.py. Differences are paired: by
prompt, by reply, by item; intervals are percentiles of 10,000 draws.
"""
import argparse
import collections
import concurrent.futures
import json
import math
import pathlib
import random
import re
import shlex
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import quality  # noqa: E402
import serving  # noqa: E402

ARMS = ["off", "on"]
SETS = {"text": 200, "questions": 40, "humaneval": 400}  # tokens of a reply, unless said
CHUNK, DRAWS = 12, 10000
FIELDS = {"set", "item", "arm", "reply", "loop"}  # of a reply that counts
LOOP_TIMES, LOOP_WORDS, LOOP_PERIOD = 3, 24, 80
ANSWER_CHARACTERS = 200


# -------------------------------------------------------------------------------------------------------------------- measures

def words_of(text):
    """Words, signs and single Han characters."""
    return re.findall(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+|[^\w\s]", text.lower())


def loop_of(text):
    """The period of a loop in words, or 0."""
    words = words_of(text)
    for period in range(1, min(LOOP_PERIOD, len(words) // LOOP_TIMES) + 1):
        need, run = max((LOOP_TIMES - 1) * period, LOOP_WORDS - period), 0
        for at in range(period, len(words)):
            run = run + 1 if words[at] == words[at - period] else 0
            if run >= need:
                return period
    return 0


def grams(words, n):
    return [tuple(words[i:i + n]) for i in range(len(words) - n + 1)]


def distinct(replies, n):
    """Different n-grams among all of them; None where there are none."""
    all_of_them = [g for words in replies for g in grams(words, n)]
    return len(set(all_of_them)) / len(all_of_them) if all_of_them else None


def bleu(words, others):
    """BLEU-4 against the others (Papineni and others 2002); a precision of zero counts as half a match."""
    if not words:
        return 0.0
    total = 0.0
    for n in range(1, 5):
        own = collections.Counter(grams(words, n))
        most = collections.Counter()
        for other in others:
            most |= collections.Counter(grams(other, n))
        count = sum(own.values())
        if count == 0:
            return 0.0
        total += math.log(max(sum(min(c, most[g]) for g, c in own.items()), 0.5) / count) / 4
    nearest = min((abs(len(o) - len(words)), len(o)) for o in others)[1]
    return math.exp(total) * (1 if len(words) >= nearest else math.exp(1 - nearest / len(words)))


def self_bleu(replies):
    if len(replies) < 2:
        return None
    return sum(bleu(words, replies[:i] + replies[i + 1:]) for i, words in enumerate(replies)) / len(replies)


def mean(values):
    return sum(values) / len(values) if values else float("nan")


def mean_interval(values, seed=1):
    """Mean and its 95 % interval."""
    if not values:
        return [float("nan")] * 3
    r = random.Random(seed)
    draws = sorted(mean(r.choices(values, k=len(values))) for _ in range(DRAWS))
    return [mean(values), draws[int(0.025 * DRAWS)], draws[int(0.975 * DRAWS) - 1]]


# ------------------------------------------------------------------------------------------------------------------------ sets

def items_of(args, name):
    """[(name of the item, messages, what scoring wants)], in the seed's order."""
    if name == "humaneval":
        if not args.data:
            raise serving.Stop("humaneval needs --data HumanEval.jsonl.gz")
        items = quality.read_items(quality.Code, args.data, args.items, args.seed)
        return [(i["name"], quality.Code.messages(i), i) for i in items]
    file = HERE / "data" / ("prompts.txt" if name == "text" else "questions.tsv")
    lines = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    if name == "text":
        items = [(f"text/{at}/{n}", [{"role": "user", "content": line[0]}], None)
                 for at, line in enumerate(lines) for n in range(args.replies)]
        order = list(range(len(lines)))
        random.Random(args.seed).shuffle(order)
        kept = set(order[:args.items] if args.items else order)
        return [i for i in items if int(i[0].split("/")[1]) in kept]
    items = [(f"questions/{at}", [{"role": "user", "content": line[0] + (" Answer in a few words." if line[0].isascii() else "")}], line[1])
             for at, line in enumerate(lines)]
    random.Random(args.seed).shuffle(items)
    return items[:args.items] if args.items else items


def score(name, reply, wanted):
    if name == "text":
        return {"loop": loop_of(reply)}
    if name == "questions":
        return {"right": re.search(wanted, reply[:ANSWER_CHARACTERS], re.I) is not None, "loop": loop_of(reply)}
    return {"right": quality.Code.score(reply, wanted)["right"], "loop": loop_of(reply)}


# ---------------------------------------------------------------------------------------------------------------------- report

def show(value, form="{:.3f}"):
    return "[" + " to ".join(form.format(v) for v in value[1:]) + "]"


def report_text(lines):
    by = {arm: collections.defaultdict(list) for arm in ARMS}
    for line in lines:
        if line["set"] == "text":
            by[line["arm"]][line["item"].rsplit("/", 1)[0]].append((line["item"], words_of(line["reply"])))
    # Only prompts whose replies both sides have given, all of them.
    both = [p for p in by["off"] if {i for i, _ in by["off"][p]} == {i for i, _ in by["on"][p]}]
    replies = {arm: [[w for _, w in sorted(by[arm][p])] for p in both] for arm in ARMS}
    out = {"prompts": len(both), "replies": sum(len(r) for r in replies["off"])}
    for name, measure in [(f"distinct-{n}", lambda r, n=n: distinct(r, n)) for n in (1, 2, 3)] + [("self-BLEU", self_bleu)]:
        values = {arm: [measure(r) for r in replies[arm]] for arm in ARMS}
        pairs = [(a, b) for a, b in zip(values["off"], values["on"]) if a is not None and b is not None]
        out[name] = {"off": mean([a for a, _ in pairs]), "on": mean([b for _, b in pairs]),
                     "difference": mean_interval([b - a for a, b in pairs])}
    return out


def paired(lines, sets, key):
    """Both sides' values of the same items."""
    by = {arm: {line["item"]: bool(line[key]) for line in lines if line["arm"] == arm and line["set"] in sets} for arm in ARMS}
    both = sorted(set(by["off"]) & set(by["on"]))
    return [by["off"][i] for i in both], [by["on"][i] for i in both]


def report_shares(lines, sets, key):
    off, on = paired(lines, sets, key)
    return {"items": len(off), "off": [mean(off), *serving.wilson(sum(off), len(off))], "on": [mean(on), *serving.wilson(sum(on), len(on))],
            **quality.compare(on, off)}


def make_report(settings, lines):
    report = {**settings, "answered": dict(collections.Counter(f"{line['set']} {line['arm']}" for line in lines))}
    if "text" in settings["sets"]:
        report["diversity"] = report_text(lines)
    report["loops"] = report_shares(lines, settings["sets"], "loop")
    for name in settings["sets"]:
        if name != "text":
            report[name] = report_shares([line for line in lines if line["set"] == name], [name], "right")
    return report


def print_report(report):
    print(f"{report['model']}, temperature {report['temperature']}, seed {report['seed']}\noff: {report['off']}\non:  {report['on']}\n")
    if "diversity" in report:
        d = report["diversity"]
        print(f"{d['prompts']} prompts, {d['replies']} replies of each side")
        for name in ("distinct-1", "distinct-2", "distinct-3", "self-BLEU"):
            row = d[name]
            print(f"  {name:<11} off {row['off']:.3f}  on {row['on']:.3f}  difference {row['difference'][0]:+.3f} "
                  f"{show(row['difference'], '{:+.3f}')}")
    row = report["loops"]
    print(f"loops in 1,000 replies ({row['items']} pairs): off {1000 * row['off'][0]:.1f} {show([1000 * v for v in row['off']], '{:.1f}')}  "
          f"on {1000 * row['on'][0]:.1f} {show([1000 * v for v in row['on']], '{:.1f}')}  difference {1000 * row['difference']:+.1f} "
          f"[{1000 * row['low']:+.1f} to {1000 * row['high']:+.1f}]")
    for name in ("questions", "humaneval"):
        if name in report:
            row = report[name]
            print(f"{name} ({row['items']}): off {100 * row['off'][0]:.1f} %  on {100 * row['on'][0]:.1f} %  difference "
                  f"{100 * row['difference']:+.1f} points [{100 * row['low']:+.1f} to {100 * row['high']:+.1f}], p {row['p']:.3f} (McNemar)")


# ------------------------------------------------------------------------------------------------------------------------- run

class Server(serving.Server):
    """`wane serve` on one side."""

    def __init__(self, args, folder, arm):
        super().__init__(args, folder, arm, ["--breaker-wakes", "0", *shlex.split(getattr(args, arm))])

    def judge(self):
        """A governor that is off is not to be measured as one that is on."""
        if self.name == "on" and re.search(r"^wane_governor_on(\{[^}]*\})? 1$", self.metrics(), re.M) is None:
            raise serving.Stop("the model has no profile with a signal, so that its governor stays off; `wane tune` makes one")


class Run(serving.Run):
    def __init__(self, args):
        settings = {n: getattr(args, n) for n in ("model", "temperature", "seed", "off", "on", "max_tokens", "replies")}
        super().__init__(args, "replies.jsonl", FIELDS, lambda line: (line["item"], line["arm"]), settings, {"sets": args.sets})

    def one(self, server, name, item):
        if self.over():
            return
        which, messages, wanted = item
        answer = server.ask({"messages": messages, "temperature": self.args.temperature, "seed": serving.seed_of(self.args.seed, which),
                             "max_tokens": self.args.max_tokens or SETS[name]})
        choice = answer["choices"][0]
        text = choice["message"]["content"] or ""
        self.keep({"set": name, "item": which, "arm": server.name, "reply": text, "finish": choice["finish_reason"],
                   "tokens": answer["usage"]["completion_tokens"], "wane": answer.get("wane"), **score(name, text, wanted)})

    def turn(self, name, arm, items):
        left = [item for item in items if (item[0], arm) not in self.done]
        if not left or self.over():
            return
        with Server(self.args, self.folder, arm) as server, concurrent.futures.ThreadPoolExecutor(self.args.slots) as pool:
            try:
                for job in concurrent.futures.as_completed([pool.submit(self.one, server, name, item) for item in left]):
                    job.result()
            except BaseException:
                self.stopping = True
                server.process.terminate()  # so that nobody waits for the rest
                raise

    def all(self):
        with self:
            for name in self.args.sets:
                items = items_of(self.args, name)
                chunk = max(CHUNK, self.args.replies * 6) if name == "text" else 4 * CHUNK
                for at in range(0, len(items), chunk):
                    for arm in ARMS:
                        self.turn(name, arm, items[at:at + chunk])
                    self.say(name, min(at + chunk, len(items)), len(items))
                    if self.over():
                        print("governor.py: the time is up; the same command goes on from here", file=sys.stderr)
                        return


def report(args):
    folder = pathlib.Path(args.folder)
    made = make_report(serving.read_settings(folder), serving.read_lines(folder / "replies.jsonl", FIELDS))
    for path in [folder / "report.json"] + ([pathlib.Path(args.json)] if args.json else []):
        path.write_text(json.dumps(made, indent=2) + "\n")
    print_report(made)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--model")
    parser.add_argument("--sets", type=quality.some(str, list(SETS)), default=["text", "questions"])
    parser.add_argument("--items", type=int, default=0)
    parser.add_argument("--replies", type=int, default=4)
    parser.add_argument("--data")
    parser.add_argument("--off", default="--mode wane --answers 1 --no-governor --fuse off")
    parser.add_argument("--on", default="--mode wane --answers 1 --governor --fuse loop --fallback none")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--max-tokens", type=int, default=0)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--wane", default="build/wane")
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.what == "run" and not args.model:
        parser.error("a run needs --model")
    if args.slots < 1 or args.items < 0 or args.replies < 1 or args.max_tokens < 0:
        parser.error("--slots and --replies begin at 1, --items and --max-tokens at 0")

    return serving.carry_out("governor.py", (lambda: Run(args).all()) if args.what == "run" else None, lambda: report(args))


if __name__ == "__main__":
    sys.exit(main())
