"""Made-up traces with votes for the cases: votes.py FOLDER COUNT. Three answers of up to twelve tokens a vote, drawn from rows that are sure or
not; the one that shares most tokens with the others is chosen. The same at each call."""
import hashlib
import json
import math
import os
import sys


def unit(*parts):
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:7], "little") / 2**56


def main():
    folder, count = sys.argv[1], int(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    out = [open(f"{folder}/{i}.jsonl", "w") for i in range(2)]
    for file in out:
        file.write(json.dumps({"type": "origin", "version": 1, "model": "a" * 32, "tokenizer": "b" * 32, "vocab_size": 1000,
                               "recorder": "a test", "time": "2026-01-01T00:00:00Z"}) + "\n")
    for vote in range(count):
        file, answers, of = out[vote % 2], [], f"r{vote}-0"
        for answer in range(3):
            name, tokens = f"r{vote}-{answer}", []
            file.write(json.dumps({
                "type": "request", "id": name, "kind": "single", "tenant": "%016x" % 1, "time_ms": 1, "prompt": [1, 2, 3],
                "sampling": {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "repeat_penalty": 1,
                             "presence_penalty": 0, "frequency_penalty": 0, "penalty_window": 64, "seed": "1", "bias": []},
                "max_tokens": 12, "ignore_end": False, "stops": [], "redacted": 0, "vote": {"of": of, "answer": answer}}) + "\n")
            for at in range(12):
                lead = 8 * unit("lead", vote, at)
                top = [(k, round(lead if k == 0 else -0.5 * k, 6)) for k in range(64)]
                left = unit("draw", vote, answer, at) * sum(math.exp(logit) for _, logit in top)
                token = 0
                while token < 63 and left >= math.exp(top[token][1]):
                    left -= math.exp(top[token][1])
                    token += 1
                file.write(json.dumps({
                    "type": "token", "id": name, "kind": "single", "tenant": "%016x" % 1, "before": "%032x" % at, "position": 3 + at,
                    "index": at, "last": [1, 2, 3], "token": token, "changed": False, "top": top}) + "\n")
                tokens.append(token)
            answers.append(tokens)
        shared = [sum(x == y for b in answers for x, y in zip(a, b)) for a in answers]
        file.write(json.dumps({"type": "vote", "of": of, "chosen": shared.index(max(shared))}) + "\n")


main()
