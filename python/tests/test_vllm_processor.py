"""
The logits processor without vLLM: batches as the real one sends them, rows that come, go, move, are read in pieces and put off; what is drawn, forced, recorded
and counted. The order of updates was recorded from vLLM 0.32 on a CPU.
"""
import enum
import json
import types
from dataclasses import dataclass, field
from typing import List, Optional

import numpy as np
import pytest

import wane
from wane import audit, trace
from conftest import ROOT

processor = pytest.importorskip("wane_vllm.processor")
from wane_vllm import metrics, parts, reply, settings  # noqa: E402

V, END = 300, 299
GATE = str(next((ROOT / "share" / "gates").glob("*.gate")))


class Direction(enum.Enum):
    UNIDIRECTIONAL = 1
    SWAP = 2


@dataclass
class Update:
    removed: list = field(default_factory=list)
    added: list = field(default_factory=list)
    moved: list = field(default_factory=list)
    batch_size: int = 0


@dataclass
class Params:
    """SamplingParams, as far as it is looked at."""

    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: Optional[int] = 7
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    max_tokens: Optional[int] = 16
    ignore_eos: bool = False
    stop: Optional[List[str]] = None
    extra_args: Optional[dict] = None
    eos_token_id: Optional[int] = END
    all_stop_token_ids: set = field(default_factory=lambda: {END})


class Tensor:
    """A tensor on the CPU, as far as it is used."""

    class Device:
        type = "cpu"
    device = Device()

    def __init__(self, array):
        self.array = array

    def detach(self):
        return self

    def numpy(self):
        return self.array

    def __getitem__(self, index):
        return Tensor(self.array[index])

    def __setitem__(self, index, value):
        self.array[index] = value

    def fill_(self, value):
        self.array[...] = value


class Tokenizer:
    eos_token_id = END

    @staticmethod
    def encode(text, add_special_tokens):
        assert not add_special_tokens
        return list(text.encode())


class Model:
    max_model_len = 400
    tokenizer = model = "none"
    trust_remote_code = False

    def get_vocab_size(self):
        return V


class Config:
    model_config = Model()


def letters(tokenizer):
    return [bytes([token]) if token < 256 else b"" for token in range(V)]


@pytest.fixture
def make(monkeypatch):
    """A processor with settings, and the counters that it has from here on."""
    def made(**given):
        settings.current.cache_clear()
        monkeypatch.setenv("WANE_VLLM", json.dumps(given))
        monkeypatch.setattr(parts, "token_bytes", letters)
        monkeypatch.setattr(parts, "origin_of", lambda tokenizer, model, size: wane.Origin("1" * 32, "2" * 32, V))
        monkeypatch.setattr(parts, "model_digest", lambda settings, folder: "1" * 32)
        monkeypatch.setattr(processor.Wane, "_tokenizer", staticmethod(lambda model: Tokenizer()))
        monkeypatch.setattr(metrics, "_own", metrics.Counters(""))
        return processor.Wane(Config(), "cpu", False)
    yield made
    settings.current.cache_clear()


def row_after(tokens, heat=2.0):
    return (heat * np.random.default_rng([int(t) for t in tokens[-4:]]).gumbel(size=V)).astype(np.float32)


def apply(wane_processor, contexts):
    """One step over these rows' contexts; the token that is left in each row, None where none was chosen."""
    rows = np.stack([row_after(context) for context in contexts])
    plain = rows.copy()
    assert wane_processor.apply(Tensor(rows)).array is rows
    tokens = []
    for row, before in zip(rows, plain):
        chosen = np.isneginf(row).sum() == V - 1
        assert chosen or (row == before).all()
        tokens.append(int(row.argmax()) if chosen else None)
    return tokens


def alone(prompt, params, quality, count):
    """The same reply from a sampler that nothing disturbs."""
    sampler = wane.Sampler(prompt, V, temperature=params.temperature, top_k=params.top_k, top_p=params.top_p, min_p=params.min_p, seed=params.seed,
                           quality=quality, gate=wane.Gate(GATE), text=bytes(prompt).decode("utf-8", "replace"))
    out = []
    for _ in range(count):
        out.append(sampler.draw(row_after([*prompt, *out])).token)
        sampler.take(out[-1])
    return out


def test_idle():
    settings.current.cache_clear()
    p = processor.Wane(object(), "cpu", False)  # nothing of vLLM is looked at
    p.update_state(Update(added=[(0, Params(), [1], [])]))
    logits = Tensor(np.zeros((1, V), np.float32))
    assert p.apply(logits) is logits and not p.is_argmax_invariant()


