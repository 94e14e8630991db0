#!/usr/bin/env python3
"""Drafts side by side: `wane serve` against llama-server of the same release, with and without its own n-gram drafts.

usage: rivals.py run FOLDER --model NAME [--rounds 3] [--lengths short,long] [--threads 2] [--seconds N] [--llama-server FILE]
                 [--wane build/wane] [--json FILE]
       rivals.py report FOLDER [--json FILE]

run: start one server for each way of decoding, all on the same model file, and send each prompt to each of them by turns, one request at
a time, so that whatever else the machine does meets all alike. A finished round of a prompt is a line of FOLDER/lines.jsonl, and a run that was
stopped, or that stopped itself after about --seconds, goes on where it was. Without --llama-server, scripts/engine --server makes one of the
pinned release (minutes of a core, once); it computes with the same plug-in for this processor as wane.

Prompts are made here, from a seed: lists to copy, records to write as JSON, form letters to write again with another name, code to
print with a name changed. Short ones stay within 256 tokens, unless a reply runs on; long ones do not, and for them wane and a second set of
llama-servers keep their keys in q8_0, because with keys in f16 wane drafts nothing there (docs/draft.md). For short ones wane is measured with both.

Greedy, no reuse of prompts. The time of a token is from the first piece of text to the last, through HTTP, over the tokens behind the first; what
the report gives is the median over rounds, then the geometric mean over prompts. Replies are compared with llama-server's without drafts.
"""
import argparse
import http.client
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import serving  # noqa: E402
from serving import Stop  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIELDS = {"prompt", "length", "round", "ways"}  # of a line that counts
PLAIN, OURS = "llama-server", "wane"
SIMPLE, MOD = ["--spec-type", "ngram-simple"], ["--spec-type", "ngram-mod"]
# Beside the defaults (n-grams of 12 and 24 tokens), settings for short replies: with the defaults ngram-mod drafts 48 tokens or none.
RIVALS = {PLAIN: [], "ngram-simple": SIMPLE, "ngram-mod": MOD,
          "ngram-simple 4": [*SIMPLE, "--spec-ngram-simple-size-n", "4", "--spec-ngram-simple-size-m", "32"],
          "ngram-mod 8": [*MOD, "--spec-ngram-mod-n-match", "8", "--spec-ngram-mod-n-min", "4", "--spec-ngram-mod-n-max", "48"]}
KEYS, OUR_KEYS = ["--cache-type-k", "q8_0"], ["--kv-type-k", "q8_0"]


# ---------------------------------------------------------------------------------------------------------------- prompts

NAMES = ["Amara Okafor", "Jonas Weber", "Mei Tanaka", "Ana Costa", "Leo Martin", "Ines Duarte", "Tomas Novak", "Sara Lind", "Omar Haddad",
         "Julia Ferrari", "Pavel Sokol", "Nora Quinn", "Ravi Menon", "Elif Kaya", "Hugo Blanc", "Freya Dahl"]
CITIES = ["Lagos", "Bremen", "Kobe", "Porto", "Lyon", "Faro", "Brno", "Malmö", "Amman", "Parma", "Gdynia", "Cork", "Kochi", "Izmir", "Nantes", "Bergen"]
THINGS = ["rain jacket", "wool socks", "water bottle", "head torch", "first aid kit", "map of the valley", "notebook", "tin cup", "rope", "tent pegs",
          "sun hat", "spare batteries", "pocket knife", "sleeping bag", "folding stool", "lantern"]
COLOURS = ["blue", "grey", "green", "red", "black", "yellow"]


def listing(dice, count):
    lines = [f"- {thing} ({dice.choice(COLOURS)}), {dice.randint(1, 6)}" for thing in dice.sample(THINGS, count)]
    return "Here is a packing list:\n" + "\n".join(lines) + "\nWrite the list again, exactly as it is."


def records(dice, count):
    lines = [json.dumps({"id": dice.randint(1000, 9999), "name": name, "city": city, "paid": dice.random() < 0.5}, ensure_ascii=False)
             for name, city in zip(dice.sample(NAMES, count), dice.sample(CITIES, count))]
    return "Copy these records, without any change, as one JSON array:\n[" + ",\n ".join(lines) + "]"


