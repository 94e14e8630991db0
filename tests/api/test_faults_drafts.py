"""Drafts through the server: the same replies, usage and logprobs with and without, and what /metrics says of them."""
from support import anthropic_stream, chat, messages

TEXT = "one potato, two potato, three potato, four; " * 4
REPLIES = [{"match": "potato", "text": TEXT}]
PROMPT = "say it: one potato, two potato, three potato, four; one potato, two potato, three potato"


def proposed(server):
    return sum(value for name, value in server.metrics().items() if name.startswith("wane_draft_proposed_total"))


def test_same_reply_and_usage(scripted):
    server = scripted(replies=REPLIES, draft=True)
    for more in ({}, {"stop_sequences": ["three potato, four; one"]}, {"max_tokens": 61}):
        plain = server.post("/v1/messages", messages(PROMPT, **{"max_tokens": 300, "wane_draft": False, **more})).json()
        before = proposed(server)
        drafted = server.post("/v1/messages", messages(PROMPT, **{"max_tokens": 300, **more})).json()
        for key in ("content", "stop_reason", "stop_sequence"):
            assert plain[key] == drafted[key]
        assert plain["usage"]["output_tokens"] == drafted["usage"]["output_tokens"]
        streamed = anthropic_stream(server, messages(PROMPT, **{"max_tokens": 300, **more}))
        assert streamed[1] == plain["content"][0]["text"]
    assert before > 0


def test_same_logprobs(scripted):
    server = scripted(replies=REPLIES, draft=True)
    ask = dict(max_tokens=120, logprobs=True, top_logprobs=3)
    server.post("/v1/chat/completions", chat(PROMPT, **ask))
    plain = server.post("/v1/chat/completions", chat(PROMPT, wane_draft=False, **ask)).json()["choices"][0]
    drafted = server.post("/v1/chat/completions", chat(PROMPT, **ask)).json()["choices"][0]
    assert plain == drafted and len(plain["logprobs"]["content"]) == 120


def test_the_field_is_checked(scripted):
    server = scripted(replies=REPLIES, draft=True)
    assert server.post("/v1/messages", messages("hi", wane_draft="no")).status == 400
    assert server.post("/v1/messages", messages("hi", wane_draft=None)).status == 200
    metrics = server.metrics()
    assert metrics["wane_draft_on"] == 1 and metrics["wane_draft_differing_total"] == 0