def test_tokens_are_those_of_a_sampler_through_all_that_happens_to_rows(make):
    p = make(mode="wane", gate=GATE)
    prompts, outs = {n: [65 + n, 66, 67] for n in "abcd" and range(4)}, {n: [] for n in range(4)}
    params = {n: Params(seed=n, max_tokens=50) for n in range(4)}

    def step(order):
        for n, token in zip(order, apply(p, [[*prompts[n], *outs[n]] for n in order])):
            outs[n].append(token)

    p.update_state(Update(added=[(0, params[0], prompts[0], outs[0])]))
    apply(p, [prompts[0]])  # the prompt is read in pieces: vLLM keeps nothing of this row
    p.update_state(Update(added=[(1, params[1], prompts[1], outs[1]), (2, params[2], prompts[2], outs[2])]))
    for _ in range(3):
        step([0, 1, 2])
        p.update_state(None)
    p.update_state(Update(moved=[(0, 2, Direction.SWAP)]))
    step([2, 1, 0])
    # Row 1 is put off: the last row takes its place, and its own removal is not said.
    p.update_state(Update(moved=[(2, 1, Direction.UNIDIRECTIONAL)]))
    step([2, 0])
    p.update_state(Update(added=[(2, params[3], prompts[3], outs[3])]))
    step([2, 0, 3])
    again = list(outs[1])
    p.update_state(Update(removed=[0], added=[(0, params[1], prompts[1], again)]))  # in the place of another that goes
    outs[1] = again
    for _ in range(4):
        step([1, 0, 3])
        p.update_state(None)
    for n in range(4):
        assert outs[n] == alone(prompts[n], params[n], wane.Quality(mode="wane"), len(outs[n])), n
    assert len(p.parked) == 1 and set(p.rows.of) == {0, 1, 2}
    p.close()


def test_tokens_that_come_a_step_late(make):
    p, params, out, prompt = make(mode="wane", gate=GATE), Params(max_tokens=40), [], [70, 71]
    p.update_state(Update(added=[(0, params, prompt, out)]))
    expected = alone(prompt, params, wane.Quality(mode="wane"), 10)
    for at in range(10):
        assert apply(p, [[*prompt, *expected[:at]]]) == [expected[at]]
        if at > 0:
            out[-1] = expected[at - 1]
        out.append(-1)
    p.update_state(None)
    assert p.rows.of[0].taken in (9, 10)


def test_another_token_than_the_drawn_one(make):
    """Somebody behind the processor chose otherwise: what stands in the reply counts."""
    p, params, out = make(mode="wane"), Params(max_tokens=40), []
    p.update_state(Update(added=[(0, params, [70], out)]))
    apply(p, [[70]])
    out.append(5)
    apply(p, [[70, 5]])
    assert len(p.rows.of[0].context) == 2 and len(p.rows.of[0].sampler) == 1


def test_modes_of_requests(make):
    p = make(mode="off", request_modes=["wane"])
    outs = [[], []]
    p.update_state(Update(added=[(0, Params(), [1, 2], outs[0]), (1, Params(extra_args={"wane_mode": "wane", "other": 3}), [1, 2], outs[1])]))
    first, second = apply(p, [[1, 2], [1, 2]])
    assert first is None and second is not None
    assert set(p.rows.of) == {1}
    for bad, word in (({"wane_mode": "legacy"}, "may not ask"), ({"wane_mood": "x"}, "wane_mode"), ({"wane_ssp": "domain=legl"}, "did you mean legal"),
                      ({"wane_ssp": "nonsense"}, "not a pair"), ({"wane_mode": 3}, "text"), ({"wane_kind": "prose"}, "single"),
                      ({"wane_tenant": "me"}, "one tenant"), ({"wane_request": "a b"}, "printable"), ({"wane_domain": "legal"}, "left out")):
        with pytest.raises(ValueError, match=word):
            processor.Wane.validate_params(Params(extra_args=bad))
    processor.Wane.validate_params(Params(extra_args={"session_id": "x"}))
    processor.Wane.validate_params(Params(extra_args={"wane_ssp": "domain=legal;tolerance=strict"}))


