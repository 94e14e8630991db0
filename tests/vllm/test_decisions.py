"""
A real vLLM draws, judges, steers and ends as wane's own layer does on the same logits: what the processor made of each row is compared with what
tests/support/rows_layer.c makes of the same rows. And what is off changes nothing.
"""
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

import engine
import wane
from wane_vllm.reply import Reply

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYER = pathlib.Path(os.environ["WANE_BUILD"]) / "tests" / "rows_layer"
GATE = str(next(path for path in sorted((ROOT / "share" / "gates").glob("*.gate")) if wane.Gate(path).facts.vocab_size == 49152))
PROMPTS = ["Write three sentences about the sea.", "What is the capital of Norway, and what is it known for?", "Explain why the sky is blue.",
           "List five fruits with their colours.", "Write a short poem about winter.", "Describe a clock to a child.",
           "def fibonacci(n):", "Once upon a time there was a king who"]
LOOPS = "The sea is wide, and the ships are"


def chat(text):
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    path = tmp_path_factory.mktemp("profile") / "p.json"
    wane.Profile(model="0" * 32, signal="entropy", sign=-1, peak=-0.2, low=-2.5).save(path)
    return str(path)


@pytest.fixture(scope="module")
def seen():
    """Rows and drawn tokens of each reply, by its request's name."""
    rows, draw = {}, Reply.draw

    def watched(self, row):
        self.settle()
        kept = rows.setdefault(self.wish.request, {})
        if not self.forced:
            kept[self.taken] = row.copy()
        return draw(self, row)
    Reply.draw = watched
    yield rows
    Reply.draw = draw


@pytest.fixture(scope="module")
def llm(seen, profile):
    with engine.started({"mode": "off", "request_modes": ["wane"], "gate": GATE, "profile": profile, "tenants": "one",
                         "quality": {"governor": True, "fuse": "loop", "fallback": "transparent", "rules": False}}, max_num_seqs=8) as made:
        yield made


def layer(path, prompt, rows, end, profile, params, most=None):
    """What wane's layer says: verdicts, and the reply."""
    raw = np.array([rows[0].size, len(prompt), len(rows), end], np.int32).tobytes() + np.asarray(prompt, np.int32).tobytes()
    path.write_bytes(raw + np.stack(rows).astype(np.float32).tobytes())
    settings = {"temperature": params.temperature, "top_k": max(params.top_k, 0), "top_p": params.top_p, "min_p": params.min_p, "seed": params.seed,
                "mode": 2, "fuse": 1, "fallback": 1, "governor": 1, "rules": 0, "max_tokens": most or len(rows)}
    done = subprocess.run([LAYER, path, GATE, profile, *(f"{name}={value}" for name, value in settings.items())], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return lines[:-1], lines[-1]


def test_decisions_are_those_of_the_layer(llm, seen, profile, tmp_path):
    from vllm import SamplingParams
    params = [SamplingParams(temperature=(0.8, 1.2, 0.3)[n % 3], top_k=(0, 40)[n % 2], top_p=(1.0, 0.9)[n % 2], seed=100 + n, max_tokens=40,
                             extra_args={"wane_mode": "wane", "wane_request": f"r{n}"}) for n in range(len(PROMPTS))]
    before = {name: engine.counted(name) for name in ("wane_gate_rejects", "wane_gate_judged", "wane_governor_tokens")}
    replies = llm.generate([chat(text) for text in PROMPTS], params, use_tqdm=False)
    tokens = rejects = judged = 0
    for n, reply in enumerate(replies):
        said = list(reply.outputs[0].token_ids)
        kept = seen[f"r{n}"]
        rows = [kept[at] for at in range(len(said))]
        verdicts, own = layer(tmp_path / "rows", reply.prompt_token_ids, rows, 2, profile, params[n])
        assert own["tokens"] == [token for token in said if token != 2], n
        tokens += len(said)
        rejects += sum(v["reject"] for v in verdicts[:len(said)])
        judged += sum(v["judged"] for v in verdicts[:len(said)])
    llm.generate(["a"], [SamplingParams(max_tokens=1)], use_tqdm=False)  # ends are seen when the next step begins
    after = {name: engine.counted(name) - count for name, count in before.items()}
    assert after["wane_gate_judged"] == judged > 100 and after["wane_gate_rejects"] == rejects > 10
    assert after["wane_governor_tokens"] == tokens
    print(f"\n{tokens} tokens of {len(PROMPTS)} prompts: token by token those of the layer, {judged} judged, {rejects} in doubt")


def test_the_fuse_ends_where_the_layer_ends(llm, seen, profile, tmp_path):
    from vllm import SamplingParams
    stuck = llm.get_tokenizer().encode(" sea")[0]
    params = SamplingParams(temperature=0, max_tokens=250, seed=1, logit_bias={stuck: 100.0}, extra_args={"wane_mode": "wane", "wane_request": "loop"})
    reply = llm.generate([LOOPS], [params], use_tqdm=False)[0].outputs[0]
    prompt = llm.get_tokenizer().encode(LOOPS)
    rows = [seen["loop"][at] for at in sorted(seen["loop"])]
    _, own = layer(tmp_path / "rows", prompt, rows, 2, profile, params, most=len(rows) + 1)
    assert own["finish"] == "fuse", own["finish"]
    assert list(reply.token_ids)[:len(own["tokens"])] == own["tokens"]
    assert reply.text.endswith(own["text"].strip()) and reply.finish_reason == "stop"
    print(f"\nthe fuse ended a loop after {len(own['tokens'])} tokens, with: {own['text'].strip()!r}")


def test_off_is_off(llm):
    """Greedy requests in mode off, and in mode wane with everything at rest, beside others in mode wane: the same tokens."""
    from vllm import SamplingParams
    plain = SamplingParams(temperature=0, max_tokens=24)
    first = llm.generate([chat(text) for text in PROMPTS[:4]], [plain] * 4, use_tqdm=False)
    other = SamplingParams(temperature=0, max_tokens=24, extra_args={"wane_mode": "wane"})
    second = llm.generate([chat(text) for text in PROMPTS[:4]], [other] * 4, use_tqdm=False)
    assert [list(r.outputs[0].token_ids) for r in first] == [list(r.outputs[0].token_ids) for r in second]
