"""Streams and their ends on the scripted engine: characters, stop strings, reasons, failures, pings."""
import json
import re
import time

import pytest
from support import SLOW, Stream, anthropic_stream, chat, eventually, messages, openai_stream

EURO = [[0xE2], [0x82, 0xAC], [0xC3], [0xA9]]  # tokens 259 … 262: halves of "€" and "é"
HALVES = {"match": "halves", "tokens": ["a", 259, 260, "b", 261, 262, "c"]}

# How metrics' names begin; those without "wane_" are known to dashboards by these names.
KNOWN = ("wane_", "process_", "output_divergence_count", "slmt_", "sfcl_", "ssp_state_machine_active_ratio", "temp_command_drop_rate",
         "semantic_entropy_std_5tokens", "cross_block_consistency_score", "kv_cache_fragmentation_rate", "kv_cache_hit_rate")


def text_of(server, body):
    return server.post("/v1/messages", body).json()["content"][0]["text"]


@pytest.mark.parametrize("limit", [100, 2, 5, 6])
def test_characters_are_never_cut(scripted, limit):
    server = scripted(pieces=EURO, replies=[HALVES])
    names, text, deltas, _, _ = anthropic_stream(server, messages("halves", max_tokens=limit))
    whole = text_of(server, messages("halves", max_tokens=limit))
    assert text == whole
    assert text == {100: "a€béc", 2: "a\ufffd", 5: "a€b\ufffd", 6: "a€bé"}[limit]
    chunks, done, _ = openai_stream(server, "/v1/chat/completions", chat("halves", max_tokens=limit))
    assert done and "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks) == whole
    assert all("\ufffd" not in d for d in deltas[:-1])


def test_order_of_anthropic_events(scripted):
    server = scripted(replies=[{"match": "hi", "text": "yes"}])
    names, text, _, last, _ = anthropic_stream(server, messages("hi"))
    assert [n for n in names if n not in ("content_block_delta", "ping")] == [
        "message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop"]
    assert names[2] == "ping" and text == "yes"
    assert last["usage"]["output_tokens"] == 4  # the token that ended the turn is one


