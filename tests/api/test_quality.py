"""bench/quality.py and its sandbox: scoring, intervals, programs that cheat or misbehave, and a whole run against a made-up server."""
import gzip
import json
import os
import stat
import subprocess
import sys
import time

import pytest

BENCH = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "bench")
sys.path.insert(0, BENCH)
import quality  # noqa: E402
import sandbox  # noqa: E402
import sandbox_child  # noqa: E402

# ---------------------------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize("reply, answer, right", [
    ("2 + 2 = 4\n#### 4", "4", True),
    ("#### 1,200", "1200", True),
    ("#### $1200.00 dollars", "1,200", True),
    ("####-3", "-3", True),
    ("#### -$3", "-3", True),
    ("#### .5", "0.5", True),
    ("#### 42\nno, wait:\n#### 7.", "7", True),
    ("#### 41", "4", False),
    ("#### 4", "41", False),
    ("the answer is 4", "4", False),
    ("####\n\nfour", "4", False),
    ("#### ,", "4", False),
    ("", "4", False),
])
def test_numbers(reply, answer, right):
    assert quality.Numbers.score(reply, {"answer": answer})["right"] is right


def test_the_last_turn_is_the_question_alone():
    talk = quality.Numbers.messages({"question": "How many?"})
    assert talk[-1] == {"role": "user", "content": "How many?"}
    assert [turn["role"] for turn in talk] == ["user", "assistant"] * 2 + ["user"]
    for turn in talk[1::2]:
        assert quality.value_of(turn["content"])


# ------------------------------------------------------------------------------------------------------ code from a reply

ITEM = {"name": "t/0", "entry_point": "double", "prompt": "import math\n\n\ndef double(x):\n    \"\"\" Twice x. \"\"\"\n",
        "test": "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate([1]) == [1, 1]\n"}
BODY = "    return x * 2\n"
WHOLE = "def double(x):\n" + BODY


@pytest.mark.parametrize("reply", [
    f"Here it is:\n```python\n{WHOLE}```\nIt doubles.",
    f"```\n{WHOLE}",  # cut before the fence
    f"```python\nprint(double(1))\n```\nwith\n```python\n{WHOLE}```",
    WHOLE,
    f"Sure! This doubles.\n{WHOLE}",
    BODY,
    f"```python\n{BODY}```",
    f"```python\ndef helper(x):\n    return x * 2\n\n\ndef double(x):\n    return helper(x)\n```",
    "```python\ndef double(x):\n    math.sqrt(4)\n    return x * 2\n```",  # the prompt's import is there
])
def test_code_of_replies(reply):
    assert sandbox.passes(quality.program_of(reply, ITEM), ITEM) == (True, "")


@pytest.mark.parametrize("reply", ["", "I cannot do that.", "```python\ndef double(y)\n```", "```python\ndef twice(x):\n    return 2 * x\n```"])
def test_replies_without_the_function(reply):
    assert quality.Code.score(reply, ITEM)["right"] is False


# ---------------------------------------------------------------------------------------------------------------- sandbox

linux = pytest.mark.skipif(bool(sandbox.missing()), reason="this system lacks " + "; ".join(sandbox.missing()))

