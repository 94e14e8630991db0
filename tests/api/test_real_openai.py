"""The real openai client, and curl, against `wane serve` with the default model."""
import asyncio
import json
import math
import shutil
import subprocess

import openai
import pytest
from support import together

QUESTION = [{"role": "user", "content": "Name three colours."}]
GREEDY = {"model": "default", "max_tokens": 12, "temperature": 0, "messages": QUESTION}


@pytest.fixture(scope="module")
def client(real):
    with openai.OpenAI(base_url=real.url + "/v1", api_key="none-needed", max_retries=0) as made:
        yield made


def text_of(reply):
    return reply.choices[0].message.content


def test_chat(client):
    reply = client.chat.completions.create(**GREEDY)
    assert text_of(reply).strip() and reply.choices[0].finish_reason in ("stop", "length")
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    assert reply.system_fingerprint.startswith("fp_") and reply.object == "chat.completion"
    assert reply.model == client.models.list().data[0].id


def test_streamed_equals_whole(client):
    whole = client.chat.completions.create(**GREEDY)
    chunks = list(client.chat.completions.create(**GREEDY, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text_of(whole)
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert text_of(client.chat.completions.create(**GREEDY)) == text_of(whole)


def test_the_clients_stream_helper(client):
    whole = text_of(client.chat.completions.create(**GREEDY))
    body = {**GREEDY, "stop": whole[8:11]}  # the helper takes a reply that met its limit for an error
    with client.chat.completions.stream(**body) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    assert text_of(final) == text_of(client.chat.completions.create(**body)) and final.choices[0].finish_reason == "stop"


def test_async(real, client):
    async def go():
        async with openai.AsyncOpenAI(base_url=real.url + "/v1", api_key="x", max_retries=0) as a:
            stream = await a.chat.completions.create(**GREEDY, stream=True)
            return "".join([c.choices[0].delta.content or "" async for c in stream])

    assert asyncio.run(go()) == text_of(client.chat.completions.create(**GREEDY))


def test_same_answer_through_both_apis(real, client):
    other = real.post("/v1/messages", GREEDY).json()
    assert other["content"][0]["text"] == text_of(client.chat.completions.create(**GREEDY))


def test_seed(client):
    body = {**GREEDY, "temperature": 1.0, "seed": 11}
    first, again = (text_of(client.chat.completions.create(**body)) for _ in range(2))
    assert first == again
    others = {text_of(client.chat.completions.create(**{**body, "seed": s})) for s in range(3)}
    assert len(others | {first}) > 1


def test_logprobs(client):
    reply = client.chat.completions.create(**GREEDY, logprobs=True, top_logprobs=5)
    entries = reply.choices[0].logprobs.content
    assert bytes(b for e in entries for b in e.bytes or []).decode() == text_of(reply)
    for e in entries:
        assert e.token == e.top_logprobs[0].token and len(e.top_logprobs) == 5
        values = [t.logprob for t in e.top_logprobs]
        assert values == sorted(values, reverse=True) and sum(math.exp(v) for v in values) <= 1.0001
    # The normaliser is the whole vocabulary's, whatever the sampler keeps.
    hot = client.chat.completions.create(**{**GREEDY, "max_tokens": 1, "temperature": 0.1}, logprobs=True, top_logprobs=5,
                                         extra_body={"top_k": 1})
    for a, b in zip(entries[0].top_logprobs, hot.choices[0].logprobs.content[0].top_logprobs):
        assert abs(a.logprob - b.logprob) < 0.5  # see below: the reused prefix has another length


def test_bias_and_penalties(client):
    first = client.chat.completions.create(**{**GREEDY, "max_tokens": 1}, logprobs=True, top_logprobs=1)
    token = first.choices[0].logprobs.content[0].token
    body = {"model": "default", "prompt": "The capital of France is", "max_tokens": 4, "temperature": 0}
    plain = client.completions.create(**body, logprobs=1)
    assert len(plain.choices[0].logprobs.tokens) == 4 and token
    assert client.completions.create(**body, frequency_penalty=2, presence_penalty=2).choices[0].text
    biased = client.completions.create(**body, logit_bias={"5": 100})
    assert biased.choices[0].text != plain.choices[0].text


def test_completions(client):
    body = {"model": "default", "prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}
    whole = client.completions.create(**body)
    chunks = list(client.completions.create(**body, stream=True))
    assert "".join(c.choices[0].text for c in chunks) == whole.choices[0].text
    assert client.completions.create(**{**body, "prompt": ["Once upon a time"]}).choices[0].text == whole.choices[0].text
    with pytest.raises(openai.BadRequestError) as fault:
        client.completions.create(**{**body, "prompt": ["a", "b"]})
    assert fault.value.param == "prompt"


def test_errors_are_the_clients_own(client):
    with pytest.raises(openai.NotFoundError) as fault:
        client.chat.completions.create(**{**GREEDY, "model": "gpt-4"})
    assert fault.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as fault:
        client.chat.completions.create(**GREEDY, n=2)
    assert fault.value.param == "n"
    with pytest.raises(openai.BadRequestError) as fault:
        client.chat.completions.create(**{**GREEDY, "messages": [{"role": "user", "content": "word " * 5000}]})
    assert fault.value.code == "context_length_exceeded"


def test_client_gone_in_mid_stream(real, client):
    stream = client.chat.completions.create(**{**GREEDY, "max_tokens": 400}, stream=True)
    next(iter(stream))
    stream.close()
    real.idle()


def test_four_at_once_by_logprobs(client):
    """
    Rows of a batch go through other kernels than a single row, and activations are rounded to 8 bits between them: the
    logprobs of the first token move by up to 0.22 here (measured), so 0.5 tells another path from another prompt.
    """
    bodies = [{**GREEDY, "max_tokens": 8, "messages": [{"role": "user", "content": f"Tell me about {x}."}]}
              for x in ("cats", "the sea", "bread", "Mars")]
    ask = lambda b: client.chat.completions.create(**b, logprobs=True, top_logprobs=3).choices[0].logprobs.content  # noqa: E731
    alone = [ask(b) for b in bodies]
    for a, b in zip(alone, together([lambda b=b: ask(b) for b in bodies])):
        beside = {t.token: t.logprob for t in b[0].top_logprobs}
        shared = [t for t in a[0].top_logprobs if t.token in beside]
        assert len(shared) >= 2 and all(abs(t.logprob - beside[t.token]) < 0.5 for t in shared)


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_curl(real, client, tmp_path):
    def curl(*more):
        return subprocess.run(["curl", "-sS", "--max-time", "60", *more], capture_output=True, text=True, check=True).stdout

    body = json.dumps(GREEDY)
    answer = json.loads(curl(real.url + "/v1/chat/completions", "-d", body))
    assert answer["choices"][0]["message"]["content"] == text_of(client.chat.completions.create(**GREEDY))
    stream = curl("-N", real.url + "/v1/chat/completions", "-d", json.dumps({**GREEDY, "stream": True}))
    assert stream.rstrip().endswith("data: [DONE]")
    assert curl("-o", "/dev/null", "-w", "%{http_code}", "-X", "DELETE", real.url + "/v1/models") == "405"
    assert "HTTP/1.1 200" in curl("-I", real.url + "/health")
    huge = tmp_path / "huge"
    huge.write_bytes(b"x" * (9 << 20))
    assert curl("-o", "/dev/null", "-w", "%{http_code}", real.url + "/v1/messages", "--data-binary", f"@{huge}") == "413"
