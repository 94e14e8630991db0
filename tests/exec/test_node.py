"""node-llama-cpp, the real package, with `wane exec` in front and without: the same tokens, what is said, no leak, a libllama that is not known."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WANE = pathlib.Path(os.environ["WANE_BUILD"]) / "wane"
NODE = pathlib.Path(os.environ["WANE_NODE"])
MODEL = os.environ["WANE_TEST_MODEL"]
PROGRAM = ROOT / "bench" / "adapters" / "node.mjs"
LIBRARY = pathlib.Path("node_modules/@node-llama-cpp/linux-x64/bins/linux-x64/libllama.v0.4.0.so")
QUESTIONS = ["Name three colours.", "And three animals."]
LAST = re.compile(r"wane: (?P<tokens>\d+) tokens, (?P<certified>\d+) by the certified head"
                  r"(; head (?P<head>[\d.]+) times, decoding (?P<decoding>[\d.]+) times as fast as dense)?"
                  r" \((?P<checked>\d+) checked, (?P<divergent>\d+) divergent\)")

# What programs ask of node-llama-cpp: each in as few tokens as show a difference.
STORY, FACT, DATA = "Once upon a time, in a village by the sea,", "The capital of France is", "As JSON, with a name and an age: "
REQUESTS = {
    "greedy": {"prompts": [STORY], "tokens": 40, "options": {"temperature": 0}},
    "default of chats": {"prompts": [FACT], "tokens": 40, "options": {"temperature": 0, "repeatPenalty": {"penalty": 1.1}}},
    "top-k 40, top-p 0.95": {"prompts": [STORY], "tokens": 40, "options": {"temperature": 0.8, "topK": 40, "topP": 0.95, "seed": 5}},
    "top-k 1000": {"prompts": [STORY], "tokens": 24, "options": {"temperature": 1.5, "topK": 1000, "topP": 1, "seed": 6}},
    "min-p of all tokens": {"prompts": [STORY], "tokens": 24, "options": {"temperature": 1, "topK": 0, "topP": 1, "minP": 0.02, "seed": 7}},
    "top-p of all tokens": {"prompts": [STORY], "tokens": 24, "options": {"temperature": 1, "topK": 0, "topP": 0.9, "seed": 8}},
    "all tokens": {"prompts": [STORY], "tokens": 16, "options": {"temperature": 1, "topK": 0, "topP": 1, "seed": 9}},
    "penalties": {"prompts": [STORY], "tokens": 40, "options": {"temperature": 0, "repeatPenalty": {"penalty": 1.3, "frequencyPenalty": 0.7,
                                                                                                    "presencePenalty": 0.5}}},
    "xtc": {"prompts": [STORY], "tokens": 24, "options": {"temperature": 0.9, "seed": 3, "xtc": {"probability": 0.5, "threshold": 0.1}}},
    "a token that is made likely": {"prompts": [FACT], "tokens": 24, "options": {"temperature": 0}, "bias": [[23000, 14], [24000, -5]]},
    "a grammar": {"prompts": [DATA], "tokens": 24, "options": {"temperature": 0}, "grammar": "json"},
    "a grammar and a draw": {"prompts": [STORY], "tokens": 16, "options": {"temperature": 1, "topK": 40, "seed": 2}, "grammar": "json"},
    "one token": {"prompts": [FACT], "tokens": 1, "options": {"temperature": 0}},
    "a new context": {"prompts": [FACT], "tokens": 16, "options": {"temperature": 0}, "fresh": True},
    "vectors": {"prompts": [FACT, STORY], "embed": True},
    "behind vectors": {"prompts": [STORY], "tokens": 16, "options": {"temperature": 0}},
}


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("WANE_") or k in ("WANE_CACHE", "WANE_OFFLINE")}
    return {**kept, "MALLOC_ARENA_MAX": "2", **more}


class Program:
    """PROGRAM, asked line by line; under `wane exec` with these options, or without (None)."""

    def __init__(self, options, folder=NODE, streams=1):
        before = [] if options is None else [str(WANE), "exec", *options, "--"]
        self.process = subprocess.Popen([*before, "node", "--expose-gc", str(PROGRAM), MODEL, "1", str(streams)], cwd=folder, env=environment(),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError("the program ended: " + self.process.communicate()[1])
        return json.loads(line)

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.read()

    def end(self):
        """What it said on standard error."""
        said = self.process.communicate(timeout=60)[1]
        if self.process.returncode:
            raise AssertionError(f"exit code {self.process.returncode}: {said}")
        return said


class Same(unittest.TestCase):
    """Each kind of request in one process of either kind, one after the other."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            stats = pathlib.Path(folder) / "stats.json"
            cls.answers, cls.said = [], []
            # `always`: what is the faster head on a loaded machine is no question of this test.
            for options in (None, ["--head", "always", "--shadow", "0.1", "--stats", str(stats)]):
                program = Program(options)
                cls.answers.append({name: program.ask(request) for name, request in REQUESTS.items()})
                cls.said.append(program.end())
            cls.stats = json.loads(stats.read_text())

    def test_answers(self):
        plain, under = self.answers
        for name in REQUESTS:
            for field in ("ids", "vectors"):
                with self.subTest(name, field=field):
                    self.assertEqual(plain[name].get(field), under[name].get(field))

    def test_what_is_said(self):
        first, *_, last = self.said[1].strip().splitlines()
        self.assertRegex(first, r"^wane: .*: certified head, .*sketch .*")
        found = LAST.match(last)
        self.assertTrue(found, last)
        drawn = sum(len(ids) for one in self.answers[1].values() for ids in one.get("ids", []))
        self.assertEqual(int(found["tokens"]) - self.stats["dense"]["off"], drawn, last)
        self.assertGreater(int(found["certified"]), drawn / 2, last)
        self.assertGreater(int(found["checked"]), 0, last)
        self.assertEqual(int(found["divergent"]), 0, last)
        self.assertGreater(float(found["head"]), 0)
        self.assertGreater(float(found["decoding"]), 0)
        for name in ("tokens", "certified", "checked", "divergent"):
            self.assertEqual(self.stats[name], int(found[name]))

    def test_nothing_is_said_without(self):
        self.assertNotIn("wane", self.said[0])


