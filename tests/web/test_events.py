"""What the schema says and what the server gives are the same: docs/events.schema.json."""
import json
import os

import jsonschema
import pytest

from support import Stream, anthropic_stream, chat, eventually, messages, openai_stream

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
SCHEMA = json.load(open(os.path.join(ROOT, "docs", "events.schema.json"), encoding="utf-8"))


def check(name, value):
    schema = {"$schema": SCHEMA["$schema"], "$defs": SCHEMA["$defs"], "$ref": "#/$defs/" + name}
    jsonschema.Draft202012Validator(schema).validate(value)


TRACE = {"wane-trace": "1"}


@pytest.mark.parametrize("mode", ["off", "legacy", "wane"])
def test_tokens_of_both_apis(server, mode):
    fields = {"sfcl_mode": mode, "temperature": 1}
    chunks, done, error = openai_stream(server, "/v1/chat/completions", chat("schema " + mode, **fields), TRACE)
    assert done and error is None
    tokens = [chunk["wane"]["token"] for chunk in chunks if "token" in chunk.get("wane", {})]
    assert [one["index"] for one in tokens] == list(range(len(tokens))) and len(tokens) > 5
    for one in tokens:
        check("token", one)
    assert all(one["gate"] is None for one in tokens) or mode != "off"
    chunks, done, error = openai_stream(server, "/v1/completions", {"prompt": "schema", **fields}, TRACE)
    assert any("token" in chunk.get("wane", {}) for chunk in chunks)
    stream = Stream(server, "/v1/messages", {**messages("schema " + mode, **fields), "stream": True}, TRACE)
    seen = 0
    for name, data in stream.events():
        value = json.loads(data)
        if name != "content_block_delta":
            continue
        check("token", value["wane"]["token"])
        seen += 1
    stream.close()
    assert seen > 5


def test_without_the_header_nothing_changes(server):
    names, text, deltas, last, error = anthropic_stream(server, messages("plain"))
    assert error is None and "" not in deltas
    chunks, done, error = openai_stream(server, "/v1/chat/completions", chat("plain"))
    assert not any("wane" in chunk for chunk in chunks)
    with_trace = openai_stream(server, "/v1/chat/completions", chat("plain"), TRACE)[0]
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in with_trace) == \
        "".join(c["choices"][0]["delta"].get("content", "") for c in chunks)


def test_state_and_samples(server):
    state = server.get("/v1/wane/state").json()
    check("state", state)
    assert all(len(row) == len(state["fields"]) for row in state["samples"])
    assert set(state["fields"][2:-2]) == set(state["now"])
    connection = server.connect()
    connection.request("GET", "/v1/wane/events")
    answer = connection.getresponse()
    assert answer.getheader("content-type").startswith("text/event-stream")
    kinds = []
    while kinds.count("sample") < 2:
        line = answer.readline().decode().strip()
        if line.startswith("event: "):
            kinds.append(line[7:])
        elif line.startswith("data: "):
            check(kinds[-1] if kinds[-1] == "sample" else "fields", json.loads(line[6:]))
    assert kinds[0] == "fields"
    connection.close()


def test_keys_guard_it(start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("ann home swordfish-and-more-letters\n")
    keys.chmod(0o600)
    server = start(key_file=str(keys))
    for path in ("/v1/wane/state", "/v1/wane/events"):
        assert server.get(path).status == 401
    assert server.get("/v1/wane/state", headers={"x-api-key": "swordfish-and-more-letters"}).status == 200
    assert server.get("/page/app.js").status == 200  # the page itself is no secret


def test_viewers_are_bounded(start):
    """64 follow, one more is told no, and a place that one leaves is free."""
    server = start()

    def follow():
        connection = server.connect()
        connection.request("GET", "/v1/wane/events")
        return connection, connection.getresponse()
    watching = [follow() for _ in range(64)]
    assert all(answer.status == 200 for _, answer in watching)
    assert server.post("/v1/chat/completions", chat("with a crowd")).status == 200
    extra, refused = follow()
    assert refused.status == 503 and b"64 viewers" in refused.read()
    extra.close()
    for connection, answer in watching:
        answer.close()
        connection.close()
    eventually(lambda: server.get("/v1/wane/state?samples=0").json()["now"]["viewers"] == 0, what="the last viewer's leaving")
    connection, answer = follow()
    assert answer.status == 200
    answer.close()
    connection.close()


@pytest.mark.parametrize("hold", ["note", "vote"])
def test_votes_keep_the_tokens_in_order(start, hold):
    """Whichever of three answers is given out, its tokens come one after the other, each with its own view."""
    server = start(quality={"answers": 3, "mode": "legacy"}, sequences=6)
    seen = 0
    for seed in range(6):
        chunks, done, error = openai_stream(server, "/v1/chat/completions",
                                            chat("vote", temperature=1, seed=seed, max_tokens=24, wane_hold=hold), TRACE)
        assert done and error is None
        tokens = [chunk["wane"]["token"] for chunk in chunks if "token" in chunk.get("wane", {})]
        assert [one["index"] for one in tokens] == list(range(len(tokens)))
        seen += len(tokens)
        for one in tokens:
            check("token", one)
    assert seen > 20
