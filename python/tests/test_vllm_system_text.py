"""The middleware without vLLM: the instruction is taken out of system texts and handed on, the tenant is the key's, what is wrong is a 400, the rest is untouched."""
import asyncio
import json

import pytest

from wane_vllm import settings, system_text


@pytest.fixture
def given(monkeypatch):
    def made(**values):
        settings.current.cache_clear()
        monkeypatch.setenv("WANE_VLLM", json.dumps({"request_modes": ["wane"], **values}))
    made()
    yield made
    settings.current.cache_clear()


def ask(body, path="/v1/chat/completions", headers=(), method="POST", pieces=1):
    """What the application behind it got, and the answer."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    cuts = [raw[len(raw) * i // pieces:len(raw) * (i + 1) // pieces] for i in range(pieces)]
    sent, got = [], {}

    async def receive():
        if cuts:
            return {"type": "http.request", "body": cuts.pop(0), "more_body": bool(cuts)}
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    async def app(scope, receive, send):
        parts = []
        while True:
            message = await receive()
            parts.append(message["body"])
            if not message["more_body"]:
                break
        got["headers"], got["raw"] = dict(scope["headers"]), b"".join(parts)
        got["next"] = (await receive())["type"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
    scope = {"type": "http", "method": method, "path": path,
             "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(raw)).encode()), *headers]}
    asyncio.run(system_text.SystemText(app)(scope, receive, send))
    if got:
        assert got["headers"][b"content-length"] == str(len(got["raw"])).encode() and got["next"] == "http.disconnect"
    answer = json.loads(sent[-1]["body"]) if "body" in sent[-1] else None
    return sent[0]["status"], json.loads(got["raw"]) if got and got["raw"].startswith(b"{") else got.get("raw"), answer, got.get("headers")


def test_an_instruction_is_taken_out(given):
    body = {"model": "m", "messages": [{"role": "system", "content": "SSP:domain=legal;confidence=high\n\nYou are a lawyer."},
                                       {"role": "user", "content": "SSP:domain=tech"}]}
    status, seen, _, headers = ask(body, pieces=3, headers=[(b"x-request-id", b"mine")])
    assert status == 200 and seen["messages"] == [{"role": "system", "content": "You are a lawyer."}, body["messages"][1]]
    assert seen["vllm_xargs"] == {"wane_ssp": "domain=legal;confidence=high", "wane_request": "mine"} and headers[b"x-request-id"] == b"mine"


@pytest.mark.parametrize("before, after", [
    ({"messages": [{"role": "developer", "content": "ssp: tolerance = strict"}, {"role": "user", "content": "x"}]},
     {"messages": [{"role": "user", "content": "x"}]}),
    ({"system": [{"type": "text", "text": "long"}, {"type": "text", "text": "SSP:domain=tech"}]}, {"system": [{"type": "text", "text": "long"}]}),
    ({"system": "SSP:domain=tech"}, {}),
    ({"messages": [{"role": "system", "content": [{"type": "text", "text": "SSP:domain=tech\nBe short."}]}]},
     {"messages": [{"role": "system", "content": [{"type": "text", "text": "Be short."}]}]}),
])
def test_wherever_it_may_stand(given, before, after):
    status, seen, _, _ = ask(before, "/v1/messages" if "system" in before else "/v1/chat/completions")
    assert status == 200 and seen.pop("vllm_xargs")["wane_ssp"] and seen == after


@pytest.mark.parametrize("body, word", [
    ({"messages": [{"role": "system", "content": "SSP:domain=legl"}]}, "did you mean legal"),
    ({"messages": [{"role": "system", "content": "SSP:domain=legal"}, {"role": "system", "content": "SSP:domain=tech"}]}, "there is one already"),
    ({"messages": [{"role": "system", "content": "SSP:domain=legal"}], "vllm_xargs": {"wane_ssp": "domain=tech"}}, "already"),
    ({"messages": [{"role": "system", "content": "SSP:domain=legal"}], "vllm_xargs": {"wane_mode": "off"}}, "runs in mode wane"),
    ({"messages": [], "vllm_xargs": {"wane_mode": "legacy"}}, "may not ask"),
    ({"messages": [], "vllm_xargs": {"wane_moode": "wane"}}, "did you mean wane_mode"),
])
def test_what_is_wrong_is_a_400(given, body, word):
    status, seen, answer, _ = ask(body)
    assert status == 400 and seen is None and word in answer["error"]["message"] and answer["error"]["code"] == 400
    status, _, answer, _ = ask({"system": "SSP:domain=legl"}, "/v1/messages")
    assert status == 400 and answer["type"] == "error" and answer["error"]["type"] == "invalid_request_error"


def test_tenants_by_key(given):
    given(tenants="key")
    tenants = [ask({"messages": []}, headers=headers)[1]["vllm_xargs"].get("wane_tenant")
               for headers in ([(b"authorization", b"Bearer a")], [(b"authorization", b"Bearer b")], [(b"authorization", b"Bearer a")])]
    assert tenants[0] == tenants[2] != tenants[1] and "Bearer" not in tenants[0] and len(tenants[0]) == 16
    assert ask({"messages": [], "vllm_xargs": {"wane_tenant": "other"}})[0] == 400
    status, seen, _, _ = ask({"messages": []})
    assert status == 200 and "wane_tenant" not in seen["vllm_xargs"]


def test_the_rest_is_untouched(given):
    assert ask(b"no json")[1] == b"no json"
    assert ask(b"[1, 2]")[1] == b"[1, 2]"
    plain = {"messages": [{"role": "system", "content": "Be short.\nSSP: Service Support Provider"}], "stream": True}
    status, seen, _, _ = ask(plain)
    assert status == 200 and seen["messages"] == plain["messages"] and "wane_ssp" not in seen["vllm_xargs"]
    assert ask(json.dumps(plain).encode(), "/v1/models")[1] == plain
    assert ask(json.dumps(plain).encode(), method="GET")[1] == plain
    assert len(ask(plain, headers=[(b"x-request-id", b"two words")])[1]["vllm_xargs"].get("wane_request", "")) in (0, 32)
