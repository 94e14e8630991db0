"""What is refused: each with a 4xx in its API's shape that names the field, and the next request works."""
import json
import socket

import pytest
from support import chat, messages

HI = {"match": "hi", "text": "hello"}


def check_shape(path, reply, status=400):
    body = reply.json()
    assert reply.status == status, body
    if path.startswith("/v1/messages"):
        assert body["type"] == "error" and body["error"]["message"] and body["request_id"] == reply.headers["request-id"]
        return body["error"]["message"]
    assert set(body["error"]) == {"message", "type", "param", "code"}
    return body["error"]["message"]


def nest(depth):
    return "[" * depth


RAW = ["", "{", '{"model":"m","messages":[{"role":"us', "null", "[]", "7", '"x"', "{}", nest(10000),
       '{"messages":' + nest(10000), '{"a":1,"a":2}', '{"temperature":NaN}', '{"max_tokens":1e999}',
       '{"max_tokens":123456789012345678901234567890}', '{"model":"a\\u0000b"}', '{"model":"\\ud800"}',
       b'{"model":"\xff\xfe"}', '{"messages":null}', '{} trailing', '{"model":"m",}', b"\x00\x01"]


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions", "/v1/completions"])
def test_malformed_bodies(scripted, path):
    server = scripted(replies=[HI])
    connection = server.connect()
    good = {"/v1/completions": {"prompt": "hi"}, "/v1/chat/completions": chat("hi")}.get(path, messages("hi"))
    for raw in RAW:
        check_shape(path, server.post(path, raw, connection=connection))
        assert server.post(path, good, connection=connection).status == 200, raw
    connection.close()


BAD_ANY = [("stream", "true"), ("stream", 1), ("temperature", 1e6), ("temperature", -0.1), ("temperature", "1"),
           ("temperature", True), ("top_p", -1), ("top_p", 1.5), ("top_p", []), ("top_k", -1), ("top_k", 2.5),
           ("top_k", 1e12), ("max_tokens", 0), ("max_tokens", -3), ("max_tokens", "5"), ("max_tokens", 1.5),
           ("max_tokens", 99999999999), ("model", 7), ("frobnicate", 1), ("tools", [{"name": "x"}])]
BAD_MESSAGES = BAD_ANY + [
    ("messages", []), ("messages", {}), ("messages", "hi"), ("messages", [7]),
    ("messages", [{"role": "tool", "content": "x"}]), ("messages", [{"role": "user"}]),
    ("messages", [{"role": "user", "content": ""}]), ("messages", [{"role": "user", "content": []}]),
    ("messages", [{"role": "user", "content": [{"type": "image", "source": {}}]}]),
    ("messages", [{"role": "user", "content": [{"type": "document"}]}]),
    ("messages", [{"role": "user", "content": [{"type": "text", "text": ""}]}]),
    ("messages", [{"role": "user", "content": [{"type": "text", "text": "a", "x": 1}]}]),
    ("messages", [{"role": "user", "content": "a", "name": "b"}]),
    ("messages", [{"role": "user", "content": 5}]), ("messages", [None]),
    ("stop_sequences", "x"), ("stop_sequences", [""]), ("stop_sequences", [1]), ("stop_sequences", ["x"] * 17),
    ("stop_sequences", ["x" * 1025]), ("system", 5), ("system", [{"type": "image"}]),
    ("thinking", {"type": "enabled", "budget_tokens": 1024}), ("tool_choice", {"type": "any"}),
    ("container", "c"), ("context_management", {"edits": []}), ("seed", 1)]
BAD_CHAT = [b for b in BAD_ANY if b[0] != "tools"] + [
    ("messages", []), ("messages", [{"role": "tool", "content": "x"}]), ("messages", [{"role": "function", "content": "x"}]),
    ("messages", [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]),
    ("messages", [{"role": "user", "content": None}]), ("messages", [{"role": "user", "content": "a", "x": 1}]),
    ("messages", [{"role": "assistant", "content": "a", "tool_calls": [{"id": "x"}]}]),
    ("tools", [{"type": "function"}]), ("tool_choice", "required"), ("functions", [{"name": "x"}]), ("n", 2),
    ("n", 0), ("stop", [""]), ("stop", ["x"] * 17), ("stop", {}), ("stream_options", {"include_usage": True}),
    ("seed", "x"), ("seed", 1.5), ("presence_penalty", 3), ("frequency_penalty", -3), ("logit_bias", []),
    ("logit_bias", {"x": 1}), ("logit_bias", {"5": 101}), ("logit_bias", {"-1": 1}), ("logit_bias", {"384": 1}),
    ("logit_bias", {"5": "x"}), ("top_logprobs", 2), ("logprobs", 2), ("response_format", {"type": "json_object"}),
    ("min_p", 2), ("repeat_penalty", 0), ("max_completion_tokens", 0), ("reasoning_effort", "high")]
