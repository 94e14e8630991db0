"""The structured system instruction through the real clients, by hand and by python/wane; and text preparation."""
import asyncio
import pathlib
import sys

import anthropic
import openai
import pytest
from support import anthropic_stream, chat, messages, openai_stream

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import wane  # noqa: E402

REPLY = {"match": "", "text": "hello"}
MESSAGES = [{"role": "user", "content": "hi"}]
VALUES = {"domain": "legal", "confidence": "high", "tolerance": "strict", "fallback": "conservative"}


@pytest.fixture
def server(scripted):
    return scripted(replies=[REPLY], request_modes=["wane"])


def claude(server, kind=anthropic.Anthropic):
    return kind(base_url=server.url, api_key="x", max_retries=0)


def gpt(server, kind=openai.OpenAI):
    return kind(base_url=server.url + "/v1", api_key="x", max_retries=0)


def applied(reply):
    """What the reply says of its SSP: a field that the clients do not know, and keep."""
    extra = reply.model_extra or {}
    return (extra.get("wane") or {}).get("ssp")


def test_both_clients_by_hand(server):
    line = "SSP:domain=legal;confidence=high;tolerance=strict;fallback=conservative"
    for system in (line, line + "\nBe brief.", [{"type": "text", "text": line}, {"type": "text", "text": "Be brief."}]):
        reply = claude(server).messages.create(model="default", max_tokens=9, system=system, messages=MESSAGES)
        assert reply.content[0].text == "hello" and applied(reply) == VALUES
        for role in ("system", "developer"):
            reply = gpt(server).chat.completions.create(
                model="default", messages=[{"role": role, "content": system}, *MESSAGES])
            assert reply.choices[0].message.content == "hello" and applied(reply) == VALUES


def test_it_leaves_no_token(server):
    plain = messages("hi", system="Be brief.")
    for system in ("SSP:domain=legal\nBe brief.", "\n ssp：domain＝legal；\n\nBe brief.",
                   [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "SSP:domain=legal"}]):
        a = server.post("/v1/messages", messages("hi", system=system)).json()
        b = server.post("/v1/messages", plain).json()
        assert a["usage"]["input_tokens"] == b["usage"]["input_tokens"]
        count = {k: v for k, v in messages("hi", system=system).items() if k != "stream"}
        assert server.post("/v1/messages/count_tokens", count).json()["input_tokens"] == b["usage"]["input_tokens"]


def test_streams_say_it(server):
    line = "SSP:domain=tech"
    _, text, _, last, _ = anthropic_stream(server, messages("hi", system=line))
    assert text == "hello" and last["wane"]["ssp"] == {"domain": "tech"}
    chunks, done, _ = openai_stream(server, "/v1/chat/completions",
                                    {"messages": [{"role": "system", "content": line}, *MESSAGES]})
    said = [c["wane"]["ssp"] for c in chunks if "wane" in c]
    assert done and said == [{"domain": "tech"}]


def test_fuse_and_fallback(scripted):
    """A reply of sure tokens, and the plain rule: what the values say of its end."""
    server = scripted(replies=[{"match": "", "text": "hello hello"}], request_modes=["wane"],
                      quality={"fuse": "plain", "fuse_limit": 0.5, "fallback": "none"})

    def end(values):
        reply = server.post("/v1/messages", messages("hi", system=f"SSP:{values}")).json()
        return reply["content"][0]["text"], reply["stop_reason"], reply["wane"].get("fuse", {}).get("fallback")

    plain, why, fallback = end("domain=tech")
    assert "hello hello".startswith(plain) and len(plain) < 11 and (why, fallback) == ("refusal", "none")
    assert end("fallback=none") == (plain, "refusal", "none")
    conservative, transparent = end("fallback=conservative"), end("fallback=transparent")
    assert conservative[0].startswith(plain + "\n") and conservative[1:] == ("refusal", "conservative")
    assert transparent[0].startswith(plain + "\n") and transparent[1:] == ("refusal", "transparent")
    assert conservative[0] != transparent[0]
    # Neither of these has a fuse that would end a reply which does not go round in a loop.
    for tolerance in ("balanced", "lenient"):
        assert end(f"tolerance={tolerance}") == ("hello hello", "end_turn", None)
    assert end("tolerance=strict")[1] == "refusal"


def test_a_users_text_is_text(server):
    reply = server.post("/v1/chat/completions", chat("SSP:domain=legal"))
    assert reply.status == 200 and "wane" not in reply.json()