# Each of these must fail its tests, whatever it does. `marks` are files that must not be there afterwards.
CHEATS = {
    "wrong": "def double(x):\n    return x + 2",
    "exits": "import sys\nsys.exit(0)",
    "exits at once": "import os\nos._exit(0)",
    "exits in the function": "import os\ndef double(x):\n    os._exit(0)",
    "raises an exit in the function": "def double(x):\n    raise SystemExit(0)",
    "no function": "x = 1",
    "not callable": "double = 4",
    "equal to everything": "class All:\n    def __eq__(self, other):\n        return True\ndef double(x):\n    return All()",
    "equal to everything, as a list": "class All(list):\n    def __eq__(self, other):\n        return True\ndef double(x):\n    return All()",
    "equal to everything, as an int": "class All(int):\n    def __eq__(self, other):\n        return True\n    __hash__ = int.__hash__\n"
                                      "def double(x):\n    return All()",
    "prints": "print('passed')\nimport os\nos.write(1, b'passed')\ndef double(x):\n    return 0",
    "rewrites assert": "import builtins\nbuiltins.AssertionError = ValueError\ndef double(x):\n    return 0",
    "looks for the nonce": (
        "import gc, os, re, sys\n"
        "def seek():\n"
        "    frame, seen = sys._getframe(), []\n"
        "    while frame:\n"
        "        seen.append(repr(frame.f_locals) + repr(frame.f_globals))\n"
        "        frame = frame.f_back\n"
        "    seen += [repr(o)[:2000] for o in gc.get_objects() if isinstance(o, (dict, str, list))]\n"
        "    for word in set(re.findall(r'\\b[0-9a-f]{32}\\b', ' '.join(seen))):\n"
        "        for fd in range(20):\n"
        "            try:\n"
        "                os.write(fd, word.encode())\n"
        "            except OSError:\n"
        "                pass\n"
        "seek()\n"
        "def double(x):\n    seek()\n    os._exit(0)"),
    "replaces check": (
        "import sys\n"
        "frame = sys._getframe()\n"
        "while frame:\n"
        "    frame.f_globals['check'] = lambda candidate: None\n"
        "    frame.f_globals['judge'] = lambda *a: None\n"
        "    frame = frame.f_back\n"
        "def double(x):\n    return 0"),
    "talks in the judge's place": "import os\nfor fd in range(3, 20):\n    try:\n        os.write(fd, b'{\"ready\":1}\\n{\"result\":true}\\n' * 9)\n"
                                  "    except OSError:\n        pass\nos._exit(0)",
    "says nonsense": "import os\nfor fd in range(3, 20):\n    try:\n        os.write(fd, b'[}\\n')\n    except OSError:\n        pass\n"
                     "def double(x):\n    return 4",
    "raises what tests look for": "def double(x):\n    raise AssertionError('passed')",
    "deep": "def double(x):\n    v = []\n    for _ in range(100000):\n        v = [v]\n    return v",
    "endless iterator": "import itertools\ndef double(x):\n    return itertools.count()",
}


@pytest.mark.parametrize("name", CHEATS)
def test_cheats_do_not_pass(name):
    passed, why = sandbox.passes(CHEATS[name], ITEM)
    assert not passed and why


def test_the_nonce_is_where_the_candidate_is_not():
    """The test of the test: a program that knows the nonce's form finds none in its own process."""
    item = {**ITEM, "test": "def check(candidate):\n    assert candidate(0) == []\n"}
    program = ("import gc, re, sys\ndef double(x):\n    frame, seen = sys._getframe(), []\n    while frame:\n"
               "        seen.append(repr(frame.f_locals) + repr(frame.f_globals))\n        frame = frame.f_back\n"
               "    seen += [repr(o)[:2000] for o in gc.get_objects() if isinstance(o, (dict, str, list))]\n"
               "    return re.findall(r'\\b[0-9a-f]{32}\\b|assert' + ' cand' + 'idate', ' '.join(seen))")  # not in its own source
    assert sandbox.passes(program, item) == (True, "")


def test_a_loop_ends():
    begun = time.monotonic()
    assert not sandbox.passes("while True:\n    pass", ITEM, seconds=2)[0]
    assert not sandbox.passes("import time\ndef double(x):\n    time.sleep(1000)", ITEM, seconds=2)[0]
    assert time.monotonic() - begun < 60


@linux
def test_the_limits_of_time_and_memory_are_its_own():
    program = "import resource\ndef double(x):\n    return [resource.getrlimit(getattr(resource, n))[1] for n in x]"
    item = {**ITEM, "test": "def check(candidate):\n    assert candidate(['RLIMIT_CPU', 'RLIMIT_AS', 'RLIMIT_CORE']) == "
                            f"[{sandbox_child.CPU_SECONDS}, {sandbox_child.MEMORY}, 0]\n"}
    assert sandbox.passes(program, item) == (True, "")
    eats = "def double(x):\n    return len(bytearray(1 << 30))"
    passed, why = sandbox.passes(eats, ITEM)
    assert not passed and "MemoryError" in why