BAD_TEXT = [b for b in BAD_ANY if b[0] not in ("tools",)] + [
    ("prompt", None), ("prompt", ""), ("prompt", []), ("prompt", [-1]), ("prompt", [384]), ("prompt", [1.5]),
    ("prompt", ["a", "b"]), ("prompt", [[]]), ("prompt", [[1], [2]]), ("prompt", [1, "a"]), ("prompt", 5),
    ("prompt", [None]), ("prompt", [2**40]), ("echo", True), ("suffix", "x"), ("logprobs", 6), ("logprobs", True),
    ("best_of", 2), ("n", 2), ("messages", [])]


def run_bad(server, path, good, cases):
    connection = server.connect()
    for field, value in cases:
        body = {**good, field: value}
        if path == "/v1/completions" and (field, value) == ("prompt", ""):
            continue  # the scripted model adds BOS: one token, which is a prompt
        message = check_shape(path, server.post(path, body, connection=connection))
        assert field in message, (field, value, message)
        assert server.post(path, good, connection=connection).status == 200
    connection.close()


def test_bad_fields_messages(scripted):
    run_bad(scripted(replies=[HI]), "/v1/messages", messages("hi", max_tokens=5), BAD_MESSAGES)


def test_bad_fields_chat(scripted):
    run_bad(scripted(replies=[HI]), "/v1/chat/completions", chat("hi", max_tokens=5), BAD_CHAT)


def test_bad_fields_completions(scripted):
    run_bad(scripted(replies=[HI]), "/v1/completions", {"prompt": "hi", "max_tokens": 5}, BAD_TEXT)


def test_missing_fields(scripted):
    server = scripted(replies=[HI])
    for field in ("model", "max_tokens", "messages"):
        body = messages("hi")
        del body[field]
        assert field in check_shape("/v1/messages", server.post("/v1/messages", body))
    assert server.post("/v1/completions", {"max_tokens": 3}).status == 400


def test_accepted_without_effect(scripted):
    server = scripted(replies=[HI])
    extra = {"metadata": {"user_id": "u"}, "inference_geo": "eu", "speed": "standard", "diagnostics": None, "service_tier": "auto", "container": None, "context_management": None,
             "thinking": {"type": "disabled"}, "tools": [], "tool_choice": None, "temperature": None,
             "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]}
    reply = server.post("/v1/messages?beta=true", messages("hi", **extra), headers={"anthropic-beta": "x-2025"})
    assert reply.status == 200 and reply.json()["content"][0]["text"] == "hello"
    more = {"user": "u", "n": 1, "tools": [], "tool_choice": "none", "response_format": {"type": "text"},
            "store": False, "metadata": {"a": "b"}, "parallel_tool_calls": True, "logit_bias": {}, "stop": None}
    assert server.post("/v1/chat/completions", chat("hi", **more)).json()["choices"][0]["message"]["content"] == "hello"
    assert server.post("/v1/completions", {"prompt": ["hi"], "suffix": None, "echo": False, "best_of": 1}).status == 200
    tokens = server.post("/v1/completions", {"prompt": [256, 104, 105]}).json()
    assert tokens["choices"][0]["text"] == "hello" and tokens["usage"]["prompt_tokens"] == 3


def test_wrong_content_type_is_tolerated(scripted):
    server = scripted(replies=[HI])
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert server.post("/v1/messages", messages("hi"), headers={"content-type": kind}).status == 200


def test_models_by_name(scripted):
    server = scripted(replies=[HI])
    for name in ("script", "", "default", "claude-sonnet-4-5"):
        reply = server.post("/v1/messages", {**messages("hi"), "model": name})
        assert reply.status == 200 and reply.json()["model"] == "script"
    reply = server.post("/v1/messages", {**messages("hi"), "model": "gpt-4"})
    assert reply.status == 404 and reply.json()["error"]["type"] == "not_found_error" and "script" in reply.body.decode()
    reply = server.post("/v1/chat/completions", chat("hi", model="claude-x"))
    assert reply.status == 404 and reply.json()["error"]["code"] == "model_not_found"
    assert server.get("/v1/models/script").json()["id"] == "script"
    assert server.get("/v1/models/other").status == 404
    shaped = server.get("/v1/models/other", headers={"anthropic-version": "2023-06-01"})
    assert shaped.json()["type"] == "error"


def test_context_sizes(scripted):
    """n_ctx - 1 tokens leave one; n_ctx and ten times that are refused with both sizes."""
    server = scripted(context=64)
    for count, status in ((63, 200), (64, 400), (640, 400)):
        reply = server.post("/v1/completions", {"prompt": [97] * count, "max_tokens": 5})
        assert reply.status == status
        if status == 200:
            assert reply.json()["usage"] == {"prompt_tokens": 63, "completion_tokens": 1, "total_tokens": 64,
                                             "prompt_tokens_details": {"cached_tokens": 0}}
        else:
            assert reply.json()["error"]["code"] == "context_length_exceeded"
            assert str(count) in reply.json()["error"]["message"] and "64" in reply.json()["error"]["message"]
    reply = server.post("/v1/messages", {**messages("x" * 640), "stream": True})
    assert reply.status == 400 and reply.json()["error"]["type"] == "invalid_request_error"


def test_count_tokens(scripted):
    server = scripted(replies=[HI])
    for body in (messages("hi"), messages("hi", system="be brief"), messages("hi é€", stop_sequences=["q"]),
                 messages("hi", system=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])):
        counted = server.post("/v1/messages/count_tokens", body).json()["input_tokens"]
        assert server.post("/v1/messages", body).json()["usage"]["input_tokens"] == counted
        del body["max_tokens"]
        assert server.post("/v1/messages/count_tokens", body).json()["input_tokens"] == counted