def test_decorated_clients(server):
    client, other = claude(server), gpt(server)
    create = wane.with_ssp(**VALUES)(client.messages.create)
    for more in ({}, {"system": "Be brief."}, {"system": [{"type": "text", "text": "Be brief."}]},
                 {"system": anthropic.NOT_GIVEN}):
        reply = create(model="default", max_tokens=9, messages=MESSAGES, **more)
        assert reply.content[0].text == "hello" and applied(reply) == VALUES
    create = wane.with_ssp(**VALUES)(other.chat.completions.create)
    for first in ([], [{"role": "system", "content": "Be brief."}],
                  [{"role": "developer", "content": [{"type": "text", "text": "Be brief."}]}]):
        given = [*first, *MESSAGES]
        kept = [dict(message) for message in given]
        assert applied(create(model="default", messages=given)) == VALUES
        assert given == kept


def test_decorated_functions(server):
    client, other = claude(server), gpt(server)

    @wane.with_ssp(domain="legal")
    def ask(question, system=None):
        """Ask it."""
        return client.messages.create(model="default", max_tokens=9, system=system,
                                      messages=[{"role": "user", "content": question}])

    @wane.with_ssp(domain="medical", api="anthropic")
    def hand_on(**request):
        return client.messages.create(model="default", max_tokens=9, **request)

    @wane.with_ssp(domain="finance")
    def talk(messages):
        return other.chat.completions.create(model="default", messages=messages)

    assert ask.__doc__ == "Ask it." and ask.__name__ == "ask"
    assert applied(ask("hi")) == applied(ask("hi", system="Be brief.")) == {"domain": "legal"}
    assert applied(hand_on(messages=MESSAGES)) == {"domain": "medical"}
    assert applied(talk(messages=MESSAGES)) == {"domain": "finance"}
    with pytest.raises(TypeError, match="without system= or messages="):
        talk(MESSAGES)


def test_streaming_and_async(server):
    stream = wane.with_ssp(domain="tech")(claude(server).messages.stream)
    with stream(model="default", max_tokens=9, messages=MESSAGES) as events:
        assert "".join(events.text_stream) == "hello"

    async def both():
        client, other = claude(server, anthropic.AsyncAnthropic), gpt(server, openai.AsyncOpenAI)

        @wane.with_ssp(domain="creative")
        async def ask(messages):
            return await other.chat.completions.create(model="default", messages=messages)

        @wane.with_ssp(domain="creative")
        async def words(messages):
            async for part in await other.chat.completions.create(model="default", messages=messages, stream=True):
                yield part.choices[0].delta.content or ""

        first = await wane.with_ssp(domain="legal")(client.messages.create)(
            model="default", max_tokens=9, messages=MESSAGES)
        second = await ask(messages=MESSAGES)
        third = "".join([word async for word in words(messages=MESSAGES)])
        await client.close()
        await other.close()
        return applied(first), applied(second), third

    assert asyncio.run(both()) == ({"domain": "legal"}, {"domain": "creative"}, "hello")


def test_the_package_says_what_the_server_says(server):
    wrong = [{"domain": value} for value in ("legl", "law", "", "high", "法律", "x" * 100, "LEGALL", "med", "tec", '"legal"')]
    wrong += [{"confidence": value} for value in ("hihg", "0.9", "strict", "very high", "lo")]
    wrong += [{"tolerance": "zero"}, {"fallback": "non"}, {"fallback": "off"}]
    wrong += [{"domian": "legal"}, {"mode": "high"}, {"conf": "high"}, {"d" * 80: "x"}]
    for values in wrong:
        (key, value), = values.items()
        with pytest.raises(wane.SSPError) as said:
            wane.with_ssp(**values)
        reply = server.post("/v1/messages", messages("hi", system=f"SSP:{key}={value}"))
        assert reply.status == 400 and reply.json()["error"]["message"] == f"system: {said.value}"
    with pytest.raises(wane.SSPError, match="it is empty"):
        wane.with_ssp()
    with pytest.raises(ValueError, match="anthropic or openai"):
        wane.with_ssp(domain="legal", api="azure")
    second = wane.with_ssp(domain="legal")(claude(server).messages.create)
    for system in ("SSP:domain=tech", [{"type": "text", "text": " ssp：domain＝tech"}]):
        with pytest.raises(wane.SSPError, match="second one"):
            second(model="default", max_tokens=9, messages=MESSAGES, system=system)
    assert wane.ssp(fallback=" NONE ", domain="Legal") == "SSP:domain=legal;fallback=none"


# ------------------------------------------------------------------ text preparation

DIRTY = "Caf\u200be\u0301. Two.\n```\ne\u0301\u200b\n```"


def prepared(reply):
    assert reply.status == 200, reply.body
    return reply.json().get("wane", {}).get("prepare")


def tokens(server, text, **more):
    reply = server.post("/v1/messages/count_tokens", messages(text, **more))
    assert reply.status == 200, reply.body
    return reply.json()["input_tokens"]