def letters(dice, count):
    names = dice.sample(NAMES, 2 * count)
    pieces = [f"Dear {name},\nyour parcel {dice.randint(1000, 9999)} has left our warehouse today and will be with you on "
              f"{dice.choice(['Monday', 'Tuesday', 'Friday'])}. Thank you for your order.\nKind regards, the shop\n" for name in names[:count]]
    changes = ", and ".join(f"to {new} instead of {old}" for old, new in zip(names, names[count:]))
    return f"Repeat these letters, {changes}:\n\n" + "\n".join(pieces)


def code(dice, count):
    fields = dice.sample(["price", "weight", "tax", "rebate", "margin", "volume", "points", "fee"], count)
    body = "".join(f"    {one} = 0\n    for line in lines:\n        {one} += line.{one} * line.count\n    total[\"{one}\"] = round({one} * rate, 2)\n"
                   for one in fields)
    text = f"def invoice(lines, rate, currency):\n    total = {{}}\n{body}    return format_money(total, currency)\n"
    return f"Print this function again with the name invoice changed to make_invoice:\n\n```python\n{text}```"


KINDS = {"list": (listing, 7, 16), "records": (records, 3, 8), "letters": (letters, 2, 5), "code": (code, 2, 6)}


def prompts(length, turn):
    """Two of each kind, others in each round: what was answered before must not be of use to a server that remembers it."""
    made = []
    for kind, (make, short, long) in KINDS.items():
        for i in range(2):
            made.append((f"{kind} {i + 1}", make(random.Random(f"{kind} {i} {turn} {length}"), short if length == "short" else long)))
    return made


# ---------------------------------------------------------------------------------------------------------------- servers

