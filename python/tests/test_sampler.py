"""A sampler over rows of logits: what is drawn, judged, steered and ended; that a draw counts when it is taken; rules; what is refused."""
import dataclasses
import math

import numpy as np
import pytest

import wane
from conftest import ROOT

V = 3000
GATES = sorted((ROOT / "share" / "gates").glob("*.gate"))


def row_at(step, heat=2.0):
    return (heat * np.random.default_rng(step).gumbel(size=V)).astype(np.float32)


def reply(sampler, rows):
    out = []
    for row in rows:
        out.append(sampler.draw(row))
        sampler.take(out[-1].token)
    return out


def test_draws_are_the_seeds():
    rows = [row_at(step) for step in range(40)]
    first, second, other = (reply(wane.Sampler([1, 2], V, seed=seed), rows) for seed in (7, 7, 8))
    assert [d.token for d in first] == [d.token for d in second] != [d.token for d in other]
    assert not any(d.changed or d.again or d.verdict.judged or d.steer.steered for d in first)
    best = [int(row.argmax()) for row in rows]
    assert [d.token for d in reply(wane.Sampler([1], V, temperature=0), rows)] == best
    banned = dict.fromkeys(best, -math.inf)
    assert not set(best) & {d.token for d in reply(wane.Sampler([1], V, temperature=0, bias=banned), rows)}
    assert wane.Sampler([1], V, seed=9).seed == 9 and wane.Sampler([1], V).seed != wane.Sampler([1], V).seed


def test_a_draw_counts_when_it_is_taken():
    rows = [row_at(step, 1.0) for step in range(30)]
    quality = wane.Quality(doubt_votes=2, fuse="loop")
    plain, other = (wane.Sampler([1, 2, 3], V, seed=5, quality=quality, gate=wane.Gate(GATES[0]), repeat_penalty=1.2) for _ in range(2))
    for at, row in enumerate(rows):
        drawn = plain.draw(row)
        other.draw(row_at(1000 + at))  # is taken back
        assert other.draw(row) == drawn or math.isnan(drawn.steer.spread)
        assert other.draw(row).token == drawn.token
        assert plain.best(5).tokens.tolist() == other.best(5).tokens.tolist()
        plain.take(drawn.token), other.take(drawn.token)
    assert len(plain) == len(other) == 30 and plain.rejects == other.rejects > 0


def test_gate_and_governor_are_those_of_their_own_handles():
    quality = wane.Quality(governor=True, token_vote=False, doubt_votes=0, clamp=0, dialogue_slope=0, rules=False, fuse="plain")
    profile = wane.Profile(model="0" * 32, signal="entropy", sign=-1, peak=-1.0, low=-4.0)
    gate, prompt = wane.Gate(GATES[0]), [5, 6, 5]
    sampler = wane.Sampler(prompt, V, seed=3, quality=quality, gate=gate, profile=profile)
    doubt = gate.doubt(wane.look_at_prompt(prompt, quality=quality), quality)
    governor = wane.Governor(profile, quality)
    states = set()
    for step in range(60):
        row = row_at(step, (0.5, 1.0, 6.0)[step % 3])
        drawn, verdict, steer = sampler.draw(row), doubt.judge(row, step), governor.see(row)
        # shares come from as few candidates as tell the pattern
        assert dataclasses.replace(drawn.verdict, share=verdict.share, gap=verdict.gap) == verdict
        assert (drawn.steer.state, drawn.steer.temperature, drawn.steer.steered) == (steer.state, steer.temperature, True)
        states.add(steer.state)
        assert sampler.take(drawn.token) is governor.take(drawn.token)
    assert len(states) > 1 and sampler.rejects == doubt.rejects and sampler.woke_at == doubt.woke_at


def test_the_fuse_ends_a_loop():
    sampler = wane.Sampler([1], V, temperature=0, quality=wane.Quality(fuse="loop", fallback="transparent"))
    rows = [np.roll(row_at(1), step) for step in range(5)]  # as sure of each
    for at in range(400):
        if sampler.take(sampler.draw(rows[at % 5]).token):
            break
    assert 90 < at < 200 and "5" in sampler.fallback()
    assert wane.Sampler([1], V, quality=wane.Quality(fallback="none")).fallback() == ""


def words(text):
    return list(text.encode())


def letter(token):
    return chr(token).encode() if token < 256 else None


def test_rules(tmp_path):
    path = tmp_path / "rules.json"
    path.write_text('[{"name": "no b after a", "pattern": "a$", "words": ["b"]}]')
    rules = wane.Rules(path, vocab_size=V, tokenize=words, token_bytes=letter)
    assert len(rules) == 1 and len(wane.Rules("prohibitions", vocab_size=V, tokenize=words, token_bytes=letter)) > 5
    row = np.zeros(V, np.float32)
    row[ord("b")] = 9
    row[ord("c")] = 8
    for quality, token, held in ((wane.Quality(hold=0), "c", True), (wane.Quality(rules=False), "b", False)):
        sampler = wane.Sampler(words("xy"), V, temperature=0, quality=quality, rules=rules)
        assert sampler.draw(row).token == ord("b")
        sampler.take(ord("a"))
        drawn = sampler.draw(row)
        assert (drawn.token, drawn.held, drawn.changed) == (ord(token), held, held)
    with pytest.raises(wane.NotFound, match="nothing"):
        wane.Rules("nothing", vocab_size=V, tokenize=words, token_bytes=letter)
    with pytest.raises(wane.FormatError):
        wane.Rules(path, vocab_size=50, tokenize=words, token_bytes=letter)


def test_refused():
    with pytest.raises(wane.InvalidArgument, match="prompt is empty"):
        wane.Sampler([], V)
    with pytest.raises(wane.InvalidArgument, match="Token 1 of the prompt is 3000"):
        wane.Sampler([1, V], V)
    with pytest.raises(wane.InvalidArgument, match="top_p is 2"):
        wane.Sampler([1], V, top_p=2)
    sampler = wane.Sampler([1], V)
    with pytest.raises(wane.InvalidArgument):
        sampler.best(5)
    with pytest.raises(ValueError, match="2999"):
        sampler.draw(np.zeros(V - 1, np.float32))
    bad = row_at(1)
    bad[4] = math.nan
    with pytest.raises(wane.BadRow):
        sampler.draw(bad)
    sampler.close()
    with pytest.raises(ValueError, match="closed"):
        sampler.draw(row_at(1))
