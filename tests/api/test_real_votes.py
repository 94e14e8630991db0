"""Votes of a real model: what the clients' own libraries make of them, the gate that wakes them, the breaker."""
import anthropic
import openai
import pytest
from support import anthropic_stream, chat, eventually, openai_stream, wakes

QUESTION = [{"role": "user", "content": "Name three animals and say why you like them."}]
CHAT = "/v1/chat/completions"
LENGTH = 12
# Nothing but the vote changes an answer; and one request at a time, alone: then a seed says all (docs/api.md, Repeatability).
PLAIN = ("--clamp", "0", "--dialogue-slope", "0", "--no-token-vote", "--request-modes", "all", "--slots", "1",
         "--no-prefix-reuse", "--doubt-budget", "0", "--odds-base", "0.3", "--odds-entropy", "0")
NO_DOUBT = ("--odds-base", "-10", "--odds-entropy", "0", "--odds-documents", "0")  # no token is doubted
ALL_DOUBT = ("--odds-base", "10", "--forced-every", "0", "--revival-after", "0")  # each one is


@pytest.fixture(scope="module")
def plain(real_with):
    return real_with(*PLAIN)


def body(seed, **more):
    return chat(QUESTION[0]["content"], **{"temperature": 1, "max_tokens": LENGTH, "seed": seed, **more})


def text_of(reply):
    assert reply.status == 200, reply.body
    return reply.json()["choices"][0]["message"]["content"]


def test_note_and_vote_by_seed(plain):
    noted = 0
    for seed in range(1, 6):
        alone = text_of(plain.post(CHAT, body(seed, sfcl_mode="off")))
        chunks, done, _ = openai_stream(plain, CHAT, body(seed, sfcl_mode="legacy"))
        text = "".join(c["choices"][0]["delta"].get("content", "") for c in chunks)
        vote = chunks[-1]["wane"]["vote"]
        assert done and text == alone
        assert vote["answers"] == 3 and vote["forked_at"] == 0 and vote["spare_tokens"] > 0
        assert ("text" in vote) == (vote["chosen"] != 0)
        held = plain.post(CHAT, body(seed, sfcl_mode="legacy"))
        assert text_of(held) == vote.get("text", alone) and held.json()["wane"]["vote"]["chosen"] == vote["chosen"]
        streamed, done, _ = openai_stream(plain, CHAT, body(seed, sfcl_mode="legacy", wane_hold="vote"))
        assert done and "".join(c["choices"][0]["delta"].get("content", "") for c in streamed) == text_of(held)
        noted += "text" in vote
    assert noted > 0


def test_what_answers_share(plain):
    """The tokens before the first doubted one are those of all answers; the others' first answer is no other than without a vote."""
    parted = 0
    for seed in range(1, 31):
        chunks, _, _ = openai_stream(plain, CHAT, body(seed, sfcl_mode="wane", logprobs=True))
        entries = [e for c in chunks if c["choices"][0].get("logprobs") for e in c["choices"][0]["logprobs"]["content"]]
        vote = chunks[-1].get("wane", {}).get("vote")
        if vote is None or vote["forked_at"] == 0 or "text" not in vote:
            continue
        text, shared = ("".join(e["token"] for e in some) for some in (entries, entries[:vote["forked_at"]]))
        assert text == text_of(plain.post(CHAT, body(seed, sfcl_mode="off", logprobs=True)))
        assert shared and vote["text"].startswith(shared) and vote["text"] != text
        # What is shared was decoded once.
        assert vote["spare_tokens"] <= 2 * (LENGTH - vote["forked_at"])
        parted += 1
        if parted == 3:
            break
    assert parted > 0
    assert wakes(plain.metrics(), "doubt") >= parted


def test_openais_client(plain):
    with openai.OpenAI(base_url=plain.url + "/v1", api_key="none-needed", max_retries=0) as client:
        ask = {"model": "default", "max_tokens": LENGTH, "temperature": 1, "seed": 3, "messages": QUESTION}
        reply = client.chat.completions.create(**ask, extra_body={"sfcl_mode": "legacy"})
        assert reply.choices[0].message.content and reply.model_extra["wane"]["vote"]["answers"] == 3
        by_header = client.chat.completions.create(**ask, extra_headers={"wane-mode": "legacy"})
        assert by_header.choices[0].message.content == reply.choices[0].message.content
        chunks = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True},
                                                     extra_body={"sfcl_mode": "legacy"}))
        assert chunks[-1].usage.completion_tokens > 0 and "vote" in chunks[-2].model_extra["wane"]
        with client.chat.completions.stream(**{**ask, "stop": " "}, extra_body={"sfcl_mode": "legacy"}) as stream:
            for _ in stream:
                pass
            assert stream.get_final_completion().choices[0].finish_reason == "stop"
        old = client.completions.create(model="default", prompt="Once upon a time", max_tokens=8, temperature=1,
                                        extra_body={"sfcl_mode": "legacy"})
        assert old.choices[0].text and old.model_extra["wane"]["vote"]["answers"] == 3
        with pytest.raises(openai.BadRequestError) as fault:
            client.chat.completions.create(**ask, extra_body={"sfcl_mode": "fast"})
        assert fault.value.param == "sfcl_mode"


