"""Clients that leave, full queues, neighbours, many mixed requests, stopping: nothing is lost and nothing grows."""
import os
import random
import signal
import subprocess
import threading
import time

import pytest
from support import (SCRIPT_SERVER, SLOW, Stream, anthropic_stream, chat, eventually, messages, openai_stream,
                     start_scripted, together)

HI = {"match": "hi", "text": "hello"}
LONG = {"match": "long", "text": "abcdefghijklmnopqrstuvwxyz" * 4, "delay_ms": 15}


def test_queue_cap_2_of_20(scripted):
    server = scripted(queue=2, sequences=1, window_ms=1, replies=[{"match": "slow", "text": "ab", "delay_ms": 200}])
    start = time.monotonic()
    times = [0.0] * 20

    def one(i):
        reply = server.post("/v1/messages" if i % 2 else "/v1/chat/completions", messages("slow"))
        times[i] = time.monotonic() - start
        return reply

    replies = together([lambda i=i: one(i) for i in range(20)])
    refused = [i for i, r in enumerate(replies) if r.status == 429]
    assert sorted({r.status for r in replies}) == [200, 429]
    assert 12 <= len(refused) <= 17  # a few may have left the queue when the last came
    for i in refused:
        assert times[i] < 0.5 * SLOW
        assert 1 <= int(replies[i].headers["retry-after"]) <= 300
        assert replies[i].json()["error"]["type"] == "rate_limit_error"
    m = server.metrics()
    assert m["wane_requests_refused_total"] == len(refused)


def test_cancelled_one_leaves_the_queue(scripted):
    server = scripted(queue=1, sequences=1, window_ms=1, replies=[LONG, HI])
    first = Stream(server, "/v1/messages", messages("long", stream=True))
    eventually(lambda: server.metrics()["wane_slots_busy"] == 1)
    waiting = Stream(server, "/v1/messages", messages("hi", stream=True))
    eventually(lambda: server.metrics()["wane_queue_length"] == 1)
    assert server.post("/v1/messages", messages("hi")).status == 429
    waiting.close()
    eventually(lambda: server.metrics()["wane_queue_length"] == 0, 0.5, "the cancelled request's leaving")
    again = Stream(server, "/v1/messages", messages("hi", stream=True))
    assert again.read_headers() and again.status == 200
    first.close()
    assert [n for n, _ in again.events()][-1] == "message_stop"
    again.close()


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("stage", ["queued", "prefill", "decode"])
def test_client_leaves(scripted, stage, streamed):
    """Its sequence is free within a batch; a neighbour's reply is what it was alone."""
    server = scripted(sequences=2, prompt_delay_ms=4, batch=16, prompt_chunk=16, window_ms=1,
                      replies=[LONG, {"match": "leaver", "text": "x" * 200, "delay_ms": 15}])
    alone = server.post("/v1/messages", messages("long")).json()["content"][0]["text"]
    results = {}
    neighbours = [threading.Thread(target=lambda i=i: results.update({i: server.post("/v1/messages", messages("long"))}))
                  for i in range(2 if stage == "queued" else 1)]
    for t in neighbours:
        t.start()
    eventually(lambda: server.metrics()["wane_slots_busy"] == len(neighbours))
    text = "leaver" + "p" * (400 if stage == "prefill" else 1)
    leaver = Stream(server, "/v1/messages", messages(text, stream=streamed))
    if stage == "queued":
        eventually(lambda: server.metrics()["wane_queue_length"] == 1)
    else:
        eventually(lambda: server.metrics()["wane_slots_busy"] == 2)
        time.sleep(0.3 if stage == "decode" else 0.1)
    leaver.close()
    eventually(lambda: server.metrics()["wane_requests_cancelled_total"] == 1, 0.5, "the cancellation")
    if stage != "queued":
        assert server.metrics()["wane_slots_busy"] <= 1
    for t in neighbours:
        t.join()
    assert all(r.json()["content"][0]["text"] == alone for r in results.values())
    server.idle()
    eventually(lambda: server.metrics()["wane_http_disconnects_total"] == 1)


def test_health_during_prefill_and_many_waiters(scripted):
    server = scripted(sequences=1, prompt_delay_ms=10, batch=64, prompt_chunk=64, queue=64, replies=[HI])
    streams = [Stream(server, "/v1/messages", messages("hi" + "p" * 150, stream=True)) for _ in range(20)]
    worst = 0.0
    for _ in range(20):
        start = time.monotonic()
        assert server.get("/health").status == 200
        worst = max(worst, time.monotonic() - start)
        time.sleep(0.01)
    assert worst < 0.1 * SLOW
    for s in streams:
        s.close()
    server.idle()


def test_four_together_equal_alone(scripted):
    server = scripted(sequences=4)  # the scripted engine's fixed language: a function of the sequence alone
    prompts = [f"prompt number {i} " * (i + 1) for i in range(4)]
    bodies = [chat(p, max_tokens=60, temperature=0.9, seed=i) for i, p in enumerate(prompts)]
    alone = [server.post("/v1/chat/completions", b).json()["choices"][0]["message"]["content"] for b in bodies]
    for _ in range(3):
        replies = together([lambda b=b: server.post("/v1/chat/completions", b).json() for b in bodies])
        assert [r["choices"][0]["message"]["content"] for r in replies] == alone