def pinned_server():
    """llama-server of the release that wane is pinned to."""
    done = subprocess.run([str(ROOT / "scripts" / "engine"), "--server"], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Stop("scripts/engine --server made none; give one with --llama-server")
    return done.stdout.strip()


def model_file(name):
    done = subprocess.run([str(ROOT / "scripts" / "model"), "get", name], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Stop(f"scripts/model get {name} failed")
    return done.stdout.strip()


class Way(serving.Server):
    """A server that stands for one way of decoding. llama-server says nothing of its port, so it is given one that is free."""

    def __init__(self, args, folder, name, options, program):
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(args, folder, name, [])
        self.ours = name not in RIVALS
        threads = ["--threads", str(args.threads)]
        if self.ours:
            self.command = [program, "serve", "--model", args.model, "--host", "127.0.0.1", "--port", "0", "--ready-file", str(self.ready), "--slots", "1",
                            "--memo", "0", "--log-level", "warn", *threads, "--batch-threads", str(args.threads), *options]
        else:
            self.port = serving.free_port()
            self.command = [program, "--model", args.file, "--host", "127.0.0.1", "--port", str(self.port), "--parallel", "1", "--ctx-size", "4096",
                            "--no-webui", *threads, "--threads-batch", str(args.threads), *options]

    def is_ready(self):
        return super().is_ready() if self.ours else serving.answers(self.port, "/health")

    def time(self, prompt, most):
        """Milliseconds a token, tokens, text of a reply as it streams in."""
        body = {"messages": [{"role": "user", "content": prompt}], "temperature": 0, "max_tokens": most, "stream": True,
                "stream_options": {"include_usage": True}, **({} if self.ours else {"cache_prompt": False})}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise Stop(f"{self.name}: status {answer.status}: {answer.read()[:300].decode('utf-8', 'replace')}")
        first = last = None
        text, tokens = "", 0
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
            for choice in event.get("choices", []):
                if choice["delta"].get("content"):
                    last = time.perf_counter()
                    first = first or last
                    text += choice["delta"]["content"]
        connection.close()
        if tokens < 8:
            raise Stop(f"{self.name}: a reply of {tokens} tokens is too short to be timed: {text!r}")
        return {"ms": (last - first) * 1000 / (tokens - 1), "tokens": tokens, "text": text}


# -------------------------------------------------------------------------------------------------------------------- run

def measure(args, run, length):
    keys = length == "long"
    options = {OURS: OUR_KEYS} if keys else {OURS: [], f"{OURS} q8_0": OUR_KEYS}
    for name, more in RIVALS.items():
        options[name] = [*more, *(KEYS if keys else [])]
    todo = [(name, prompt, i) for i in range(args.rounds) for name, prompt in prompts(length, i) if (length, name, i) not in run.done]
    if not todo:
        return
    ways = [Way(args, run.folder / name.replace(" ", "-"), name, more, args.llama_server if name in RIVALS else args.wane)
            for name, more in options.items()]
    started = []
    try:
        for way in ways:
            started.append(way.__enter__())
        for way in ways:  # what is loaded, rehearsed and learned once
            for _, prompt in prompts(length, -1)[:2]:
                way.time(prompt, 48)
        for turn, (name, prompt, i) in enumerate(todo):
            if run.over():
                return
            shift = turn % len(ways)
            times = {way.name: way.time(prompt, args.max_tokens) for way in ways[shift:] + ways[:shift]}
            run.keep({"length": length, "prompt": name, "round": i, "ways": times})
            run.say(length, turn + 1, len(todo))
    finally:
        for way in started:
            way.__exit__()


def run(args):
    args.file = model_file(args.model)
    args.llama_server = args.llama_server or pinned_server()
    settings = {"model": args.model, "threads": args.threads, "max_tokens": args.max_tokens}
    with serving.Run(args, "lines.jsonl", FIELDS, lambda line: (line["length"], line["prompt"], line["round"]), settings) as one:
        for length in args.lengths.split(","):
            measure(args, one, length)


# ----------------------------------------------------------------------------------------------------------------- report

def gains(lines, length):
    """For each way: gain over plain llama-server by prompt, replies, replies that differ from plain's."""
    mine = [line for line in lines if line["length"] == length]
    ways = {}
    for name in [*RIVALS, *sorted(set(mine[0]["ways"]) - set(RIVALS))]:
        by_prompt, differ = {}, 0
        for line in mine:
            by_prompt.setdefault(line["prompt"], []).append((line["ways"][PLAIN]["ms"], line["ways"][name]["ms"]))
            differ += line["ways"][name]["text"] != line["ways"][PLAIN]["text"]
        each = {prompt: statistics.median(a / b for a, b in pairs) for prompt, pairs in by_prompt.items()}
        times = [pair[1] for pairs in by_prompt.values() for pair in pairs]
        ways[name] = {"gain": math.exp(statistics.fmean(math.log(x) for x in each.values())), "by_prompt": each,
                      "ms": statistics.median(times), "replies": len(mine), "differ": differ}
    return ways


def report(args):
    folder = pathlib.Path(args.folder)
    settings, lines = serving.read_settings(folder), serving.read_lines(folder / "lines.jsonl", FIELDS)
    result = {**settings, "lengths": {}}
    for length in sorted({line["length"] for line in lines}, reverse=True):
        ways = result["lengths"][length] = gains(lines, length)
        print(f"\n{settings['model']}, {length} prompts, {settings['threads']} threads: gain over llama-server without drafts\n")
        print(f"{'way':<16} {'ms a token':>10} {'gain':>6}   {'by prompt':<14} replies that differ")
        for name, way in ways.items():
            span = f"{min(way['by_prompt'].values()):.2f} to {max(way['by_prompt'].values()):.2f}"
            print(f"{name:<16} {way['ms']:>10.2f} {way['gain']:>6.2f}   {span:<14} {way['differ']} of {way['replies']}")
        behind = {prompt: max(ways[name]["by_prompt"][prompt] for name in RIVALS) / gain for prompt, gain in ways[OURS]["by_prompt"].items()}
        late = [f"{prompt} ({ratio:.2f}×)" for prompt, ratio in behind.items() if ratio > 1]
        print("wane is behind the best of the others at: " + (", ".join(late) if late else "none"))
    serving.write_result(folder, result, args.json, indent=1, ensure_ascii=False)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0], add_help=True)
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("folder")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lengths", default="short,long")
    parser.add_argument("--max-tokens", type=int, default=400)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--llama-server", default="")
    parser.add_argument("--wane", default=str(ROOT / "build" / "wane"))
    parser.add_argument("--json", default="")
    args = parser.parse_args()
    args.slots = 1
    sys.exit(serving.carry_out("rivals", (lambda: run(args)) if args.what == "run" else None, lambda: report(args)))


if __name__ == "__main__":
    main()