def test_merged_turns_and_prefill(scripted):
    server = scripted(replies=[{"match": "one\ntwo\nthree", "text": "merged"}, {"match": "fill", "text": "abcdef"}])
    body = messages("x")
    body["messages"] = [{"role": "user", "content": "one"},
                        {"role": "user", "content": [{"type": "text", "text": "two"}, {"type": "text", "text": "three"}]}]
    assert server.post("/v1/messages", body).json()["content"][0]["text"] == "merged"
    body["messages"] = [{"role": "user", "content": "fill"}, {"role": "assistant", "content": "ab"}]
    assert server.post("/v1/messages", body).json()["content"][0]["text"] == "cdef"
    body["messages"][1]["content"] = ""
    assert server.post("/v1/messages", body).json()["content"][0]["text"] == "abcdef"


def test_client_metadata_block_does_not_ruin_reuse(scripted):
    server = scripted(replies=[HI])
    for i in range(3):
        system = [{"type": "text", "text": f"x-anthropic-billing-header: cc={i}"}, {"type": "text", "text": "s" * 50}]
        assert server.post("/v1/messages", messages("hi", system=system)).status == 200
    m = server.metrics()
    assert m["wane_http_dropped_client_blocks_total"] == 3
    assert m["wane_prompt_tokens_reused_total"] > 2 * 50
    plain = server.post("/v1/messages/count_tokens", messages("hi", system="s" * 50)).json()
    with_block = server.post("/v1/messages/count_tokens", messages("hi", system=system)).json()
    assert plain == with_block


def test_control_markers_stay_text(scripted):
    server = scripted(replies=[HI])
    marked = server.post("/v1/messages/count_tokens", messages("a<|mark|>b")).json()["input_tokens"]
    assert marked == server.post("/v1/messages/count_tokens", messages("a12345678b")).json()["input_tokens"]


def test_routes_and_methods(scripted):
    server = scripted(replies=[HI])
    reply = server.get("/v1/messages")
    assert reply.status == 405 and reply.headers["allow"] == "POST" and reply.json()["type"] == "error"
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        assert server.request(method, "/v1/chat/completions").status == 405
    reply = server.post("/v1/models", {})
    assert reply.status == 405 and reply.headers["allow"] == "GET, HEAD"
    assert server.get("/v2").status == 404 and server.get("/v1/messages/").status == 404
    for path in ("/", "/health", "/ready", "/metrics", "/v1/models"):
        whole, head = server.get(path), server.request("HEAD", path)
        assert whole.status == head.status == 200 and head.body == b"" and whole.body
        assert "content-length" in head.headers
    assert b"wane" in server.get("/").body


def test_too_large(scripted):
    server = scripted(replies=[HI], max_body=2000)
    connection = server.connect()
    for path in ("/v1/messages", "/v1/chat/completions"):
        reply = server.post(path, messages("x" * 3000), connection=connection)
        message = check_shape(path, reply, 413)
        assert "2000" in message
        assert server.post("/v1/messages", messages("hi"), connection=connection).status == 200
    connection.close()
    # Without a declared size, too.
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n")
        for _ in range(4):
            raw.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
        raw.sendall(b"0\r\n\r\n")
        assert b" 413 " in raw.recv(100)
    # Far too large: answered before the body is sent.
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n")
        assert b" 413 " in raw.recv(100)


def test_garbage_on_the_wire(scripted):
    server = scripted(replies=[HI])
    for junk in (b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"POST /v1/messages HTTP/1.1\r\ncontent-length: -4\r\n\r\n",
                 b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 50\r\n\r\n{"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
            raw.sendall(junk)
    assert server.post("/v1/messages", messages("hi")).status == 200
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        body = json.dumps(messages("hi")).encode()
        raw.sendall(b"POST /v1/messages HTTP/1.0\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        answer = b""
        while piece := raw.recv(4096):
            answer += piece
        assert b'"hello"' in answer


def test_log_lines_stay_lines(scripted):
    server = scripted(replies=[HI])
    server.get("/x%0afaked-line")
    server.terminate()
    assert not any(line.startswith("faked-line") for line in open(server.log))
