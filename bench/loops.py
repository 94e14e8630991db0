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
fuse ended a reply that without it ends by itself, or says something new: more than a tenth of what follows, in pieces of 24 characters, was not
said before; of a teacher-forced text, any fire. One reply is decoded at a
time and nothing is reused, so that the fuse's reply is a beginning of the other one; where it is not, floats differed between two engine calls (--slots
above 1 does that), and a fire of such a pair is counted as a false one.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import clean_texts  # noqa: E402
import serving  # noqa: E402

FIELDS = {"part", "item"}  # of a line that counts

TASKS = ["Tell a long story about {}.", "Explain {} in great detail.", "Write an essay on the history of {}.", "Write a long poem about {}.",
         "List everything that you know about {}.", "Describe a day in the life of somebody who works with {}.", "Write a guide for beginners about {}.",
         "Give fifty tips about {}.", "Write a speech in praise of {}.", "Compare {} in ten countries.", "Write a dialogue about {} that goes on and on.",
         "Write the rules of a club for {}.", "Summarise ten books about {}.", "Write a diary of a month that is all about {}.",
         "Ask a hundred questions about {}.", "Write a report on {} for a ministry.", "Invent twenty proverbs about {}.",
         "Write a letter to a friend about {}.", "Explain to a child why {} matter.", "Plan a festival of {} hour by hour."]
TOPICS = ["lighthouses", "bees", "old bridges", "tea", "glaciers", "railway stations", "sailing ships", "mushrooms", "clocks", "wool", "volcanoes", "libraries",
          "bread", "comets", "canals", "violins", "deserts", "maps", "salt", "kites", "owls", "windmills", "tulips", "coral reefs", "chess"]


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


def new_share(rest, before, length=24):
    """Of the pieces of so many characters in `rest`, the share that `before` does not have."""
    seen = {before[i:i + length] for i in range(len(before) - length + 1)}
    pieces = [rest[i:i + length] for i in range(len(rest) - length + 1)]
    return sum(piece not in seen for piece in pieces) / len(pieces) if pieces else 0.0


def goes_on(whole, cut):
    """Without the fuse: does the reply say something new behind the place where the fuse ended it, or end by itself?"""
    return whole["finish"] != "length" or new_share(whole["text"][len(cut["text"]):], cut["text"]) > 0.1


# ------------------------------------------------------------------------------------------------------------------ report

def pairs_of(lines, part):
    by = {}
    for line in lines:
        if line["part"] == part:
            by.setdefault(line["item"], {})[line["domain"]] = line
    return [(p["off"], p["on"]) for p in by.values() if len(p) == 2]


def is_false(off, on):
    return not off["text"].startswith(on["text"]) or goes_on(off, on)


def share(part, whole):
    low, high = serving.wilson(part, whole)
    return {"count": part, "of": whole, "share": part / whole if whole else None, "low": low if whole else None, "high": high if whole else None}


def report_of(folder):
    lines, report = serving.read_lines(folder / "lines.jsonl", FIELDS), serving.read_settings(folder)
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

CONFIG = """[quality]
mode = wane
answers = 1
governor = off
fallback = none

[domain.off]
fuse = off

[domain.on]
fuse = loop
fuse_window = {}
fuse_limit = {}
"""


def key_of(line):
    return line["part"], line["item"], line.get("domain")


class Run(serving.Run):
    def __init__(self, args):
        settings = {name: getattr(args, name) for name in ("model", "max_tokens", "threads", "slots", "fuse_window", "fuse_limit")}
        super().__init__(args, "lines.jsonl", FIELDS, key_of, settings)

    def tell(self, part, done, of):
        if sys.stderr.isatty() or done % 20 == 0 or done == of:
            self.say(part, done, of)

    def pair(self, server, part, item, prompt, extra):
        for domain in ("off", "on"):
            if (part, item, domain) in self.done or self.over():
                continue
            reply = server.ask({"messages": [{"role": "user", "content": prompt}], "temperature": 0, "max_tokens": self.args.max_tokens,
                                "wane_domain": domain})
            choice = reply["choices"][0]
            self.keep({"part": part, "item": item, "domain": domain, "text": choice["message"]["content"] or "", "finish": choice["finish_reason"],
                       "fuse": reply.get("wane", {}).get("fuse"), "tokens": reply["usage"]["completion_tokens"], **extra})

    def replies(self, server, part, prompts):
        with concurrent.futures.ThreadPoolExecutor(self.args.slots) as pool:
            jobs = [pool.submit(self.pair, server, part, at, prompt, extra) for at, (prompt, extra) in enumerate(prompts)]
            try:
                for done, job in enumerate(jobs, 1):
                    job.result()
                    if not self.over():
                        self.tell(part, done, len(jobs))
            except BaseException:
                self.stopping = True
                server.process.terminate()  # so that nobody waits for the rest
                raise

    def texts(self, texts):
        left = [(at, kind, text) for at, (kind, text) in enumerate(texts) if ("texts", at, None) not in self.done]
        model = output_of([self.args.wane, "model", "path", self.args.model]).strip()
        for at in range(0, len(left), 20):
            if self.over():
                return
            some = left[at:at + 20]
            out = output_of([self.args.forcer, model, str(self.args.threads or 1)], "\0".join(t for _, _, t in some) + "\0").splitlines()
            for (item, kind, _), line in zip(some, out, strict=True):
                self.keep({"part": "texts", "item": item, "kind": kind, **json.loads(line)})
            self.tell("texts", at + len(some), len(left))

    def all(self):
        prompts = [(task.format(topic), {}) for topic in TOPICS for task in TASKS][:self.args.replies]
        clean = [(prompt, {"kind": kind}) for kind, prompt in clean_texts.PROMPTS]
        # Spread over the kinds, so that a part of it is one of all of them.
        clean = [clean[(i * 37) % len(clean)] for i in range(len(clean))][:self.args.clean]
        texts = [clean_texts.TEXTS[(i * 91) % len(clean_texts.TEXTS)] for i in range(len(clean_texts.TEXTS))][:self.args.texts]
        options = ["--no-prefix-reuse"]
        config = CONFIG.format(self.args.fuse_window, self.args.fuse_limit)
        with self:
            with serving.Server(self.args, self.folder, "wane", options, config) as server:
                self.replies(server, "replies", prompts)
                self.replies(server, "clean", clean)
            self.texts(texts)


def output_of(command, given=None):
    try:
        return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as why:
        raise serving.Stop(f"{command[0]} does not run: {why}") from None


def report(args):
    result = report_of(pathlib.Path(args.folder))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(result, indent=1) + "\n")
    show(result)


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
    shown = commands.add_parser("report")
    shown.add_argument("folder")
    for one in (run, shown):
        one.add_argument("--json")
    args = parser.parse_args()
    return serving.carry_out("loops.py", (lambda: Run(args).all()) if args.command == "run" else None, lambda: report(args))


if __name__ == "__main__":
    sys.exit(main())
