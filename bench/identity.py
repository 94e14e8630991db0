#!/usr/bin/env python3
"""Compares the certified head's tokens with the dense head's over many prompts, models and samplers; goes on where it stopped.

usage: identity.py [--wane build/wane] [--models A,B,…] [--tokens 100000] [--steps 128] [--rows 1,4] [--threads N]
                   [--state identity.jsonl] [--json FILE]

Each piece of work is one `wane bench head --no-body` over its own prompts, made from templates and the piece's number, so
that greedy replies differ, too. A finished piece is a line of --state; a piece that stands there is not run again. Exit
status 1 if a reply diverged. Needs nothing but Python.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

MODELS = ["smollm2-135m", "gemma3-270m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"]
SAMPLERS = ["greedy", "default", "full"]
PROMPTS_A_PIECE = 8

THINGS = ["a bicycle", "the tide", "a sourdough starter", "inflation", "a lighthouse", "photosynthesis", "a hash table",
          "the printing press", "a vaccine", "jazz", "a binary search", "an elevator", "the moon's phases", "a treaty",
          "compound interest", "a volcano", "a compiler", "the postal service", "a beehive", "probability"]
PEOPLE = ["a child of eight", "a tired nurse", "a new colleague", "a judge", "a gardener", "somebody who hates mathematics",
          "a tourist", "a retired engineer", "a choir", "an impatient customer"]
TEMPLATES = [
    "Explain {thing} to {person} in a few sentences.",
    "Write a short story in which {person} discovers {thing}.",
    "Write a Python program about {thing}; {person} should be able to read it.",
    "Give me a JSON object about {thing} with the keys name, category, facts (a list of {n}) and audience ({person}).",
    "请用中文向{person}介绍{thing}，大约{n}句话。",
    "Draft clause {n} of a contract between {person} and a company that supplies {thing}.",
    "List {n} common mistakes about {thing} and correct each of them.",
    "Translate into French, then into German: \"{person} told me {n} times about {thing}.\"",
    "Write an SQL schema for an archive of {thing} with {n} tables, and two queries.",
    "Two people argue about {thing}: {person} and a sceptic. Write {n} lines of their dialogue.",
]


def prompt(number):
    return TEMPLATES[number % len(TEMPLATES)].format(
        thing=THINGS[number * 7 // len(TEMPLATES) % len(THINGS)], person=PEOPLE[number * 3 // 7 % len(PEOPLE)],
        n=3 + number % 9)


def pieces(args):
    """Round robin over models, samplers and widths, so that an early stop still says something about each."""
    kinds = [(m, s, r) for m in args.models for s in SAMPLERS for r in args.rows]
    each = PROMPTS_A_PIECE * args.steps
    for number in range(-(-args.tokens // (each * len(kinds)))):
        for model, sampler, rows in kinds:
            yield {"model": model, "sampler": sampler, "rows": rows, "piece": number, "steps": args.steps}


def key(piece):
    return tuple(piece[k] for k in ("model", "sampler", "rows", "piece", "steps"))


def load(path):
    done = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                try:
                    piece = json.loads(line)
                    done[key(piece)] = piece
                except (ValueError, KeyError):
                    pass  # a line that was cut by an interruption is run again
    return done


def run(args, piece):
    first = piece["piece"] * PROMPTS_A_PIECE
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("".join(prompt(first + i) + "\n" for i in range(PROMPTS_A_PIECE)))
        file.flush()
        command = [args.wane, "bench", "head", "--json", "--no-body", "--head", "always", "--rounds", "1", "--model", piece["model"],
                   "--sampler", piece["sampler"], "--rows", str(piece["rows"]), "--tokens", str(piece["steps"]),
                   "--prompts", file.name]
        if args.threads:
            command += ["--threads", str(args.threads)]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        report = json.loads(result.stdout)
    except ValueError:
        sys.exit(f"identity: {' '.join(command)}: exit code {result.returncode}: {result.stderr.strip()}")
    return dict(piece, **{k: report[k] for k in ("tokens", "divergent", "dense_fallbacks", "gain", "kernel")})


def summary(done):
    total = {}
    for piece in done:
        one = total.setdefault((piece["model"], piece["sampler"]), {"tokens": 0, "divergent": 0, "dense_fallbacks": 0})
        for k in one:
            one[k] += piece[k]
    return total


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("--wane", default="build/wane")
    parser.add_argument("--models", default=",".join(MODELS), type=lambda text: text.split(","))
    parser.add_argument("--tokens", type=int, default=100000)
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--rows", default="1,4", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--state", default="identity.jsonl")
    parser.add_argument("--json")
    args = parser.parse_args()
    if isinstance(args.models, str):
        args.models = args.models.split(",")
    if isinstance(args.rows, str):
        args.rows = [int(n) for n in args.rows.split(",")]
    work = list(pieces(args))
    done = load(args.state)
    begun, ran = time.monotonic(), 0
    with open(args.state, "a", encoding="utf-8") as state:
        if state.tell() > 0:
            state.write("\n")  # behind a line that was cut
        for index, piece in enumerate(work):
            if key(piece) in done:
                continue
            done[key(piece)] = result = run(args, piece)
            state.write(json.dumps(result) + "\n")
            state.flush()
            ran += 1
            left = sum(key(p) not in done for p in work[index + 1:])
            minutes = (time.monotonic() - begun) / ran * left / 60
            print(f"{len(work) - left}/{len(work)} {piece['model']} {piece['sampler']} rows {piece['rows']}: "
                  f"{result['divergent']} of {result['tokens']} divergent, {minutes:.0f} min left", file=sys.stderr)
    results = [done[key(piece)] for piece in work]
    tokens = sum(piece["tokens"] for piece in results)
    divergent = sum(piece["divergent"] for piece in results)
    for (model, sampler), one in sorted(summary(results).items()):
        print(f"{model:22} {sampler:8} {one['tokens']:8} tokens, {one['divergent']} divergent, "
              f"{one['dense_fallbacks']} dense answers")
    print(f"{tokens} tokens, {divergent} divergent")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"tokens": tokens, "divergent": divergent, "pieces": results}, file, indent=2)
    return 1 if divergent else 0


if __name__ == "__main__":
    sys.exit(main())