def test_an_instruction_changes_what_it_must(make):
    p = make(mode="off", request_modes=["wane"], domains={"finance": {"doubt_budget": 9}})
    said = {"wane_ssp": "tolerance=strict;domain=medical;fallback=none"}
    p.update_state(Update(added=[(0, Params(extra_args=said), [1], []), (1, Params(extra_args={"wane_ssp": "SSP:domain=finance"}), [1], [])]))
    quality = p.rows.of[0].wish.quality
    expected, _ = wane.Quality(mode="wane").with_instruction("SSP:domain=medical;tolerance=strict;fallback=none")
    assert quality == expected and quality.clamp == 20 and quality.hold == 0 and quality.fallback == "none"
    assert p.rows.of[1].wish.quality.doubt_budget == 9 and p.rows.of[1].wish.policy["ssp"]["settings"] == "server"


def test_the_fuse_ends_with_what_its_reader_gets(make):
    p, params, out = make(mode="wane", quality={"fuse": "loop", "fallback": "transparent"}), Params(temperature=0, max_tokens=300), []
    p.update_state(Update(added=[(0, params, [65], out)]))
    rows = [np.roll(row_after([1, 2, 3, 4]), step) for step in range(4)]
    while len(out) < 300 and END not in out:
        logits = rows[len(out) % 4][None].copy()
        p.apply(Tensor(logits))
        out.append(int(logits[0].argmax()))
    assert END in out and p.counters.get("wane_fuse", "loop") == 1
    said = bytes(token for token in out[90:-1] if token < 256).decode("utf-8", "ignore")
    assert "repeat" in said or "loop" in said
    going = make(mode="wane", quality={"fuse": "loop"})
    out = []
    going.update_state(Update(added=[(0, Params(temperature=0, max_tokens=300, ignore_eos=True), [65], out)]))
    while len(out) < 250:  # a request without an end goes on
        logits = rows[len(out) % 4][None].copy()
        going.apply(Tensor(logits))
        out.append(int(logits[0].argmax()))
    assert END not in out


def test_penalties_are_those_of_vllm():
    params = Params(repetition_penalty=1.5, presence_penalty=0.25, frequency_penalty=0.5)
    row = row_after([1])
    row[3], row[4], row[9] = 2, -2, 1
    made = reply.penalised(row, params, [3, 4], [9, 9, 4, -1])
    assert made[3] == pytest.approx(2 / 1.5) and made[4] == pytest.approx(-2 * 1.5 - 0.75) and made[9] == pytest.approx(1 / 1.5 - 1.25)
    others = np.setdiff1d(np.arange(V), [3, 4, 9])
    assert (made[others] == row[others]).all() and row[9] == 1
    assert reply.penalised(row, Params(), [3], [4]) is row


def test_traces_and_audit(make, tmp_path):
    p = make(mode="wane", gate=GATE, record={"folder": str(tmp_path / "traces"), "plain": True}, audit={"path": str(tmp_path / "audit.db")},
             tenants="request")
    outs, ends = [[], [], []], [5, 7, 6]
    given = [Params(max_tokens=5, extra_args={"wane_tenant": "a", "wane_request": "r1", "wane_kind": "code"}), Params(max_tokens=50),
             Params(max_tokens=50, stop=["x"], extra_args={"wane_ssp": "domain=tech"})]
    p.update_state(Update(added=[(n, given[n], [1, 2], outs[n]) for n in range(3)]))
    for step in range(7):
        live = [n for n in range(3) if len(outs[n]) < ends[n]]
        for n, token in zip(live, apply(p, [[1, 2, *outs[n]] for n in live])):
            outs[n].append(END if n == 1 and step == 6 else token)
        if step == 4:
            p.update_state(Update(moved=[(1, 0, Direction.UNIDIRECTIONAL), (2, 1, Direction.UNIDIRECTIONAL)]))
        if step == 5:
            p.update_state(Update(removed=[1]))  # a stop string, which tokens do not tell
    p.update_state(Update(removed=[0]))
    p.close()
    counted = trace.count(tmp_path / "traces", strictly=True)
    assert counted["requests"] == 3 and counted["tokens"] == 18 and counted["requests_of"]["code"] == 1
    finishes = sorted(record["finish"] for record in trace.records(tmp_path / "traces") if "finish" in record)
    assert finishes == ["end", "length", "shutdown"]
    assert audit.verify(tmp_path / "audit.db").fault == "whole"
    found = {record["finish"]: record for record in audit.read(tmp_path / "audit.db", event="request")}
    assert found["length"]["request"] == "r1" and found["length"]["tenant"] == "a" and found["length"]["reply_tokens"] == 5
    assert found["end"]["reply_tokens"] == 7 and found["shutdown"]["policy"]["ssp"]["domain"] == "tech"
    assert p.counters.get("wane_mode_requests", "wane") == 3 and p.counters.get("wane_gate_judged") > 0


