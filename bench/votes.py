#!/usr/bin/env python3
"""Votes to train a gate on: prompts that are answered three times each, and the answer that is closest to the other two.

usage: votes.py run FOLDER [--data FOLDER] [--count 300] [--seed 1] [--max-tokens 40] [--temperature 0.8] [--wane build/wane]
                [--model NAME] [--threads N] [--seconds N]
       votes.py prompts FILE [--data FOLDER] [--count 300] [--seed 1] [--max-tokens 40] [--temperature 0.8]
       votes.py join TRACE... --output FILE

run: record the prompts in FOLDER, a few at a time, so that a run that was stopped goes on where it was; with --seconds it stops
by itself after about so long. Then join what there is into FOLDER/votes.jsonl, for `wane train gate --trace FOLDER/votes.jsonl`.
prompts: only write what `wane record --prompts` takes, three lines a prompt, alike but for their seeds.
join: only read traces of such prompts (written with --no-compress) and write one with the votes: each request says which
answer to which request it is, and a record behind the three says which was chosen.

The prompts are by turns questions of GSM8K, beginnings of functions of HumanEval, and templates of bench/day.py. --data is a folder with
gsm8k-test.jsonl.gz and HumanEval.jsonl.gz (github.com/openai/grade-school-math, github.com/openai/human-eval; gzip their files);
without it there are the templates alone.

The chosen answer is the one with the least sum of distances to the others; a distance is the edit distance of the two lists of tokens,
divided by the length of the longer one. Among equals the first is chosen. That is how wane's vote chooses where no pattern of a final
value is given.
"""
import argparse
import gzip
import json
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import day  # noqa: E402  the templates

ANSWERS = 3
CHUNK = 25


def distance(a, b):
    """Edit distance of two lists, divided by the length of the longer one; 0 for two empty ones."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1] / max(len(a), len(b), 1)


def choose(answers):
    """The index of the answer that is closest to the others."""
    sums = [sum(distance(a, b) for b in answers) for a in answers]
    return sums.index(min(sums))


def read_data(folder, name, field):
    path = pathlib.Path(folder) / name
    if not path.exists():
        sys.exit(f"votes.py: there is no {path}; the help says where it comes from")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line)[field] for line in file]


def make_prompts(args):
    r = random.Random(args.seed)
    makers = [day.form, day.code, day.extraction, day.prose]
    sources = [lambda: (r.choice(makers)(r), "guess")]
    if args.data:
        math = read_data(args.data, "gsm8k-test.jsonl.gz", "question")
        code = read_data(args.data, "HumanEval.jsonl.gz", "prompt")
        r.shuffle(math)
        r.shuffle(code)
        take = {"math": iter(math), "code": iter(code)}
        sources.append(lambda: (next(take["math"], None), "single"))
        sources.append(lambda: (next(take["code"], None), "code"))
    lines = []
    for i in range(args.count):
        text, kind = sources[i % len(sources)]()
        if text is None:
            text, kind = sources[0]()
        elif kind == "code":
            text = "Complete this function. Only the code.\n\n" + text
        for answer in range(ANSWERS):
            one = {"prompt": text, "seed": args.seed * 1000000 + i * ANSWERS + answer, "max_tokens": args.max_tokens,
                   "temperature": args.temperature}
            if kind != "guess":
                one["kind"] = kind
            lines.append(json.dumps(one))
    return lines


def read_replies(paths):
    """(lines of the file's origin, [(request, its other lines, its tokens)]) of traces, in order."""
    origin, replies = None, []
    for path in paths:
        path = pathlib.Path(path)
        for file in sorted(path.glob("*.jsonl")) if path.is_dir() else [path]:
            for line in file.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                if record["type"] == "origin":
                    if origin and (origin["model"], origin["tokenizer"]) != (record["model"], record["tokenizer"]):
                        sys.exit(f"votes.py: {file} is of another model than the traces before it")
                    origin = origin or record
                elif record["type"] == "request":
                    replies.append((record, [], []))
                elif record["type"] in ("token", "end"):
                    replies[-1][1].append(line)
                    if record["type"] == "token":
                        replies[-1][2].append(record["token"])
    return origin, replies


def join(paths, output):
    origin, replies = read_replies(paths)
    if origin is None:
        sys.exit("votes.py: there is no trace to join")
    parts, chosen = [json.dumps(origin, separators=(",", ":"))], [0] * ANSWERS
    for at in range(0, len(replies) - ANSWERS + 1, ANSWERS):
        group = replies[at:at + ANSWERS]
        of = group[0][0]["id"]
        if any(request["prompt"] != group[0][0]["prompt"] for request, _, _ in group):
            sys.exit(f"votes.py: the {ANSWERS} requests from {of} on are not answers to one prompt")
        for answer, (request, lines, _) in enumerate(group):
            request["vote"] = {"of": of, "answer": answer}
            parts.append(json.dumps(request, separators=(",", ":")))
            parts += lines
        best = choose([tokens for _, _, tokens in group])
        chosen[best] += 1
        parts.append(json.dumps({"type": "vote", "of": of, "chosen": best}, separators=(",", ":")))
    pathlib.Path(output).write_text("\n".join(parts) + "\n", encoding="utf-8")
    print(f"{sum(chosen)} votes; chosen: {chosen}")


def run(args):
    folder, began = pathlib.Path(args.folder), time.time()
    folder.mkdir(parents=True, exist_ok=True)
    lines = make_prompts(args)
    size = CHUNK * ANSWERS
    for at in range(0, len(lines), size):
        traces, done = folder / f"{at // size:05}", folder / f"{at // size:05}.done"
        if done.exists():
            continue
        if args.seconds and time.time() - began > args.seconds:
            break
        for old in traces.glob("*") if traces.exists() else []:
            old.unlink()
        prompts = folder / "prompts.txt"
        prompts.write_text("\n".join(lines[at:at + size]) + "\n", encoding="utf-8")
        command = [args.wane, "record", "--prompts", prompts, "--out", traces, "--no-compress", "--model", args.model,
                   "--threads", str(args.threads), "--json"]
        result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"votes.py: {' '.join(map(str, command))} failed:\n{result.stderr}")
        done.write_text(result.stdout, encoding="utf-8")
        print(f"\r{at + size} of {len(lines)} answers, {time.time() - began:.0f} s", end="", file=sys.stderr)
    print(file=sys.stderr)
    join([done.with_suffix("") for done in sorted(folder.glob("*.done"))], folder / "votes.jsonl")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    for name in ("run", "prompts"):
        part = parts.add_parser(name)
        part.add_argument("folder" if name == "run" else "file")
        part.add_argument("--data")
        part.add_argument("--count", type=int, default=300)
        part.add_argument("--seed", type=int, default=1)
        part.add_argument("--max-tokens", type=int, default=40)
        part.add_argument("--temperature", type=float, default=0.8)
        if name == "run":
            part.add_argument("--wane", default="build/wane")
            part.add_argument("--model", default="smollm2-135m")
            part.add_argument("--threads", type=int, default=0)
            part.add_argument("--seconds", type=float, default=0)
    part = parts.add_parser("join")
    part.add_argument("traces", nargs="+")
    part.add_argument("--output", required=True)
    args = parser.parse_args()
    if args.part == "run":
        run(args)
    elif args.part == "join":
        join(args.traces, args.output)
    else:
        pathlib.Path(args.file).write_text("\n".join(make_prompts(args)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