def test_500_mixed_with_aborts(scripted):
    server = scripted(sequences=4, queue=16, window_ms=1, ping_ms=50, context=256, replies=[
        HI, {"match": "fail", "text": "abcdefgh", "fail_at": 3}, {"match": "slow", "text": "abcdefghij", "delay_ms": 3}])
    server.get("/health")
    chance = random.Random(7)

    def one(kind):
        if kind == "abort":
            stream = Stream(server, "/v1/messages", messages("slow", stream=True))
            if chance.random() < 0.5:
                stream.read_headers()
            stream.close()
        elif kind == "stream":
            names, text, _, _, error = anthropic_stream(server, messages("hi"))
            assert text == "hello" and error is None
        elif kind == "chat":
            chunks, done, error = openai_stream(server, "/v1/chat/completions", chat("hi"))
            assert done
        elif kind == "fail":
            assert server.post("/v1/messages", messages("fail")).status == 500
        elif kind == "bad":
            assert server.post("/v1/messages", '{"x":').status == 400
        else:
            assert server.post("/v1/completions", {"prompt": "hi"}).status == 200

    def worker(count):
        for _ in range(count):
            one(chance.choice(["abort", "stream", "chat", "fail", "bad", "text"]))

    worker(30)  # warm: threads' stacks, arenas, caches
    server.idle()
    fds = server.fds()
    together([lambda: worker(60) for _ in range(8)])
    server.idle()
    eventually(lambda: server.fds() <= fds + 1, 10, "the closing of every connection")
    assert server.get("/ready").status == 200
    m = server.metrics()
    assert m["wane_slots_busy"] == 0
    assert m["wane_requests_accepted_total"] == (m["wane_requests_completed_total"] + m["wane_requests_cancelled_total"]
                                                 + m["wane_requests_failed_total"] + m["wane_requests_timed_out_total"])


def test_graceful_stop(tmp_path):
    server = start_scripted(str(tmp_path), "stop", grace_ms=3000, replies=[{**LONG, "delay_ms": 5}, HI])
    kept = server.connect()
    assert server.get("/ready", connection=kept).status == 200
    stream = Stream(server, "/v1/messages", messages("long", stream=True))
    stream.read_headers()
    server.process.send_signal(signal.SIGTERM)
    eventually(lambda: server.get("/ready", connection=kept).status == 503, 0.5, "not being ready")
    assert server.get("/health", connection=kept).status == 200
    refused = server.post("/v1/messages", messages("hi"), connection=kept)
    assert refused.status == 503 and refused.json()["error"]["type"] == "overloaded_error"
    with pytest.raises(OSError):
        server.get("/health")
    names = [n for n, _ in stream.events()]
    assert names[-1] == "message_stop"
    stream.close()
    kept.close()
    assert server.terminate() == 0
    server.process.stdout.close()


def test_stop_ends_the_rest_in_words(tmp_path):
    server = start_scripted(str(tmp_path), "stop", grace_ms=200, replies=[{**LONG, "delay_ms": 50}])
    stream = Stream(server, "/v1/messages", messages("long", stream=True))
    stream.read_headers()
    whole = Stream(server, "/v1/chat/completions", chat("long"))
    time.sleep(0.2)
    start = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    name, data = list(stream.events())[-1]
    assert name == "error" and "overloaded_error" in data
    whole.read_headers()
    assert whole.status == 503
    assert time.monotonic() - start < 2 * SLOW
    stream.close()
    whole.close()
    assert server.terminate() == 0
    server.process.stdout.close()


def test_slow_reader_does_not_stop_others(scripted):
    server = scripted(sequences=2, context=4000, replies=[{"match": "big", "text": "x" * 3000}, HI])
    lazy = Stream(server, "/v1/chat/completions", chat("big", stream=True, logprobs=True, top_logprobs=20))
    assert server.post("/v1/messages", messages("hi")).status == 200
    lazy.close()
    server.idle()


def test_stop_with_a_client_that_reads_nothing(tmp_path):
    server = start_scripted(str(tmp_path), "lazy", grace_ms=100, context=60000, batch=512,
                            replies=[{"match": "big", "text": "x" * 50000}])
    lazy = Stream(server, "/v1/chat/completions", chat("big", stream=True, max_tokens=50000, logprobs=True, top_logprobs=20))
    time.sleep(0.5)
    start = time.monotonic()
    assert server.terminate() == 0
    assert time.monotonic() - start < 5 * SLOW
    lazy.close()
    server.process.stdout.close()


def test_port_in_use_and_open_hosts(scripted, tmp_path):
    server = scripted()
    with pytest.raises(RuntimeError) as fault:
        start_scripted(str(tmp_path), "second", port=server.port)
    assert "WANE_EADDRESS" in str(fault.value) and "another program listens" in str(fault.value)
    with pytest.raises(RuntimeError) as fault:
        start_scripted(str(tmp_path), "third", host="0.0.0.0")
    assert "WANE_EINVAL" in str(fault.value) and "key file" in str(fault.value)
    scripted(host="0.0.0.0", open=True)
    scripted(host="localhost")


def test_connection_limit(scripted):
    server = scripted(max_connections=4, replies=[HI])
    idle = [server.connect() for _ in range(4)]
    for c in idle:
        assert server.get("/health", connection=c).status == 200
    late = server.connect()
    assert server.get("/health", connection=late).status == 200
    refused = server.post("/v1/messages", messages("hi"), connection=late)
    assert refused.status == 503 and "4 connections" in refused.json()["error"]["message"]
    assert server.post("/v1/messages", messages("hi"), connection=idle[1]).status == 200
    idle[0].close()
    eventually(lambda: server.post("/v1/messages", messages("hi")).status == 200)
    for c in idle + [late]:
        c.close()
    server.idle()


def test_usage_of_the_program():
    if os.path.exists(SCRIPT_SERVER):
        assert subprocess.run([SCRIPT_SERVER], capture_output=True).returncode == 1