def test_a_row_that_holds_nothing(make):
    p = make(mode="wane")
    p.update_state(Update(added=[(0, Params(), [1], [])]))
    logits = np.full((1, V), np.nan, np.float32)
    p.apply(Tensor(logits))
    assert np.isnan(logits).all() and p.counters.get("wane_row_failures") == 1


@pytest.mark.parametrize("given, word", [
    ({"mod": "wane"}, "did you mean mode"), ({"mode": "loud"}, "loud"), ({"quality": {"clam": 3}}, "did you mean clamp"),
    ({"quality": {"clamp": -3}}, "clamp"), ({"record": {"path": "x"}}, "record"), ({"record": {}}, "folder"), ({"audit": 3}, "object"),
    ({"model": "xyz"}, "digest"), ({"tenants": "many"}, "tenants"), ({"request_modes": ["fast"]}, "fast"), (3, "object"),
    ({"domains": {"legal": {"hold": "much"}}}, "legal: hold")])
def test_settings_refused(given, word):
    with pytest.raises(settings.SettingsError, match=word):
        settings.parse(given)


def test_the_settings_that_ship():
    shipped = settings.read(str(ROOT / "deploy" / "fleet" / "vllm.json"))
    assert shipped.mode == "wane" and shipped.tenants == "key" and shipped.record is not None and shipped.domains["legal"].doubt_budget == 2


def test_settings_from_files(tmp_path):
    path = tmp_path / "s.json"
    path.write_text('{"mode": "wane", "quality": {"fuse": "loop"}, "domains": {"legal": {"doubt_budget": 2}}}')
    read = settings.read(str(path))
    assert read.quality.fuse == read.domains["legal"].fuse == "loop" and read.domains["legal"].doubt_budget == 2 and not read.idle
    assert settings.read(None).idle and settings.read(" ").idle
    path.write_text("{")
    for bad in (str(path), str(tmp_path / "none"), "{]"):
        with pytest.raises(settings.SettingsError):
            settings.read(bad)


def test_numbers_of_several_processes(tmp_path, monkeypatch):
    monkeypatch.setenv(metrics.FOLDER, str(tmp_path))
    one, two = metrics.Counters(), metrics.Counters()
    one.add("slmt_hit", count=5)
    two.add("slmt_hit")
    two.add("sfcl_fallback", "doubt")
    (tmp_path / "9-0").write_bytes(b"short")
    now = metrics.totals()
    assert now["slmt_hit", ""] == 6 and now["sfcl_fallback", "doubt"] == 1 and now["sfcl_fallback", "forced"] == 0
    page = (ROOT / "docs" / "metrics.md").read_text() + (ROOT / "docs" / "vllm.md").read_text()
    for name, *_ in metrics.FAMILIES:
        assert name in page, name


# ------------------------------------------------------------------------------------------------------------------------------- rows

def test_rows_follow_every_change():
    """Against a dictionary that does what vLLM says of its batch: removed, added, moved or swapped, whatever comes."""
    from wane_vllm.rows import Rows
    rng = np.random.default_rng(3)
    rows, gone, number = Rows(), [], 0
    model = {}
    for _ in range(400):
        removed = [int(r) for r in rng.permutation(8)[:rng.integers(0, 4)]]
        added = []
        for r in rng.permutation(8)[:rng.integers(0, 4)]:
            number += 1
            added.append((int(r), None if rng.random() < 0.2 else number, [], []))
        moved = [(int(a), int(b), types.SimpleNamespace(name=str(rng.choice(["SWAP", "UNIDIRECTIONAL"])))) for a, b in [rng.permutation(8)[:2] for _ in range(rng.integers(0, 3))]]
        left = []
        for r in removed:
            left.append(model.pop(r, None))
        for r, thing, *_ in added:
            left.append(model.pop(r, None))
            if thing is not None:
                model[r] = thing
        for a, b, how in moved:
            one, other = model.pop(a, None), model.pop(b, None)
            if one is not None:
                model[b] = one
            if how.name == "SWAP" and other is not None:
                model[a] = other
            elif how.name != "SWAP":
                left.append(other)
        gone.clear()
        rows.update(types.SimpleNamespace(removed=removed, added=added, moved=moved), lambda params, prompt, output: params, gone.append)
        assert rows.of == model
        assert gone == [thing for thing in left if thing is not None]
