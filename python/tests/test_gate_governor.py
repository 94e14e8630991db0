"""Gate and governor: what ships, odds and doubt, settings and instructions, states, the fuse; and what is refused."""
import math

import numpy as np
import pytest

import wane
from conftest import ROOT

GATES = sorted((ROOT / "share" / "gates").glob("*.gate"))
MODEL = GATES[0].stem


def some_row(seed, heat):
    return (heat * np.random.default_rng(seed).gumbel(size=3000)).astype(np.float32)


def test_the_gates_that_ship():
    for path in GATES:
        with wane.Gate.shipped(path.stem) as gate:
            assert gate.facts.model == path.stem and gate.facts.vocab_size > 10000 and gate.facts.patterns > 0
    for path in (ROOT / "share" / "profiles").glob("*.json"):
        assert wane.Profile.shipped(path.stem).model == path.stem
    for kind in (wane.Gate, wane.Profile):
        with pytest.raises(wane.NotFound, match="f" * 32):
            kind.shipped("f" * 32)


def test_odds():
    gate = wane.Gate.open(GATES[0])
    rows = [some_row(seed, heat) for seed in range(30) for heat in (0.5, 2.0, 8.0)]
    odds = np.array([gate.odds(row) for row in rows]).reshape(30, 3)
    assert np.isfinite(odds).all() and odds[:, 2].mean() > odds[:, 0].mean()  # the surer, the likelier
    assert any(gate.seen(row) for row in rows)
    row = some_row(2, 1.0)
    assert gate.odds(row) == gate.odds(wane.best(row, 50))
    assert gate.odds(row, 1.0) != gate.odds(row, 5.0)
    assert math.isnan(gate.odds(wane.best(row, 3))) and not gate.seen(wane.best(row, 3))
    assert not math.isnan(gate.odds(row[:3])) and math.isnan(gate.odds(row, 0))
    gate.close()
    with pytest.raises(ValueError, match="closed"):
        gate.odds(row)
    for of in (wane.Origin(model="1" * 32), wane.Origin(tokenizer="1" * 32)):
        with pytest.raises(wane.Unsupported, match="another"):
            wane.Gate(GATES[0], of=of)


def test_gates_refused(tmp_path):
    raw = GATES[0].read_bytes()
    bad = tmp_path / "bad.gate"
    for damaged in (b"", raw[:100], raw[:-1], raw[:300] + bytes([raw[300] ^ 1]) + raw[301:]):
        bad.write_bytes(damaged)
        with pytest.raises(wane.FormatError, match="bad.gate"):
            wane.Gate(bad)
    with pytest.raises(wane.NotFound):
        wane.Gate(tmp_path / "none")


def test_a_prompt():
    plain = wane.look_at_prompt([4] * 9)
    assert plain.entropy == 0 and plain.documents == 0 and plain.tau == pytest.approx(0.62, abs=1e-6)
    mixed = wane.look_at_prompt(list(range(8)), "".join(f"Document {i}: text\n" for i in range(4)))
    assert mixed.entropy == pytest.approx(3) and mixed.documents == 4
    assert mixed.tau == pytest.approx(0.62 + 0.18 * math.log2(4) + 0.15, abs=1e-6)
    assert wane.look_at_prompt([], quality=wane.Quality(odds_base=2)).tau == 2


def test_doubt():
    gate, prompt = wane.Gate(GATES[0]), wane.look_at_prompt([1, 2, 3])
    doubt = gate.doubt(prompt, wane.Quality(doubt_budget=2, doubt_allowance=0, forced_every=0))
    usual, level = gate.doubt(prompt, wane.Quality(doubt_budget=2, forced_every=0)), 0.0
    rejects = 0
    for i in range(40):
        row = some_row(i, 0.5 if i % 3 else 10.0)
        verdict = doubt.judge(row, i)
        assert verdict.judged and verdict.odds == gate.odds(row) and verdict.tau == pytest.approx(prompt.tau)
        assert verdict.reject == (not verdict.odds >= verdict.tau) and (verdict.reason == "doubt") == verdict.reject
        assert sum(verdict.share) <= 1 + 1e-9 and all(0 <= b < 32 for b in verdict.bin)
        rejects += verdict.reject
        assert doubt.rejects == rejects and verdict.woke == (verdict.reject and rejects == 3)
        if usual.woke_at is None:  # what is usual for the model is forgiven
            level = max(0.0, level + verdict.reject - gate.facts.allowance)
            assert usual.judge(row, i).woke == (level > 2 + 1e-6)
    assert rejects > 3 and doubt.woke_at is not None and doubt.first_reject is not None and doubt.first_reject <= doubt.woke_at
    assert doubt.judge(some_row(1, 0.5), 40, in_table=True).table and doubt.rejects == rejects
    hot = gate.doubt(prompt, temperature=2.0)
    assert [hot.judge(some_row(i, 1.0), i).forced for i in range(6)] == [False] * 4 + [True, False]
    greedy = gate.doubt(prompt, temperature=0.0)
    assert not greedy.judge(some_row(1, 1.0), 0).judged and greedy.first_reject is None and greedy.woke_at is None
    with pytest.raises(wane.InvalidArgument, match="temperature"):
        gate.doubt(prompt, temperature=-1.0)
    doubt.close()
    with pytest.raises(ValueError, match="closed"):
        doubt.judge(some_row(1, 1.0), 0)