# What a program tries in its function; True where it was let do it.
TRIES = {
    "fork": "import os\n    if os.fork() == 0:\n        os._exit(0)",
    "a program": "import subprocess\n    subprocess.run(['/bin/true'])",
    "exec": "import os\n    os.execv('/bin/true', ['true'])",
    "a socket": "import socket\n    socket.socket()",
    "a signal": "import os\n    os.kill(os.getppid(), 9)",
    "a signal to all": "import os\n    os.kill(-1, 9)",
    "a file outside": f"open({os.path.join(BENCH, 'made-by-a-test')!r}, 'w')",
    "a file in /tmp": "open('/tmp/made-by-a-test', 'w')",
    "a folder outside": "import os\n    os.mkdir('/tmp/made-by-a-test')",
    "a link outside": "import os\n    os.symlink('/', '/tmp/made-by-a-test')",
    "removing": f"import os\n    os.remove({os.path.realpath(__file__)!r})",
    "reading elsewhere": f"open({os.path.realpath(__file__)!r}).read()",
    "the judge's memory": "import os\n    open(f'/proc/{os.getppid()}/mem', 'rb')",
    "much in a file": "with open('large', 'wb') as f:\n        f.write(bytes(4 << 20))",
}


@linux
@pytest.mark.parametrize("name", TRIES)
def test_what_is_not_allowed(name):
    program = (f"def double(x):\n  try:\n    {TRIES[name]}\n  except (OSError, RuntimeError) as why:\n"
               "    return 'refused'\n  return 'done'").replace("\n    if", "\n    if")
    item = {**ITEM, "test": "def check(candidate):\n    assert candidate(0) == 'refused'\n"}
    assert sandbox.passes(program, item) == (True, "")
    assert not os.path.lexists("/tmp/made-by-a-test") and not os.path.exists(os.path.join(BENCH, "made-by-a-test"))


@linux
def test_what_is_allowed():
    program = ("import collections, hashlib, heapq, itertools, math, random, re, string, threading, typing\n"
               "def double(x):\n    with open('mine', 'w') as f:\n        f.write('x')\n"
               "    t = threading.Thread(target=lambda: None)\n    t.start()\n    t.join()\n"
               "    return hashlib.md5(open('mine').read().encode()).hexdigest()")
    item = {**ITEM, "test": "def check(candidate):\n    assert candidate(0) == '9dd4e461268c8034f5c8564e155c67a6'\n"}
    assert sandbox.passes(program, item) == (True, "")


@pytest.mark.parametrize("value", [
    None, True, 0, -1, 10 ** 400, 0.1, float("inf"), -0.0, "", "é\ud800\n", b"\x00\xff", [], [1, [2.5, None]], (), (1,), {1, 2},
    frozenset("a"), {}, {"a": [1], 2: (3,)}, range(3, 0, -1), 2 + 3j])
def test_plain_values_come_back(value):
    again = sandbox_child.decode(json.loads(json.dumps(sandbox_child.encode(value))))
    assert again == value and type(again) is type(value)


def test_other_values_are_equal_to_nothing():
    again = sandbox_child.decode(sandbox_child.encode(object()))
    assert again not in (None, 0, "", [], True)


def test_what_the_program_raises_is_raised_in_the_tests():
    item = {**ITEM, "test": "def check(candidate):\n    try:\n        candidate(0)\n    except ValueError as why:\n"
                            "        assert str(why) == 'zero'\n        return\n    assert False\n"}
    assert sandbox.passes("def double(x):\n    raise ValueError('zero')", item) == (True, "")
    assert not sandbox.passes("def double(x):\n    return 1", item)[0]


def test_helpers_of_the_prompt_are_there_for_tests():
    item = {"entry_point": "undo", "prompt": "def do(x):\n    return x + 1\n\n\ndef undo(x):\n    \"\"\" the other way \"\"\"\n",
            "test": "def check(candidate):\n    assert candidate(do(3)) == 3\n    assert undo(1) == 0\n"}
    assert sandbox.passes(quality.program_of("```python\ndef undo(x):\n    return x - 1\n```", item), item) == (True, "")


# -------------------------------------------------------------------------------------------------------------- intervals


def test_wilson():
    # Values from the formula's published examples (Newcombe 1998: 81 of 263, 15 of 148, 0 of 20, 1 of 29).
    for hits, count, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)):
        assert quality.wilson(hits, count) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    assert quality.wilson(0, 0) == (0.0, 1.0)
    assert quality.wilson(20, 20)[1] == 1.0


def test_mcnemar():
    assert quality.mcnemar(0, 0) == 1.0
    assert quality.mcnemar(5, 5) == 1.0
    assert quality.mcnemar(0, 6) == quality.mcnemar(6, 0) == pytest.approx(2 / 64)
    assert quality.mcnemar(1, 8) == pytest.approx(2 * 10 / 512)


