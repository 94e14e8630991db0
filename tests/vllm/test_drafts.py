"""
Drafts in the real vLLM: with them the greedy replies to 100 prompts are those without; acceptance and tokens a second are printed.

    WANE_VLLM_MODEL=folder pytest -s tests/vllm/test_drafts.py          all of it, some minutes
    python tests/vllm/test_drafts.py folder ARM [SETTING=VALUE...]      one engine, its figures as JSON; ARMS below names them

Each arm is an engine in a process of its own. Half of the prompts are templated (lists to copy, form letters, records as JSON), half ask
for prose. Weights and KV cache are float32: in bfloat16 vLLM itself gives some other replies where a batch has another size, with or
without drafts; test_vllm_alone shows how many.
"""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Any, Dict, List

import pytest

MODEL = os.environ.get("WANE_VLLM_MODEL", "")
DRAFTS = {"method": "custom_class", "model": "wane_vllm.drafts.Drafts", "num_speculative_tokens": 8}
NGRAM = {"method": "ngram", "num_speculative_tokens": 8, "prompt_lookup_max": 4, "prompt_lookup_min": 2}
ARMS: Dict[str, Any] = {"plain": None, "ngram": NGRAM, "drafts": DRAFTS}
TOKENS = 48

NAMES = ("Anna Berg", "Tom Hale", "Mia Stone", "Jon Falk", "Lea Winter", "Max Thorne", "Eva Lind", "Ben Carver", "Ida Holm", "Sam Reed")
GOODS = ("apples", "pears", "plums", "lamps", "chairs", "desks", "coats", "boots", "ropes", "bells", "clocks", "vases")
THEMES = ("a lighthouse in winter", "a lost violin", "the first train", "a garden at night", "an honest thief", "two rivers",
          "a letter that came late", "the last bookshop", "a storm at sea", "a clockmaker", "an old bridge", "a fox and the moon",
          "the smell of rain")


def templated(n: int) -> str:
    name, other, good = NAMES[n % 10], NAMES[(n + 3) % 10], [GOODS[(n + i * 5) % 12] for i in range(5)]
    if n % 3 == 0:
        lines = "\n".join(f"{i + 1}. {7 * n % 90 + i} boxes of {g} for {name}" for i, g in enumerate(good))
        return f"Copy this list exactly, nothing else:\n{lines}"
    if n % 3 == 1:
        letter = f"Dear {name},\nthank you for your order of {good[0]}. It will be sent on Monday. Please pay within two weeks.\nYours, Ada"
        return f"Here is a letter:\n{letter}\nWrite the same letter to {other}."
    records = "\n".join(f'{{"name": "{NAMES[(n + i) % 10]}", "item": "{g}", "count": {n + i}}}' for i, g in enumerate(good))
    return f"Here are records:\n{records}\nWrite the records again, as they are."


def novel(n: int) -> str:
    return f"Write a short {('story', 'poem', 'speech', 'diary page')[n % 4]} about {THEMES[n % 13]} that nobody has told before."