def test_settings():
    q = wane.Quality()
    assert q.mode == "wane" and q.fuse == "loop" and q.fallback == "conservative" and q.final_value is None and q.answers == 3
    q.mode, q.doubt_budget, q.final_value = "off", 3, r"(\d+)$"
    assert (q.mode, q.doubt_budget, q.final_value) == ("off", 3, r"(\d+)$")
    assert q.copy() == q and q != wane.Quality() and "doubt_budget=3" in repr(q) and eval(repr(q), {"Quality": wane.Quality}) == q
    q.final_value = None
    assert q.final_value is None
    for name, bad, words in (("answers", 2, "answers"), ("mode", "loud", "loud"), ("stability", 0, "stability"), ("hold", math.nan, "hold")):
        before = getattr(q, name)
        with pytest.raises(ValueError, match=words):
            setattr(q, name, bad)
        assert getattr(q, name) == before
    with pytest.raises(AttributeError, match="colour"):
        q.colour = 1
    with pytest.raises(AttributeError):
        q.size
    assert q.dialogue_temperature(1.0, 0) == 1 and q.dialogue_temperature(1.0, 1024) == pytest.approx(0.9)


def test_instructions():
    system = "SSP:domain=legal;confidence=high\nYou are a lawyer."
    assert wane.instruction_of(system) == {"domain": "legal", "confidence": "high"} and wane.instruction_of("You are.") is None
    q, rest = wane.Quality(mode="off").with_instruction(system)
    assert rest == "You are a lawyer." and q.mode == "wane" and q != wane.Quality()
    q, rest = wane.Quality(mode="off").with_instruction("Be kind. Ünïcode.")
    assert rest == "Be kind. Ünïcode." and q == wane.Quality(mode="off")
    for bad in ("SSP:domain=legl\nx", "SSP:\nx", "SSP:domain=legal\nSSP:domain=tech"):
        with pytest.raises(wane.InvalidArgument, match="SSP"):
            wane.Quality().with_instruction(bad)
    # The words are those of the pure part, which the clients use.
    try:
        wane.ssp(domain="legl")
    except wane.SSPError as why:
        with pytest.raises(wane.InvalidArgument) as other:
            wane.instruction_of("SSP:domain=legl")
        assert str(why) == str(other.value)


def profile():
    return wane.Profile(model=MODEL, signal="entropy", sign=-1, peak=-1.0, low=-3.0, jerk=0.0)


def test_profiles(tmp_path):
    p = profile()
    p.save(tmp_path / "p.json")
    again = wane.Profile.load(tmp_path / "p.json")
    assert again.as_dict() == p.as_dict() | {"auc": pytest.approx(math.nan, nan_ok=True), "auc_low": pytest.approx(math.nan, nan_ok=True),
                                             "auc_high": pytest.approx(math.nan, nan_ok=True)}
    assert again.signal == "entropy" and again.locked_tokens == 3 and "entropy" in repr(again)
    again.low = 0.0
    with pytest.raises(wane.InvalidArgument, match="low"):
        again.check()
    with pytest.raises(ValueError, match="mood"):
        again.signal = "mood"
    with pytest.raises(ValueError, match="at most 31"):
        again.domain = "x" * 40
    with pytest.raises(AttributeError, match="colour"):
        again.colour = 1
    (tmp_path / "p.json").write_text("{}")
    with pytest.raises(wane.FormatError, match="p.json"):
        wane.Profile.load(tmp_path / "p.json")


def test_states():
    governor = wane.Governor(profile())
    sure, middle, unsure = (wane.Signals(entropy=e, margin=1.0) for e in (0.5, 2.0, 4.0))
    steer = governor.see(middle)
    assert steer.steered and steer.state == "normal" and steer.temperature is None and steer.known
    governor.take(1)
    states = []
    for row in (sure, middle, middle, middle, unsure, None, middle):
        steer = governor.see(row)
        states.append((steer.state, None if steer.temperature is None else round(steer.temperature, 2), steer.top_p_off))
        governor.take(1)
    locked = ("locked", 0.3, True)
    assert states == [locked, locked, locked, ("normal", None, False), ("explore", 0.85, False), ("normal", None, False), ("normal", None, False)]
    # A row, and what is known of it, say the same.
    row = some_row(3, 4.0)
    for given in (row, wane.best(row, 3000), wane.signals(row)):
        assert wane.Governor(profile()).see(given).state == wane.Governor(profile()).see(wane.signals(row)).state
    for settings in (dict(temperature=0.0), dict(quality=wane.Quality())):
        assert not wane.Governor(profile(), **settings).see(sure).steered
    assert not wane.Governor().see(row).steered
    with pytest.raises(wane.InvalidArgument, match="model"):
        wane.Governor(wane.Profile(signal="entropy"))


def test_the_fuse():
    for fuse, ends in (("loop", True), ("off", False)):
        governor = wane.Governor(quality=wane.Quality(fuse=fuse, fallback="transparent"))
        ended = None
        for i in range(400):
            governor.see(wane.Signals(entropy=0.5) if i > 50 else wane.Signals(entropy=float(i % 7)))
            if governor.take(i if i < 50 else i % 7):
                ended = i
                break
        assert (ended is not None) == ends
        if ends:
            assert 140 < ended < 160 and "same 7 tokens" in governor.fallback()
            assert wane.Governor().fallback(begun=False).startswith("I cannot go on")
    governor.close()
    with pytest.raises(ValueError, match="closed"):
        governor.take(1)
