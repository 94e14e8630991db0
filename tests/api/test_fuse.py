"""A reply that goes round in a loop, through both APIs: how it ends, what it says of it, what is counted."""
import json

import pytest

BEGIN = "It was a dark night:"
LOOP = {"match": "loop", "text": BEGIN + "no, " * 60}
PLAIN = {"mode": "wane", "answers": 1, "token_vote": False, "clamp": 0, "fuse": "loop"}
CHAT = {"model": "script", "messages": [{"role": "user", "content": "a loop"}], "max_tokens": 200}
SAFE = "I cannot go on with this answer reliably. Please ask again in other words."


def events(reply):
    return [json.loads(line[6:]) for line in reply.body.decode().splitlines() if line.startswith("data: {")]


@pytest.mark.parametrize("fallback, tail", [("conservative", "\n\n" + SAFE), ("none", ""), ("transparent", "\n\n[The reply was stopped here: it repeated")])
def test_both_apis(scripted, fallback, tail):
    server = scripted(replies=[LOOP], quality={**PLAIN, "fallback": fallback})
    looped = BEGIN + "no, " * 24  # 96 tokens of it
    for stream in (False, True):
        reply = server.post("/v1/chat/completions", {**CHAT, "stream": stream})
        assert reply.status == 200
        if stream:
            chunks = [c for c in events(reply) if c["choices"]]
            text = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks)
            finish, wane = chunks[-1]["choices"][0]["finish_reason"], chunks[-1]["wane"]
        else:
            whole = reply.json()
            text, finish, wane = whole["choices"][0]["message"]["content"], whole["choices"][0]["finish_reason"], whole["wane"]
            assert whole["usage"]["completion_tokens"] == len(looped)
        assert text.startswith(looped + tail) and (fallback == "transparent" or text == looped + tail)
        assert finish == "content_filter"
        assert wane == {"fuse": {"rule": "loop", "fallback": fallback, "period": 4, "entropy_std": pytest.approx(0, abs=0.03)}}
        reply = server.post("/v1/messages", {**CHAT, "stream": stream})
        assert reply.status == 200
        if stream:
            all_events = events(reply)
            text = "".join(e["delta"]["text"] for e in all_events if e["type"] == "content_block_delta")
            end = next(e for e in all_events if e["type"] == "message_delta")
            reason, wane = end["delta"]["stop_reason"], end["wane"]
        else:
            whole = reply.json()
            text, reason, wane = whole["content"][0]["text"], whole["stop_reason"], whole["wane"]
        assert text.startswith(looped + tail)
        assert reason == "refusal" and wane["fuse"]["rule"] == "loop"
    metrics = server.metrics()
    assert metrics['wane_fuse_total{rule="loop"}'] == 4
    assert metrics['wane_fuse_total{rule="plain"}'] == 0
    assert metrics["wane_fuse_tokens_total"] == 4 * len(looped)


def test_by_domain(scripted):
    """Domains have their own rule; without one a loop goes on to the reply's end, and nothing is said."""
    server = scripted(replies=[LOOP], quality={**PLAIN, "fuse": "off"}, domains={"strict": {**PLAIN, "fuse": "plain"}})
    free = server.post("/v1/chat/completions", CHAT).json()
    assert free["choices"][0]["message"]["content"] == (BEGIN + "no, " * 60)[:200]
    assert "wane" not in free
    strict = server.post("/v1/chat/completions", {**CHAT, "wane_domain": "strict"}).json()
    assert strict["choices"][0]["finish_reason"] == "content_filter"
    assert strict["wane"]["fuse"]["period"] is None
    assert strict["usage"]["completion_tokens"] == 5


def test_metrics_are_there(scripted):
    server = scripted(replies=[LOOP], quality={**PLAIN, "fuse": "off"})
    metrics = server.metrics()
    for name in ("ssp_state_machine_active_ratio", "temp_command_drop_rate", "semantic_entropy_std_5tokens", "cross_block_consistency_score",
                 "kv_cache_fragmentation_rate", "kv_cache_hit_rate", "wane_governor_on"):
        assert metrics[name] == 0
    for _ in range(2):
        server.post("/v1/chat/completions", CHAT)
    metrics = server.metrics()
    assert 0 < metrics["kv_cache_fragmentation_rate"] < 1
    assert 0 < metrics["kv_cache_hit_rate"] < 1
    assert metrics["wane_fuse_tokens_total"] == 0
