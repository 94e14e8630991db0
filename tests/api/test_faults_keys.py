"""Keys and tenants: who is let in, what a wrong file says, and that nothing crosses from one tenant to another."""
import hashlib
import os

import pytest
from support import messages, start_scripted

HI = {"match": "hi", "text": "hello"}
ADA, BOB = "ada-key-123456", "bob-key-123456"


@pytest.fixture
def key_file(tmp_path):
    def write(text, mode=0o600):
        path = tmp_path / "keys"
        path.write_text(text)
        os.chmod(path, mode)
        return str(path)
    return write


def test_keys(scripted, key_file):
    digest = hashlib.blake2b(BOB.encode(), digest_size=32).hexdigest()
    server = scripted(key_file=key_file(f"# keys\nada physics {ADA}\nbob law blake2b:{digest}  # his\n"), replies=[HI])
    for headers in ({"x-api-key": ADA}, {"authorization": f"Bearer {ADA}"}, {"Authorization": f"bearer {BOB}"}):
        assert server.post("/v1/messages", messages("hi"), headers=headers).status == 200
        assert server.get("/v1/models", headers=headers).status == 200
        assert server.get("/metrics", headers=headers).status == 200
    for headers in ({}, {"x-api-key": "wrong"}, {"x-api-key": ADA + "x"}, {"x-api-key": ""}, {"authorization": ADA},
                    {"authorization": "Basic x"}, {"x-api-key": "x" * 5000}, {"x-api-key": f"blake2b:{digest}"}):
        reply = server.post("/v1/messages", messages("hi"), headers=headers)
        assert reply.status == 401 and reply.json()["error"]["type"] == "authentication_error", headers
        reply = server.post("/v1/chat/completions", messages("hi"), headers=headers)
        assert reply.status == 401 and reply.json()["error"]["code"] == "invalid_api_key"
        assert server.get("/metrics", headers=headers).status == 401
        assert server.get("/v1/models", headers=headers).status == 401
        assert server.get("/health").status == 200 and server.get("/ready").status == 200
    assert ADA not in open(server.log).read()


def test_reuse_never_crosses_tenants(scripted, key_file):
    server = scripted(sequences=2, key_file=key_file(f"ada physics {ADA}\nbob law {BOB}\neve physics eve-key-123456\n"),
                      replies=[HI])
    secret = messages("hi " + "secret " * 20)

    def reused(key):
        body = {"messages": secret["messages"], "user": "ada", "metadata": {"tenant": "physics"}}
        reply = server.post("/v1/chat/completions", body, headers={"x-api-key": key, "x-tenant": "physics"})
        return reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert reused(ADA) == 0
    assert reused(BOB) == 0
    assert reused("eve-key-123456") > 100  # the same tenant, another key
    assert reused(BOB) > 100


@pytest.mark.parametrize("text,word", [
    ("ada physics\n", "line 1"), ("\n# c\nada physics key-12345678 more\n", "line 3"),
    (f"ada a {ADA}\nada b {BOB}\n", "line 2"), (f"ada a {ADA}\nbob b {ADA}\n", "line 2"), ("ada a short\n", "line 1"),
    ("ada a blake2b:12\n", "line 1"), ("a/b a key-12345678\n", "line 1"), ("", "no key"), ("# only\n", "no key")])
def test_bad_key_files(tmp_path, key_file, text, word):
    with pytest.raises(RuntimeError) as fault:
        start_scripted(str(tmp_path), "bad", key_file=key_file(text))
    assert word in str(fault.value) and "WANE_EFORMAT" in str(fault.value)


def test_missing_file_and_warning(tmp_path, scripted, key_file):
    with pytest.raises(RuntimeError) as fault:
        start_scripted(str(tmp_path), "none", key_file=str(tmp_path / "nowhere"))
    assert "WANE_ENOENT" in str(fault.value)
    server = scripted(key_file=key_file(f"ada physics {ADA}\n", 0o644))
    assert "can be read by others" in open(server.log).read()
