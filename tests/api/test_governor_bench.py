"""bench/governor.py: its measures where the answer is known, its data, and a whole run against a made-up server."""
import json
import os
import re
import stat
import subprocess
import sys

import pytest

BENCH = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "bench")
sys.path.insert(0, BENCH)
import governor  # noqa: E402

# --------------------------------------------------------------------------------------------------------------- measures


@pytest.mark.parametrize("text, period", [
    ("the sea is blue " * 8, 4),
    ("no " * 24, 1),
    ("no " * 23, 0),
    ("A story begins. " + "and then " * 12 + "it was over.", 2),
    ("the sea is blue " * 5, 0),  # not long enough
    ("one two three four five six seven eight nine ten eleven twelve thirteen " * 2, 0),  # twice is no loop
    ("one two three four five six seven eight nine ten eleven twelve thirteen " * 3, 13),
    ("海是蓝色的。" * 4, 6),
    (" ".join(f"{i}. Item number {i}" for i in range(60)), 0),  # a list that counts
    ("", 0),
])
def test_loops(text, period):
    assert governor.loop_of(text) == period


def test_diversity():
    a, b, c = ("the sea is blue and calm".split(), "the sea is blue and calm".split(), "a dog ran over my red hat".split())
    assert governor.distinct([a, b], 1) == pytest.approx(0.5)
    assert governor.distinct([a, c], 2) == 1
    assert governor.distinct([a, b], 3) == pytest.approx(0.5)
    assert governor.distinct([[]], 2) is None
    assert governor.self_bleu([a, b]) == pytest.approx(1)
    assert governor.self_bleu([a, c]) < 0.2
    assert governor.self_bleu([a, b, c]) < governor.self_bleu([a, b])
    assert governor.self_bleu([a]) is None
    assert governor.bleu([], [a]) == 0
    # A half of the other: brevity costs exp(1 - 6 / 4), and every precision is one.
    assert governor.bleu(a[:4], [a]) == pytest.approx(2.718281828 ** (1 - 6 / 4))


def test_data():
    lines = [line.split("\t") for line in open(os.path.join(BENCH, "data", "questions.tsv"), encoding="utf-8").read().splitlines()]
    assert len(lines) >= 200 and all(len(line) == 2 for line in lines)
    assert len({question for question, _ in lines}) == len(lines)
    for question, pattern in lines:
        # A pattern that the question itself or nothing at all satisfies would count every reply as right.
        assert not re.search(pattern, "", re.I) and not re.search(pattern, "I do not know.", re.I), question
        assert not re.search(pattern, question, re.I), question


# ------------------------------------------------------------------------------------------------------------- whole runs

FAKE = r"""#!{python}
# A wane that knows no model: with a governor it is right and loops in one reply of three; without one it is wrong and loops in all.
import http.server, json, os, sys
args = sys.argv[1:]
get = lambda name: args[args.index(name) + 1] if name in args else None
here = os.path.dirname(os.path.realpath(__file__))
on = "--governor" in args
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, data):
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def do_GET(self):
        self.answer(b"wane_governor_on %d\n" % (on and not os.path.exists(os.path.join(here, "no-profile"))))
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with open(os.path.join(here, "asked"), "a") as file:
            file.write(json.dumps([on, get("--mode"), body["messages"][-1]["content"], body["seed"]]) + "\n")
        loop = not on or body["seed"] % 3 == 0
        text = "Paris" if on else "I do not know."
        text += " and so on" * 20 if loop else " %d" % body["seed"]
        self.answer(json.dumps({{"choices": [{{"message": {{"content": text}}, "finish_reason": "stop"}}],
                                 "usage": {{"completion_tokens": 9}}}}).encode())
    def log_message(self, *a):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(get("--ready-file") + ".new", "w") as file:
    file.write(str(server.server_address[1]))
os.rename(get("--ready-file") + ".new", get("--ready-file"))
server.serve_forever()
"""


@pytest.fixture
def bench(tmp_path):
    wane = tmp_path / "wane"
    wane.write_text(FAKE.format(python=sys.executable))
    wane.chmod(wane.stat().st_mode | stat.S_IXUSR)

    def run(*more, what="run", code=0):
        words = ["--model", "none", "--wane", str(wane)] if what == "run" else []
        done = subprocess.run([sys.executable, os.path.join(BENCH, "governor.py"), what, str(tmp_path / "work"), *words, *more],
                              capture_output=True, text=True, env=os.environ)
        assert done.returncode == code, done.stderr
        return done

    run.asked = lambda: [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]
    run.folder = tmp_path
    return run


def test_a_whole_run(bench):
    done = bench("--items", "6", "--replies", "3")
    asked = bench.asked()
    assert len(asked) == 2 * (6 * 3 + 6)
    # Both sides get the same questions with the same seeds, in mode wane.
    assert sorted(a[2:] for a in asked if a[0]) == sorted(a[2:] for a in asked if not a[0])
    assert {a[1] for a in asked} == {"wane"}
    report = json.loads((bench.folder / "work" / "report.json").read_text())
    assert report["questions"]["items"] == 6 and report["questions"]["off"][0] == 0
    assert report["loops"]["off"][0] == 1 and report["loops"]["on"][0] < 1
    assert report["loops"]["high"] < 0 and report["loops"]["difference"] < 0
    assert report["diversity"]["prompts"] == 6 and report["diversity"]["replies"] == 18
    assert report["diversity"]["distinct-2"]["difference"][0] > 0 and report["diversity"]["self-BLEU"]["off"] == pytest.approx(1)
    assert "distinct-1" in done.stdout and "loops in 1,000 replies (24 pairs)" in done.stdout
    # Again: nothing is left to ask, also behind a line that was cut.
    with open(bench.folder / "work" / "replies.jsonl", "a") as file:
        file.write('{"set": "text", "it')
    again = bench("--items", "6", "--replies", "3")
    assert len(bench.asked()) == len(asked) and again.stdout == done.stdout
    assert bench(what="report").stdout == done.stdout


def test_a_governor_that_is_off_is_not_measured(bench):
    (bench.folder / "no-profile").write_text("")
    done = bench("--items", "2", "--sets", "questions", code=2)
    assert "no profile" in done.stderr
    assert not [a for a in bench.asked() if a[0]]


def test_other_settings_need_another_folder(bench):
    bench("--items", "1", "--sets", "questions")
    done = bench("--items", "1", "--sets", "questions", "--temperature", "0.3", code=2)
    assert "another folder" in done.stderr
    assert "no run" in subprocess.run([sys.executable, os.path.join(BENCH, "governor.py"), "report", str(bench.folder / "none")],
                                      capture_output=True, text=True).stderr
