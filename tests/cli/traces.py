"""Made-up traces for the cases: traces.py FOLDER FILES VOCABULARY. Replies that follow one of three templates, now and then with a
token of their own; the same at each call."""
import hashlib
import json
import os
import sys


def number(*parts):
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "little")


def main():
    folder, files, vocabulary = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    os.makedirs(folder, exist_ok=True)
    out = []
    for i in range(files):
        out.append(open(f"{folder}/{i}.jsonl", "w"))
        out[i].write(json.dumps({"type": "origin", "version": 1, "model": "a" * 32, "tokenizer": "b" * 32,
                                 "vocab_size": vocabulary, "recorder": "a test",
                                 "time": "2026-01-01T00:00:00Z"}) + "\n")
    for request in range(40):
        template = number("template", request) % 3
        line = []
        for at in range(34):
            own = number("own", request, at) % 20 == 0
            token = number("token", request if own else template, own, at) % vocabulary
            if at >= 4:
                best = [(token, 20.0)]
                for k in range(10):
                    other = number("other", line[-3:], k) % vocabulary
                    if all(other != b[0] for b in best):
                        best.append((other, 15 - k + number(line, k) % 8 / 64))
                out[request % files].write(json.dumps({
                    "type": "token", "id": f"r{request}", "kind": ["single", "multi", "code", "summary"][request % 4],
                    "tenant": "%016x" % 1, "before": hashlib.sha256(repr(line).encode()).hexdigest()[:32], "position": at,
                    "index": at - 4, "last": line[-10:], "token": token, "changed": at == 7 and request == 0,
                    "top": sorted(best, key=lambda b: (-b[1], b[0]))}) + "\n")
            line.append(token)


main()