def test_paired_differences():
    a, b = [True] * 60 + [False] * 40, [True] * 50 + [False] * 10 + [True] * 4 + [False] * 36
    d = quality.compare(a, b)
    assert (d["better"], d["worse"], d["difference"]) == (10, 4, pytest.approx(0.06))
    # The normal interval is 6 ± 1.96 · sqrt(14 - 0.36) points.
    assert d["low"] == pytest.approx(-0.0124, abs=0.02) and d["high"] == pytest.approx(0.1324, abs=0.02)
    other = quality.compare(b, a)
    assert other["difference"] == -d["difference"] and other["low"] == pytest.approx(-d["high"], abs=0.02)
    assert quality.compare(a, b) == d  # the bootstrap has its seed
    same = quality.compare([True] * 10, [True] * 10)
    assert same["low"] == -same["high"] == pytest.approx(-(1 - 0.025 ** 0.1))  # not zero: ten items say little
    assert quality.compare([], [])["difference"] == 0


def row(budget, cost, rights):
    return {"budget": budget, "cost": cost, "accuracy": sum(rights) / len(rights), "rights": rights}


def test_the_chosen_budget():
    good, middle, bad = [1] * 90 + [0] * 10, [1] * 88 + [0] * 12, [1] * 50 + [0] * 50
    assert quality.choose_budget([row(0, 2.5, good), row(8, 1.6, middle), row(32, 1.1, bad)]) == (8, 0)
    assert quality.choose_budget([row(0, 2.5, good), row(32, 1.1, bad)]) == (0, 0)
    assert quality.choose_budget([row(0, 2.5, good), row(8, 1.6, good)]) == (8, 8)
    assert quality.choose_budget([row(8, 1.0, bad)]) == (8, 8)


# ------------------------------------------------------------------------------------------------------------- whole runs

