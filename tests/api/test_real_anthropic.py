"""The real anthropic client against `wane serve` with the default model."""
import asyncio

import anthropic
import pytest
from support import together

QUESTION = [{"role": "user", "content": "Name three colours."}]
# The client's newest versions leave temperature to `extra_body`; the server takes it either way.
GREEDY = {"model": "claude-test", "max_tokens": 12, "messages": QUESTION, "extra_body": {"temperature": 0}}


@pytest.fixture(scope="module")
def client(real):
    with anthropic.Anthropic(base_url=real.url, api_key="none-needed", max_retries=0) as made:
        yield made


def test_message(client):
    reply = client.messages.create(**GREEDY)
    assert reply.type == "message" and reply.role == "assistant" and reply.content[0].type == "text"
    assert reply.content[0].text.strip() and reply.stop_reason in ("end_turn", "max_tokens")
    assert 0 < reply.usage.output_tokens <= 12 and reply.model == client.models.list().data[0].id
    assert reply._request_id.startswith("req_")


def test_greedy_is_deterministic_and_streamed_equals_whole(client):
    whole = [client.messages.create(**GREEDY).content[0].text for _ in range(3)]
    assert whole[0] == whole[1] == whole[2]
    with client.messages.stream(**GREEDY) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == final.content[0].text == whole[0]
    assert final.stop_reason and final.usage.output_tokens > 0
    kinds = [event.type for event in client.messages.create(**GREEDY, stream=True)]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"


def test_async(real, client):
    async def go():
        async with anthropic.AsyncAnthropic(base_url=real.url, api_key="x", max_retries=0) as a:
            whole = await a.messages.create(**GREEDY)
            async with a.messages.stream(**GREEDY) as stream:
                text = "".join([t async for t in stream.text_stream])
            return whole.content[0].text, text

    whole, text = asyncio.run(go())
    assert whole == text == client.messages.create(**GREEDY).content[0].text


def test_count_tokens_equals_usage(client):
    for more in ({}, {"system": "Be brief."}, {"system": [{"type": "text", "text": "Be brief."}]}):
        count = client.messages.count_tokens(model="claude-x", messages=QUESTION, **more).input_tokens
        assert client.messages.create(**{**GREEDY, "max_tokens": 1}, **more).usage.input_tokens == count


def test_system_stop_and_prefill(client):
    as_text = client.messages.create(**GREEDY, system="You answer in English.").content[0].text
    as_blocks = client.messages.create(**GREEDY, system=[{"type": "text", "text": "You answer in English.",
                                                          "cache_control": {"type": "ephemeral"}}]).content[0].text
    assert as_text == as_blocks
    whole = client.messages.create(**{**GREEDY, "max_tokens": 16}).content[0].text
    stop = whole[6:10]
    cut = client.messages.create(**{**GREEDY, "max_tokens": 16}, stop_sequences=[stop])
    assert cut.stop_reason == "stop_sequence" and cut.stop_sequence == stop
    assert cut.content[0].text == whole[:whole.index(stop)]
    filled = client.messages.create(**{**GREEDY, "messages": QUESTION + [{"role": "assistant", "content": "1."}]})
    assert not filled.content[0].text.startswith("1.")


def test_errors_are_the_clients_own(real, client):
    with pytest.raises(anthropic.NotFoundError) as fault:
        client.messages.create(**{**GREEDY, "model": "gpt-4"})
    assert fault.value.body["error"]["type"] == "not_found_error"
    with pytest.raises(anthropic.BadRequestError) as fault:
        client.messages.create(**{**GREEDY, "extra_body": {"temperature": 5}})
    assert "temperature" in str(fault.value)
    with pytest.raises(anthropic.BadRequestError) as fault:
        client.messages.create(**{**GREEDY, "messages": [{"role": "user", "content": "word " * 5000}]})
    assert "2048" in str(fault.value)
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(**GREEDY, tools=[{"name": "x", "input_schema": {"type": "object"}}])
    assert client.messages.create(**GREEDY).content


def test_models(client):
    (model,) = client.models.list().data
    assert client.models.retrieve(model.id).id == model.id and model.created_at
    with pytest.raises(anthropic.NotFoundError):
        client.models.retrieve("nothing")


def test_four_at_once(client):
    """
    Greedy replies side by side. Rows of a batch go through other kernels than a single row, so a near-tie may fall the
    other way, and all that follows with it: most first words must agree, and half of all words.
    """
    bodies = [{**GREEDY, "max_tokens": 8, "messages": [{"role": "user", "content": q}]}
              for q in ("What is the capital of France?", "Count from one to ten.", "Say hello.", "What is 2+2?")]
    alone = [client.messages.create(**b).content[0].text for b in bodies]
    beside = together([lambda b=b: client.messages.create(**b).content[0].text for b in bodies])
    agreed = [len([1 for x, y in zip(a.split(), b.split()) if x == y]) for a, b in zip(alone, beside)]
    assert sum(a.split()[0] == b.split()[0] for a, b in zip(alone, beside)) >= 3, (alone, beside)
    assert sum(agreed) >= 0.5 * sum(len(a.split()) for a in alone), (alone, beside)
