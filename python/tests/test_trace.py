"""Traces: recorded, read, counted, redacted; bounds, and what is refused."""
import json

import numpy as np
import pytest

import wane
from wane import trace
from conftest import ORIGIN, record, row_after


@pytest.mark.parametrize("plain", [True, False])
def test_recorded_and_read(tmp_path, plain):
    record(tmp_path, requests=2, length=5, tenant="anna", plain=plain)
    assert all(file.name.endswith(".jsonl" if plain else ".jsonl.zst") for file in tmp_path.iterdir())
    found = list(trace.records(tmp_path))
    assert [r["type"] for r in found] == ["origin"] + (["request"] + 5 * ["token"] + ["end"]) * 2
    assert found[0]["model"] == ORIGIN.model and found[1]["prompt"] == [1, 2, 3, 4] and found[1]["kind"] == "single"
    token = found[2]
    row = row_after([1, 2, 3, 4])
    best = wane.best(row, 64)
    context = wane.Context([1, 2, 3, 4], "anna")
    assert token["before"] == context.name and token["position"] == 4 and token["index"] == 0 and token["token"] == best.tokens[0]
    assert [t for t, _ in token["top"]] == best.tokens.tolist() and token["last"] == [1, 2, 3, 4]
    np.testing.assert_array_equal(np.array([v for _, v in token["top"]], np.float32), best.logits)
    assert token["log_sum"] == pytest.approx(best.low, abs=1e-4)
    assert len(list(trace.records([tmp_path], most=3))) == 3
    counts = trace.count(tmp_path, strictly=True)
    assert counts["requests"] == 2 and counts["tokens"] == 10 and counts["tokens_of"] == {"single": 5, "multi": 0, "code": 5, "summary": 0}


def test_states_votes_and_ends(tmp_path):
    with wane.Tracer(tmp_path, ORIGIN, plain=True) as tracer:
        with tracer.request([1], vote_of="r1", vote_answer=2, stops=["\n\n", "ü"], seed=2**63) as one:
            one.token(5, wane.best(row_after([1]), 5), state="locked", changed=True)
        assert one.ended
        with pytest.raises(KeyError):
            with tracer.request([1]) as two:
                raise KeyError
        tracer.vote("r1", 2)
        tracer.flush()
        state = tracer.state
        assert state.requests == 2 and state.tokens == 1 and state.ends == 2 and state.dropped_tokens == 0
        assert one.id != two.id
    found = list(trace.records(tmp_path))
    assert found[1]["stops"] == ["\n\n", "ü"] and found[1]["vote"] == {"of": "r1", "answer": 2}
    assert found[2]["state"] == "locked" and found[2]["changed"] is True
    assert [r["finish"] for r in found if r["type"] == "end"] == ["abandoned", "failed"]
    with pytest.raises(ValueError, match="closed"):
        tracer.flush()


def test_redacted(tmp_path):
    patterns = tmp_path / "patterns"
    patterns.write_text("se+cret\n")
    words = {1: b"my ", 2: b"sec", 3: b"ret", 4: b" is", 7: None}
    folder = tmp_path / "t"
    with wane.Tracer(folder, ORIGIN, plain=True, redact=patterns, token_bytes=lambda token: words.get(token, b"x")) as tracer:
        with tracer.request([1, 2, 3, 4, 7], id="r") as traced:
            traced.token(5, row_after([1]))
            traced.end()
    request = next(r for r in trace.records(folder) if r["type"] == "request")
    assert request["prompt"] == [1, -1, -1, 4, 7]
    with pytest.raises(wane.InvalidArgument, match="texts"):
        wane.Tracer(folder, ORIGIN, redact=patterns)


def test_a_full_queue_drops_and_counts(tmp_path):
    with wane.Tracer(tmp_path, ORIGIN, queue_bytes=1 << 16) as tracer:
        dropped = 0
        traced = tracer.request([1])
        row = wane.best(row_after([1]), 64)
        for _ in range(3000):
            try:
                traced.token(1, row)
            except wane.Busy:
                dropped += 1
        tracer.flush()
        assert tracer.state.dropped_tokens == dropped and tracer.state.tokens == 3000 - dropped and traced.drawn == 3000


def test_refused(tmp_path):
    for of, words in ((wane.Origin(), "two digests"), (wane.Origin(model="x" * 32), "hex digits")):
        with pytest.raises(ValueError, match=words):
            wane.Tracer(tmp_path / "t", of)
    with wane.Tracer(tmp_path / "t", ORIGIN) as tracer:
        for settings, words in ((dict(id="two words"), "blanks"), (dict(id="x" * 65), "64"), (dict(kind="loud"), "loud"),
                                (dict(temperature=-1.0), "temperature"), (dict(stops=["x"] * 17), "16"), (dict(id="a\0"), "zero")):
            with pytest.raises(ValueError, match=words):
                tracer.request([1], **settings)
        with pytest.raises(wane.InvalidArgument, match="5000"):
            tracer.request([5000])
        traced = tracer.request([1])
        with pytest.raises(wane.InvalidArgument, match="5000"):
            traced.token(5000, row_after([1]))
        with pytest.raises(wane.BadRow):
            traced.token(1, np.full(5000, np.nan))
        with pytest.raises(wane.InvalidArgument, match="bored"):
            traced.end("bored")
        traced.end()
    bad = tmp_path / "bad.jsonl"
    bad.write_text(json.dumps({"type": "origin"}) + "\n")
    with pytest.raises(wane.FormatError, match="bad.jsonl"):
        list(trace.records(bad))
    heard = []
    trace.count(bad, faults=lambda path, line, what: heard.append((path, line, what)))
    assert heard and heard[0][0] == str(bad) and heard[0][1] == 1

    def fails(path, line, what):
        raise KeyError("mine")
    with pytest.raises(KeyError, match="mine"):
        trace.count(bad, faults=fails)


def test_digests(tmp_path):
    file = tmp_path / "x"
    file.write_bytes(b"some bytes")
    assert len(wane.file_digest(file)) == 32 and wane.file_digest(file) != wane.tokenizer_digest([b"some bytes"])
    assert wane.tokenizer_digest([b"ab", None, b"c"]) == wane.tokenizer_digest([b"ab", b"", b"c"]) != wane.tokenizer_digest([b"a", b"", b"bc"])
    with pytest.raises(wane.NotFound, match="none"):
        wane.file_digest(tmp_path / "none")