def test_the_server_prepares(scripted):
    server = scripted(replies=[REPLY], prepare="invisible,nfc")
    reply = server.post("/v1/chat/completions", chat(DIRTY))
    assert prepared(reply) == {"invisible": 1, "nfc": 1}
    reply = server.post("/v1/messages", messages(DIRTY))
    assert prepared(reply) == {"invisible": 1, "nfc": 1}
    # Five bytes less in a model of bytes; what stands between fences is there still.
    plain = scripted(replies=[REPLY])
    assert tokens(plain, DIRTY) - tokens(server, DIRTY) == len(DIRTY.encode()) - len("Café. Two.\n```\ne\u0301\u200b\n```".encode())
    # A system's and an assistant's texts are not touched.
    kept = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "x\u200by"}, {"role": "user", "content": "b"}]
    reply = server.post("/v1/messages", {**messages("hi", system="s\u200bt"), "messages": kept})
    assert prepared(reply) == {"invisible": 0, "nfc": 0}
    _, _, _, last, _ = anthropic_stream(server, messages(DIRTY))
    assert last["wane"]["prepare"] == {"invisible": 1, "nfc": 1}
    metrics = server.metrics()
    assert metrics["wane_prepared_requests_total"] >= 4
    assert metrics['wane_prepare_changes_total{step="invisible"}'] >= 3
    # A text to be continued is nobody's message.
    assert "wane" not in server.post("/v1/completions", {"prompt": DIRTY}).json()


def test_a_request_switches_what_it_may(scripted):
    server = scripted(replies=[REPLY], prepare="nfc", request_prepare="invisible,segments")
    ask = lambda wish, **more: server.post("/v1/chat/completions", chat(DIRTY, **wish), **more)  # noqa: E731
    assert prepared(ask({})) == {"nfc": 1}
    assert prepared(ask({"wane_prepare": "nfc,invisible"})) == {"invisible": 1, "nfc": 1}
    assert prepared(ask({"wane_prepare": ["nfc", "segments"]})) == {"nfc": 1, "segments": 2}
    assert prepared(ask({}, headers={"wane-prepare": "invisible,nfc"})) == {"invisible": 1, "nfc": 1}
    assert prepared(ask({"wane_prepare": "nfc"}, headers={"wane-prepare": "bad"})) == {"nfc": 1}
    for wish, words in (({"wane_prepare": "none"}, "nfc cannot be switched off by a request; this server lets requests switch invisible, segments"),
                        ({"wane_prepare": "nfc,tables"}, "tables cannot be switched on"),
                        ({"wane_prepare": "nfd"}, '"nfd" is not a step'), ({"wane_prepare": 5}, "5 is not allowed"),
                        ({"wane_prepare": ["nfc", None]}, "null is not allowed"), ({"wane_prepare": {}}, "is not allowed")):
        reply = ask(wish)
        assert reply.status == 400 and words in reply.json()["error"]["message"], reply.body
    reply = ask({}, headers={"wane-prepare": "nfd"})
    assert reply.status == 400 and '"nfd" is not a step' in reply.json()["error"]["message"]
    closed = scripted(replies=[REPLY])
    reply = closed.post("/v1/chat/completions", chat(DIRTY, wane_prepare="nfc"))
    assert reply.status == 400 and "lets requests switch none" in reply.json()["error"]["message"]
    assert "wane" not in closed.post("/v1/chat/completions", chat(DIRTY, wane_prepare="none")).json()
    assert closed.post("/v1/completions", {"prompt": "x", "wane_prepare": "none"}).status == 400


MONEY = "Should I pay off the mortgage early or put the savings into a pension fund? How do interest rates and dividends enter into it?"


def test_another_domain(real_with):
    """The domain that an SSP names against the one that the text is of: told in a header, and with auto the text's is used."""
    for choice, used in (("check", "legal"), ("auto", "finance")):
        server = real_with("--request-modes", "wane", "--ssp-domain", choice)
        wrong = server.post("/v1/messages", messages(MONEY, system="SSP:domain=legal", max_tokens=2))
        assert wrong.headers["wane-domain-mismatch"].startswith("legal; looks like finance")
        assert wrong.json()["wane"]["ssp"] == {"domain": used}
        right = server.post("/v1/messages", messages(MONEY, system="SSP:domain=finance", max_tokens=2))
        assert "wane-domain-mismatch" not in right.headers and right.json()["wane"]["ssp"] == {"domain": "finance"}
        plain = server.post("/v1/messages", messages(MONEY, max_tokens=2))
        assert "wane-domain-mismatch" not in plain.headers and "wane" not in plain.json()
        assert server.metrics()['wane_ssp_domain_mismatch_total{domain="finance"}'] == 1