def test_stop_string_over_tokens(scripted):
    server = scripted(replies=[{"match": "stop", "text": "one STOP two"}, {"match": "near", "text": "a STO b ST"}])
    names, text, deltas, last, _ = anthropic_stream(server, messages("stop", stop_sequences=["never", "STOP"]))
    assert text == "one " and not any("S" in d for d in deltas)
    assert last["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "STOP"}
    whole = server.post("/v1/messages", messages("stop", stop_sequences=["never", "STOP"])).json()
    assert (whole["content"][0]["text"], whole["stop_reason"], whole["stop_sequence"]) == ("one ", "stop_sequence", "STOP")
    # Held text that does not complete is given out, at the end too.
    _, text, _, last, _ = anthropic_stream(server, messages("near", stop_sequences=["STOP"]))
    assert text == "a STO b ST" and last["delta"]["stop_reason"] == "end_turn"
    chunks, _, _ = openai_stream(server, "/v1/completions", {"prompt": "near", "stop": "STOP"})
    assert "".join(c["choices"][0]["text"] for c in chunks) == "a STO b ST"


@pytest.mark.parametrize("limit,stops,reason,string", [
    (200, [], "end_turn", None), (3, [], "max_tokens", None), (200, ["lo"], "stop_sequence", "lo")])
def test_stop_reasons(scripted, limit, stops, reason, string):
    server = scripted(replies=[{"match": "hi", "text": "hello"}])
    body = messages("hi", max_tokens=limit, stop_sequences=stops)
    _, text, _, last, _ = anthropic_stream(server, body)
    whole = server.post("/v1/messages", body).json()
    assert (last["delta"]["stop_reason"], last["delta"]["stop_sequence"]) == (reason, string)
    assert (whole["stop_reason"], whole["stop_sequence"]) == (reason, string)
    assert whole["content"][0]["text"] == text
    assert whole["usage"]["output_tokens"] == last["usage"]["output_tokens"]
    other = server.post("/v1/chat/completions", chat("hi", max_tokens=limit, stop=stops)).json()
    assert other["choices"][0]["finish_reason"] == ("length" if reason == "max_tokens" else "stop")


def test_full_context(scripted):
    server = scripted(context=40)
    whole = server.post("/v1/messages", messages("go", max_tokens=500)).json()
    assert whole["stop_reason"] == "model_context_window_exceeded"
    _, _, _, last, _ = anthropic_stream(server, messages("go", max_tokens=500))
    assert last["delta"]["stop_reason"] == "model_context_window_exceeded"
    other = server.post("/v1/chat/completions", chat("go", max_tokens=500)).json()
    assert other["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("path,body", [("/v1/chat/completions", chat("hi")), ("/v1/completions", {"prompt": "hi"})])
def test_include_usage(scripted, path, body):
    server = scripted(replies=[{"match": "hi", "text": "hello"}])
    chunks, done, _ = openai_stream(server, path, {**body, "stream_options": {"include_usage": True}})
    assert done and chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 6
    assert all(c["usage"] is None and len(c["choices"]) == 1 for c in chunks[:-1])
    assert [c["choices"][0]["finish_reason"] for c in chunks[:-1]][-1] == "stop"
    chunks, done, _ = openai_stream(server, path, body)
    assert done and all("usage" not in c for c in chunks)


def test_failure_in_mid_stream(scripted):
    server = scripted(replies=[{"match": "fail", "text": "abcdefgh", "fail_at": 5}, {"match": "hi", "text": "hello"}])
    start = time.monotonic()
    names, text, _, _, error = anthropic_stream(server, messages("fail"))
    assert text == "abcde" and names[-1] == "error" and error["error"]["type"] == "api_error"
    chunks, done, fault = openai_stream(server, "/v1/chat/completions", chat("fail"))
    assert not done and fault["type"] == "server_error" and "5" in fault["message"]
    assert time.monotonic() - start < 2 * SLOW
    whole = server.post("/v1/messages", messages("fail"))
    assert whole.status == 500 and whole.json()["error"]["type"] == "api_error"
    assert text_of(server, messages("hi")) == "hello"


def test_headers_at_once_and_pings(scripted):
    server = scripted(prompt_delay_ms=40, ping_ms=200, batch=32, prompt_chunk=32,
                      replies=[{"match": "slow", "text": "ok"}])
    for path, body in (("/v1/messages", messages("slow" + "x" * 30)), ("/v1/chat/completions", chat("slow" + "y" * 30)),
                       ("/v1/completions", {"prompt": "slow" + "z" * 30})):
        stream = Stream(server, path, {**body, "stream": True})
        assert stream.read_headers() < 0.3 * SLOW and stream.status == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        start = time.monotonic()
        assert server.get("/health").status == 200
        assert time.monotonic() - start < 0.1 * SLOW
        events = list(stream.events())
        assert sum(name in ("ping", "comment") for name, _ in events) >= 4
        assert time.monotonic() - stream.started > 0.9
        stream.close()


def test_deadline(scripted):
    server = scripted(replies=[{"match": "slow", "text": "abcdefghij", "delay_ms": 60}])
    late = server.post("/v1/messages", messages("slow"), headers={"X-Claude-Timeout": "200"})
    assert late.status == 504 and late.json()["error"]["type"] == "timeout_error"
    _, text, _, _, error = anthropic_stream(server, messages("slow"), {"X-Claude-Timeout": "250"})
    assert error["error"]["type"] == "timeout_error" and "abcdefghij".startswith(text)
    for bad in ("0", "-5", "1.5", "soon", "", "99999999999"):
        reply = server.post("/v1/messages", messages("slow"), headers={"X-Claude-Timeout": bad})
        assert reply.status == 400 and "X-Claude-Timeout" in reply.json()["error"]["message"], bad
    assert server.post("/v1/messages", messages("slow"), headers={"X-Claude-Timeout": "60000"}).status == 200


def test_logprobs_use_the_whole_vocabulary(scripted):
    import math
    logits = {"65": 3.0, "66": 2.0, "67": 1.0, "257": -1.0}
    server = scripted(replies=[{"match": "hi", "text": "x", "logits": logits}])
    total = math.log(sum(math.exp(v) for v in logits.values()) + (384 - len(logits)))
    for more in ({}, {"temperature": 0.2, "top_k": 1}, {"temperature": 1.5, "top_p": 0.1, "seed": 1},
                 {"temperature": 0, "min_p": 0.9}):
        reply = server.post("/v1/chat/completions",
                            chat("hi", max_tokens=1, logprobs=True, top_logprobs=3, **more)).json()
        entry = reply["choices"][0]["logprobs"]["content"][0]
        top = entry["top_logprobs"]
        assert [t["token"] for t in top] == ["A", "B", "C"] and entry["bytes"] == [ord(entry["token"])]
        for t, logit in zip(top, (3.0, 2.0, 1.0)):
            assert abs(t["logprob"] - (logit - total)) < 1e-4
    old = server.post("/v1/completions", {"prompt": "hi", "max_tokens": 2, "logprobs": 2, "temperature": 0}).json()
    block = old["choices"][0]["logprobs"]
    assert block["tokens"] == ["A", "A"] and block["text_offset"] == [0, 1]
    assert set(block["top_logprobs"][0]) == {"A", "B"}


def test_logprobs_of_half_characters(scripted):
    server = scripted(pieces=EURO, replies=[HALVES])
    whole = server.post("/v1/chat/completions", chat("halves", logprobs=True, top_logprobs=2)).json()
    entries = whole["choices"][0]["logprobs"]["content"]
    assert bytes(b for e in entries for b in e["bytes"]).decode() == "a€béc"
    assert entries[1]["token"] == "\\xe2" and entries[0]["token"] == "a"
    chunks, _, _ = openai_stream(server, "/v1/chat/completions", chat("halves", logprobs=True, top_logprobs=2))
    streamed = [e for c in chunks if c["choices"][0]["logprobs"] for e in c["choices"][0]["logprobs"]["content"]]
    assert streamed == entries


def test_flat_logits_and_large_top_k(scripted):
    server = scripted(replies=[{"match": "flat", "text": "x", "flat": True}])
    start = time.monotonic()
    for more in ({"top_k": 0, "top_p": 0.99}, {"top_k": 100000}, {"top_k": 0, "top_p": 1, "min_p": 0}):
        body = chat("flat", max_tokens=20, temperature=1, seed=7, **more)
        first, again = (server.post("/v1/chat/completions", body).json()["choices"][0]["message"] for _ in range(2))
        assert first == again
    assert time.monotonic() - start < 5 * SLOW


def test_metrics_after_replies(scripted):
    server = scripted(replies=[{"match": "hi", "text": "hello"}])
    cold = server.get("/metrics").body.decode()
    assert not re.search(r" [+-]?nan\b", cold.lower()) and "# TYPE wane_time_to_first_token_seconds histogram" in cold
    before = server.metrics()
    assert server.post("/v1/messages", messages("hi")).status == 200
    route = 'wane_http_requests_total{route="/v1/messages",code="200"}'
    eventually(lambda: server.metrics()[route] == 1)
    after = server.metrics()
    assert after["wane_time_to_first_token_seconds_count"] == 1 and after["wane_reply_tokens_total"] == 6
    assert after['wane_queue_seconds_bucket{le="+Inf"}'] == 1
    assert all(after[k] >= v for k, v in before.items() if "_total" in k or "_bucket" in k or "_count" in k)
    for line in cold.splitlines():
        assert line.removeprefix("# HELP ").removeprefix("# TYPE ").startswith(KNOWN), line


def test_reply_ids_and_headers(scripted):
    server = scripted(replies=[{"match": "hi", "text": "hello"}])
    ids = set()
    for path, body in (("/v1/messages", messages("hi")), ("/v1/chat/completions", chat("hi")), ("/nothing", {})):
        reply = server.post(path, body)
        assert reply.headers["request-id"] == reply.headers["x-request-id"]
        ids.add(reply.headers["request-id"])
        assert "access-control-allow-origin" not in reply.headers
    assert len(ids) == 3
    assert json.loads(server.get("/v1/models").body)["data"][0]["id"] == "script"
