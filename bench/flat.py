#!/usr/bin/env python3
"""Measures the certified head where it cannot gain: prompts after which distributions are flat.

usage: flat.py [--wane build/wane] [--models A,B,…] [--samplers greedy,default,full] [--prompts 8] [--tokens 48] [--rounds 3]
               [--seed N] [--json FILE] [-- options for wane bench head]

Prompts are letters of twelve scripts, words of a made-up language, digits and brackets, in no order, so that the model has no idea how they
go on. Back-off must keep the certified head within 2 % of the dense one. Prints a line for each model and sampler; exit
status 1 if a gain is below 0.98 or a token differs. Needs nothing but Python; measure on an idle machine.
"""
import argparse
import json
import random
import subprocess
import sys
import tempfile

LEAST = 0.98
SCRIPTS = [(0x61, 0x7A), (0x391, 0x3C9), (0x410, 0x44F), (0x5D0, 0x5EA), (0x627, 0x64A), (0x905, 0x939), (0xE01, 0xE2E),
           (0x10D0, 0x10F0), (0x1780, 0x17A2), (0x3041, 0x3093), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3)]
SIGNS = "{}[]()<>=+-*/\\|&%$#@!?;:,.~^_0123456789"


def word(rng):
    kind = rng.random()
    if kind < 0.15:
        return "".join(rng.choice(SIGNS) for _ in range(rng.randint(1, 8)))
    low, high = rng.choice(SCRIPTS)
    return "".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 9)))


def prompts(seed, count):
    rng = random.Random(seed)
    return [" ".join(word(rng) for _ in range(40)) for _ in range(count)]


def run(args, model, sampler, path):
    command = [args.wane, "bench", "head", "--json", "--no-body", "--model", model, "--sampler", sampler, "--prompts", path,
               "--tokens", str(args.tokens), "--rounds", str(args.rounds), *args.more]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        return json.loads(result.stdout)
    except ValueError:
        sys.exit(f"flat: {' '.join(command)}: exit code {result.returncode}: {result.stderr.strip()}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("--wane", default="build/wane")
    parser.add_argument("--models", default="smollm2-135m,gemma3-270m,qwen2.5-coder-0.5b")
    parser.add_argument("--samplers", default="greedy,default,full")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json")
    parser.add_argument("more", nargs="*")
    args = parser.parse_args()
    results, worst = [], 9.0
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("".join(text + "\n" for text in prompts(args.seed, args.prompts)))
        file.flush()
        for model in args.models.split(","):
            for sampler in args.samplers.split(","):
                report = run(args, model, sampler, file.name)
                results.append(report)
                worst = min(worst, report["gain"] if report["divergent"] == 0 else 0)
                print(f"{model:22} {sampler:8} gain {report['gain']:.3f}, {report['divergent']} of {report['tokens']} divergent, "
                      f"{report['backed_off']} rows backed off, {report['dense_fallbacks']} dense answers", flush=True)
    print(f"least gain {worst:.3f}; it must be {LEAST} or more")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=2)
    return 1 if worst < LEAST else 0


if __name__ == "__main__":
    sys.exit(main())