FAKE = r"""#!{python}
# A wane that knows no model: its answers are known from mode, budget and question.
import http.server, json, os, sys
args = sys.argv[1:]
if args == ["--version"]:
    print("wane 0")
    sys.exit(0)
get = lambda name: args[args.index(name) + 1] if name in args else None
here = os.path.dirname(os.path.realpath(__file__))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        data = b"wane_gate_on %d\n" % (not os.path.exists(os.path.join(here, "no-gate")) or get("--gate") is not None)
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        mode, budget = get("--mode"), get("--doubt-budget")
        with open(os.path.join(here, "asked"), "a") as file:
            file.write(json.dumps([mode, budget, body["messages"][-1]["content"], body["seed"], get("--final-value")]) + "\n")
        number = int(body["messages"][-1]["content"].split()[-1])
        status = 500 if os.path.exists(os.path.join(here, "fail")) and number == 5 else 200
        right = number % 2 == 0 or mode == "legacy" or (mode == "wane" and budget == "0")
        reply = {{"choices": [{{"message": {{"content": f"#### {{number if right else -1}}"}}, "finish_reason": "stop"}}],
                 "usage": {{"prompt_tokens": 9, "completion_tokens": 10}}}}
        if mode == "legacy" or (mode == "wane" and (budget == "0" or number % 4 == 0)):
            reply["wane"] = {{"vote": {{"answers": 3, "chosen": number % 2, "forked_at": 0, "by_value": True, "spare_tokens": 20}}}}
        data = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
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
    """A function that runs quality.py on twenty made-up items; .asked() is what the servers were asked."""
    wane, data = tmp_path / "wane", tmp_path / "data.gz"
    wane.write_text(FAKE.format(python=sys.executable))
    wane.chmod(wane.stat().st_mode | stat.S_IXUSR)
    with gzip.open(data, "wt") as file:
        for i in range(20):
            file.write(json.dumps({"question": f"What is {i}", "answer": f"It is.\n#### {i}"}) + "\n")

    def run(*more, what="run", code=0):
        words = ["--set", "gsm8k", "--data", str(data), "--model", "none", "--wane", str(wane)] if what == "run" else []
        done = subprocess.run([sys.executable, os.path.join(BENCH, "quality.py"), what, str(tmp_path / "work"), *words, *more],
                              capture_output=True, text=True, env={**os.environ, "WANE_MODE": "legacy"})
        assert done.returncode == code, done.stderr
        run.err, run.out = done.stderr, done.stdout
        return json.loads((tmp_path / "work" / "report.json").read_text()) if code == 0 else None

    def asked():
        path = tmp_path / "asked"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    run.asked, run.folder = asked, tmp_path
    return run


def test_a_whole_run(bench):
    report = bench("--budgets", "8,0")
    assert report["compared"] == 20 and report["answered"] == {"off": 20, "legacy": 20, "wane 8": 20, "wane 0": 20}
    modes = report["modes_report"]
    assert [modes[m]["right"] for m in ("off", "legacy", "wane")] == [10, 20, 10]
    assert [modes[m]["cost"] for m in ("off", "legacy", "wane")] == [1.0, 3.0, 1.5]
    assert modes["wane"]["wakes"] == 0.25 and modes["legacy"]["changed"] == 10
    assert report["differences"]["wane - legacy"]["difference"] == -0.5 and report["differences"]["wane - off"]["difference"] == 0
    assert [row["budget"] for row in report["curve"]] == [0, 8] and report["chosen_budget"] == 0
    assert {pattern for *_, pattern in bench.asked()} == {quality.VALUE}
    seeds = {}
    for _, _, question, seed, _ in bench.asked():
        seeds.setdefault(question, set()).add(seed)
    assert len(seeds) == 20 and all(len(s) == 1 for s in seeds.values()) and len(set.union(*seeds.values())) == 20


def test_a_stopped_run_goes_on(bench):
    (bench.folder / "fail").write_text("")
    bench("--items", "20", code=2)
    assert "status 500" in bench.err
    (bench.folder / "fail").unlink()
    with open(bench.folder / "work" / "replies.jsonl", "a") as file:
        file.write('{"item": "gsm8k/5", "mo')  # as if cut while it was written
    report = bench("--items", "20")
    assert report["compared"] == 20
    lines = quality.read_lines(bench.folder / "work" / "replies.jsonl")
    assert len(lines) == len({(line["item"], line["mode"], line["budget"]) for line in lines}) == 60
    before = len(bench.asked())
    assert bench("--items", "20") == report and len(bench.asked()) == before
    assert bench(what="report") == report


def test_more_items_go_on_where_fewer_ended(bench):
    assert bench("--items", "7")["compared"] == 7
    first = len(bench.asked())
    assert bench("--items", "9")["compared"] == 9
    assert len(bench.asked()) == first + 2 * 3


def test_another_run_needs_another_folder(bench):
    bench("--items", "2")
    bench("--items", "2", "--seed", "2", code=2)
    assert "seed" in bench.err


def test_a_model_without_a_gate_is_not_measured_as_if_it_had_one(bench):
    (bench.folder / "no-gate").write_text("")
    bench("--items", "2", code=2)
    assert "no gate" in bench.err
    assert bench("--items", "2", "--modes", "off,legacy")["compared"] == 2
    (bench.folder / "work" / "settings.json").unlink()
    assert bench("--items", "2", "--gate", "some.gate")["compared"] == 2


def test_what_cannot_be_asked(bench):
    bench("--modes", "off,on", code=2)
    bench("--budgets", "8,8", code=2)
    bench("--data", "/dev/null", code=2)
    bench(what="report", code=2)


def test_tasks_for_the_governor_and_their_judge(tmp_path):
    tasks = [sys.executable, os.path.join(os.path.dirname(quality.__file__), "tasks.py")]
    with gzip.open(tmp_path / "data.gz", "wt") as file:
        file.write(json.dumps({"task_id": "t/0", **{k: ITEM[k] for k in ("prompt", "entry_point", "test")}}) + "\n")
    made = subprocess.run([*tasks, "write", str(tmp_path / "data.gz")], capture_output=True, text=True, check=True).stdout
    task = json.loads(made)
    assert "def double" in task["prompt"]

    def judge(reply):
        job = json.dumps({"reply": reply, "task": task})
        return subprocess.run([*tasks, "judge"], input=job, capture_output=True, text=True).returncode

    assert judge("```python\ndef double(x):\n    return x * 2\n```") == 0
    assert judge("```python\ndef double(x):\n    return x\n```") == 1
    assert subprocess.run([*tasks, "judge"], input="{}", capture_output=True, text=True).returncode == 2
    assert subprocess.run(tasks, capture_output=True).returncode == 2