def test_anthropics_client(plain):
    ask = {"model": "claude-test", "max_tokens": LENGTH, "messages": QUESTION,
           "extra_body": {"temperature": 1, "sfcl_mode": "legacy"}}
    with anthropic.Anthropic(base_url=plain.url, api_key="none-needed", max_retries=0) as client:
        reply = client.messages.create(**ask)
        assert reply.content[0].text and reply.model_extra["wane"]["vote"]["answers"] == 3
        with client.messages.stream(**ask) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        assert text == final.content[0].text and final.usage.output_tokens > 0
        (last,) = [e for e in client.messages.create(**ask, stream=True) if e.type == "message_delta"]
        assert last.model_extra["wane"]["vote"]["answers"] == 3
        with pytest.raises(anthropic.BadRequestError) as fault:
            client.messages.create(**{**ask, "extra_body": {"wane_domain": "law"}})
        assert "no domains" in str(fault.value)


def test_the_gate_wakes_or_sleeps(real_with, tmp_path):
    settings = tmp_path / "wane.conf"
    settings.write_text("[domain.sure]\nodds_base = -10\nodds_entropy = 0\nodds_documents = 0\n"
                        "[domain.unsure]\nodds_base = 10\nforced_every = 0\ndoubt_budget = 2\n"
                        "[domain.empty]\n")
    server = real_with("--config", str(settings), "--mode", "wane", "--slots", "3")
    for seed in range(3):
        assert "wane" not in server.post(CHAT, body(seed, wane_domain="sure")).json()
    metrics = server.metrics()
    assert metrics["wane_gate_on"] == 1 and metrics["wane_gate_judged_total"] > 0 and metrics["wane_votes_total"] == 0
    for seed in range(3):  # the third doubted token wakes it, the first is where the answers part
        vote = server.post(CHAT, body(seed, wane_domain="unsure")).json()["wane"]["vote"]
        assert vote["answers"] == 3 and vote["forked_at"] == 0
    assert "wane" not in server.post(CHAT, body(1, wane_domain="unsure", temperature=0)).json()
    assert "wane" not in server.post(CHAT, body(1, wane_domain="unsure", max_tokens=2)).json()
    metrics = server.metrics()
    assert metrics["wane_votes_total"] == wakes(metrics, "doubt") == 3
    assert wakes(metrics, "always") == 0 and wakes(metrics, "warm_up") == 1
    assert server.post(CHAT, body(1, wane_domain="empty")).status == 200


def test_a_stream_through_the_gate(real_with):
    server = real_with("--mode", "wane", "--slots", "3", *ALL_DOUBT, "--doubt-budget", "3", "--no-token-vote", "--clamp", "0",
                       "--dialogue-slope", "0")
    _, text, _, last, _ = anthropic_stream(server, {"model": "default", "max_tokens": LENGTH, "messages": QUESTION,
                                                    "temperature": 1})
    assert text and last["wane"]["vote"]["answers"] == 3
    assert server.metrics()["wane_correction_draws_total"] == 0


def test_a_keys_mode_gets_a_gate(real_with, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("ada a key-12345678 mode=wane\n")
    keys.chmod(0o600)
    server = real_with("--key-file", str(keys), "--slots", "3", *NO_DOUBT)
    who = {"x-api-key": "key-12345678"}
    assert "wane" not in server.post(CHAT, body(1), headers=who).json()
    metrics = server.metrics(who)
    assert metrics["wane_gate_on"] == 1 and metrics["wane_gate_judged_total"] > 0


def test_the_breaker(real_with, tmp_path):
    said = tmp_path / "said"
    server = real_with("--mode", "wane", "--slots", "3", *ALL_DOUBT, "--doubt-budget", "0", "--breaker-wakes", "1",
                       "--breaker-temperature", "0.5", "--breaker-command", f"echo $WANE_BREAKER $WANE_BREAKER_RECENT >>{said}")
    assert "vote" in server.post(CHAT, body(1)).json()["wane"]
    assert server.metrics()["wane_breaker_out"] == 0 and not said.exists()
    assert "vote" in server.post(CHAT, body(2)).json()["wane"]
    eventually(said.exists, seconds=20, what="the command")
    eventually(lambda: said.read_text() == "out 2\n", seconds=20, what="its words")
    metrics = server.metrics()
    assert metrics["wane_breaker_out"] == metrics["wane_breaker_trips_total"] == 1
    assert metrics["wane_breaker_recent_wakes"] == 2
    assert "breaker out: 2 votes" in open(server.log).read()
    assert server.post(CHAT, body(3)).status == 200  # capped, not refused
