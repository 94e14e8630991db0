#!/usr/bin/env python3
"""HumanEval as tasks for `wane bench governor`, and their judge.

usage: tasks.py write HumanEval.jsonl.gz > tasks.jsonl
       tasks.py judge < JOB

    wane bench governor --model qwen2.5-coder-0.5b --tasks tasks.jsonl --judge "bench/tasks.py judge"

judge reads {"reply": …, "task": {…}}, runs the program that the reply means against the item's tests in bench/sandbox.py, and ends with 0 where they
pass, with 1 where they do not. github.com/openai/human-eval has the file; docs/quality.md says how programs are run.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import quality  # noqa: E402
import serving  # noqa: E402


def write(path):
    for item in quality.read_items(quality.Code, path, 0, 1):
        print(json.dumps({"prompt": quality.Code.messages(item)[0]["content"], "item": item}))


def judge(job):
    return quality.Code.score(job["reply"], job["task"]["item"])["right"]


def main():
    try:
        if sys.argv[1:] == ["judge"]:
            return 0 if judge(json.load(sys.stdin)) else 1
        if len(sys.argv) == 3 and sys.argv[1] == "write":
            write(sys.argv[2])
            return 0
    except (serving.Stop, ValueError, KeyError, TypeError) as why:
        print(f"tasks.py: {why}", file=sys.stderr)
        return 2
    print(__doc__.split("\n\n")[1], file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