def prompts(tokenizer: Any) -> Dict[str, List[List[int]]]:
    def ids(text: str) -> List[int]:
        told = tokenizer.apply_chat_template([{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False)
        return tokenizer(told, add_special_tokens=False)["input_ids"]
    return {"templated": [ids(templated(n)) for n in range(50)], "novel": [ids(novel(n)) for n in range(50)]}


# ------------------------------------------------------------------------ one arm

def record(folder: str, origin: Any, asked: List[List[int]], outputs: List[Any]) -> None:
    """Traces of what came out, as `wane.Tracer` writes them; each reply twice, since what was seen once is in no table."""
    import wane
    with wane.Tracer(folder, origin) as tracer:
        for round_ in range(2):
            for n, (prompt, output) in enumerate(zip(asked, outputs)):
                with tracer.request(prompt, id=f"r{round_}-{n}", temperature=0.0) as traced:
                    for token, best in zip(output.outputs[0].token_ids, output.outputs[0].logprobs):
                        ordered = sorted(best.items(), key=lambda item: -item[1].logprob)
                        traced.token(token, wane.Candidates.of([t for t, _ in ordered], [x.logprob for _, x in ordered], log_sum=0.0))
                    traced.end("length")


def run_arm(model: str, arm: str, settings: Dict[str, str]) -> Dict[str, Any]:
    os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", HF_HUB_OFFLINE="1")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    from vllm import LLM, SamplingParams
    os.environ["WANE_VLLM"] = json.dumps({"draft": {"table": settings.get("table"), "least": float(settings.get("least", 0.3))}})
    worker = {"worker_cls": "wane_vllm.worker.Worker"} if arm == "drafts" else {}
    llm = LLM(model=model, enforce_eager=True, max_model_len=1024, max_num_seqs=int(settings.get("seqs", 4)), max_num_batched_tokens=512,
              dtype=settings.get("dtype", "float32"), enable_prefix_caching=False, disable_log_stats=False,
              speculative_config=ARMS[arm], **worker)
    sampling = SamplingParams(temperature=0, max_tokens=TOKENS, logprobs=5 if "record" in settings else None)
    asked = prompts(llm.get_tokenizer())
    llm.generate([{"prompt_token_ids": asked["novel"][0][:5]}], SamplingParams(temperature=0, max_tokens=4), use_tqdm=False)
    result: Dict[str, Any] = {"arm": arm, "settings": settings}
    for kind, given in asked.items():
        begun, counted = time.perf_counter(), _counters(llm)
        outputs = llm.generate([{"prompt_token_ids": prompt} for prompt in given], sampling, use_tqdm=False)
        seconds, tokens = time.perf_counter() - begun, [list(output.outputs[0].token_ids) for output in outputs]
        result[kind] = {"tokens": tokens, "seconds": seconds, "rate": sum(map(len, tokens)) / seconds,
                        "counters": {name: value - counted.get(name, 0) for name, value in _counters(llm).items()}}
        if "record" in settings and kind == "templated":
            from wane_vllm.tokens import origin_of
            origin = origin_of(llm.get_tokenizer(), "a model", llm.llm_engine.model_config.get_vocab_size())
            record(settings["record"], origin, given, outputs)
    return result


def _counters(llm: Any) -> Dict[str, float]:
    runner = llm.llm_engine.model_executor.driver_worker.worker.model_runner
    ours = dict(getattr(getattr(runner, "drafter", None), "counters", {}))
    theirs = {metric.name: metric.value for metric in llm.get_metrics() if "spec_decode" in metric.name and hasattr(metric, "value")}
    return {**ours, **theirs}


def summary(result: Dict[str, Any]) -> str:
    said = []
    for kind in ("templated", "novel"):
        c, rate = result[kind]["counters"], result[kind]["rate"]
        drafted, accepted = c.get("vllm:spec_decode_num_draft_tokens", 0), c.get("vllm:spec_decode_num_accepted_tokens", 0)
        said.append(f"{kind} {rate:.1f} tokens/s, {accepted:.0f} of {drafted:.0f} drafted tokens accepted")
    return f"{result['arm']} {result['settings']}: " + "; ".join(said)


def differing(a: Dict[str, Any], b: Dict[str, Any]) -> int:
    return sum(x != y for kind in ("templated", "novel") for x, y in zip(a[kind]["tokens"], b[kind]["tokens"]))


# -------------------------------------------------------------------------- tests

_done: Dict[str, Dict[str, Any]] = {}


def arm(name: str, **settings: str) -> Dict[str, Any]:
    words = [sys.executable, __file__, MODEL, name, *(f"{key}={value}" for key, value in settings.items())]
    key = " ".join(words[3:])
    if key not in _done:
        ran = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=900)
        _done[key] = json.loads(ran.stdout.splitlines()[-1])
        print("\n" + summary(_done[key]))
    return _done[key]


@pytest.fixture(scope="module")
def model() -> str:
    if not MODEL:
        pytest.skip("WANE_VLLM_MODEL names no model")
    pytest.importorskip("vllm")
    return MODEL


@pytest.fixture(scope="module")
def plain(model: str, tmp_path_factory: Any) -> Dict[str, Any]:
    """Replies without drafts; and their traces, for the table. Logprobs cost time: the speed to compare with is in test_vllm_alone."""
    return arm("plain", record=str(tmp_path_factory.mktemp("traces")))


def test_the_same_replies_from_the_running_text(plain: Dict[str, Any]) -> None:
    drafted = arm("drafts")
    assert differing(plain, drafted) == 0
    c = drafted["templated"]["counters"]
    assert c["accepted"] > 0.5 * c["proposed"] > 100 and c["faults"] == 0


def test_the_same_replies_from_a_table(plain: Dict[str, Any], tmp_path: pathlib.Path) -> None:
    import wane
    wane.Table.build([plain["settings"]["record"]], tmp_path / "x.slmt")
    drafted = arm("drafts", table=str(tmp_path / "x.slmt"))
    assert differing(plain, drafted) == 0
    c = drafted["templated"]["counters"]
    assert c["accepted_table"] > 100 and c["reloads"] >= 0 and c["faults"] == 0


@pytest.mark.skipif("WANE_VLLM_ALONE" not in os.environ, reason="WANE_VLLM_ALONE=1 measures vLLM itself, for five minutes")
def test_vllm_alone(plain: Dict[str, Any]) -> None:
    """What vLLM itself does, and how fast: plainly, with its own n-gram drafts, in another batch. Printed, not judged."""
    print("\nfloat32, without logprobs:", differing(plain, arm("plain")), "of 100 replies differ")
    print("float32, its own n-gram drafts:", differing(plain, arm("ngram")), "of 100 replies differ")
    half = arm("plain", dtype="bfloat16")
    eight = arm("plain", dtype="bfloat16", seqs="8")
    print("bfloat16, eight at once instead of four, no drafts:", differing(half, eight), "of 100 replies differ")


if __name__ == "__main__":
    made = run_arm(sys.argv[1], sys.argv[2], dict(word.split("=", 1) for word in sys.argv[3:]))
    print(summary(made), file=sys.stderr)
    print(json.dumps(made))