class Streams(unittest.TestCase):
    def test_side_by_side(self):
        """Four sequences in one context, every decode compared: who shares a batch with whom is chance, so that two runs need not be alike."""
        request = {"prompts": [STORY, FACT, DATA, STORY], "tokens": 12, "options": {"temperature": 0}}
        program = Program(["--shadow", "1"], streams=4)
        ids = program.ask(request)["ids"]
        found = LAST.search(program.end())
        self.assertEqual([len(one) for one in ids], [12] * 4)
        self.assertEqual((found["tokens"], found["divergent"]), ("48", "0"), found[0])


class Leak(unittest.TestCase):
    def test_two_hundred_requests(self):
        """A context that is not given back would be 12 MB and more in each twentieth request, a row of logits 0.2 MB in each token: 60 and 80 in all."""
        program = Program(["-q"])
        memory = [program.ask({"prompts": [FACT], "tokens": 4, "options": {"temperature": i % 2 * 0.8, "seed": i}, "fresh": i % 20 == 0})["rss"]
                  for i in range(200)]
        self.assertEqual(program.end(), "")
        self.assertLess(max(memory[150:]) - max(memory[50:100]), 30e6, [one // 1000 for one in memory[::10]])


class App(unittest.TestCase):
    """The program of docs/node.md."""

    def run_app(self, folder, *before, status=0):
        app = (ROOT / "examples" / "node" / "app.mjs").read_text()
        self.assertEqual(app.count("gpu: false"), 1)
        # The engine's workers spin, and a test may have less than the cores that it counts.
        (folder / "app.mjs").write_text(app.replace("gpu: false", "gpu: false, maxThreads: 1"))
        done = subprocess.run([*before, "node", "app.mjs", MODEL, *QUESTIONS], cwd=folder, env=environment(), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def make_folder(self):
        """A folder with the package, beside the installed one so that files can be linked."""
        made = tempfile.TemporaryDirectory(prefix="tmp-node-", dir=NODE.parent)
        self.addCleanup(made.cleanup)
        shutil.copytree(NODE / "node_modules", pathlib.Path(made.name) / "node_modules", copy_function=os.link, symlinks=True)
        return pathlib.Path(made.name)

    def test_known_and_unknown(self):
        folder = self.make_folder()
        plain = self.run_app(folder)
        self.assertTrue(plain.stdout.strip())
        under = self.run_app(folder, str(WANE), "exec", "--")
        self.assertEqual(under.stdout, plain.stdout)
        self.assertTrue(LAST.search(under.stderr)["decoding"], under.stderr)
        silent = self.run_app(folder, str(WANE), "exec", "-q", "--")
        self.assertEqual((silent.stdout, silent.stderr), (plain.stdout, plain.stderr))

        library = folder / LIBRARY
        content = library.read_bytes()
        self.assertEqual(content.count(b"0.4.0-dev\0"), 1)
        library.unlink()  # a link to the installed one
        library.write_bytes(content.replace(b"0.4.0-dev\0", b"9.4.0-dev\0"))
        library.chmod(0o755)
        unknown = self.run_app(folder, str(WANE), "exec", "--")
        self.assertEqual(unknown.stdout, plain.stdout)
        self.assertRegex(unknown.stderr, r"wane: .*9\.4\.0-dev.*0\.4\.0")
        self.assertNotRegex(unknown.stderr, "certified")


if __name__ == "__main__":
    unittest.main()
