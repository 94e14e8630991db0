"""Ratings through the real clients: what they got can be rated with what they have, by either API's id."""
import json
import sqlite3

import anthropic
import openai
import pytest

MESSAGES = [{"role": "user", "content": "hi"}]
REPLIES = [{"match": "", "text": "hello"}]


@pytest.fixture
def server(scripted, tmp_path):
    return scripted(replies=REPLIES, feedback=str(tmp_path / "pool"))


def claude(server):
    return anthropic.Anthropic(base_url=server.url, api_key="x", max_retries=0)


def gpt(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="x", max_retries=0)


def rate(client, body):
    """A route that the clients do not know, by what they have for such: Anthropic's base has no /v1."""
    path = "/v1/wane/feedback" if isinstance(client, anthropic.Anthropic) else "/wane/feedback"
    return client.post(path, body=body, cast_to=object)


def test_both_clients(server, tmp_path):
    message = claude(server).messages.create(model="default", max_tokens=9, messages=MESSAGES)
    chat = gpt(server).chat.completions.create(model="default", messages=MESSAGES)
    text = gpt(server).completions.create(model="default", prompt="hi", max_tokens=9)
    with claude(server).messages.stream(model="default", max_tokens=9, messages=MESSAGES) as stream:
        streamed = stream.get_final_message()
    chunks = list(gpt(server).chat.completions.create(model="default", messages=MESSAGES, stream=True))
    ids = [message.id, chat.id, text.id, streamed.id, chunks[-1].id]
    assert len(set(ids)) == 5
    for at, name in enumerate(ids):
        for client in (claude(server), gpt(server)):  # either client may rate what the other one got
            got = rate(client, {"response_id": name, "rating": ["up", "down", -1, 0.5, 1][at], "comment": f"Nr. {at} – 好"})
            assert got["response_id"] == name and got["rating"] == [1, -1, -1, 0.5, 1][at]
    rows = sqlite3.connect(tmp_path / "pool").execute("select response, rating, comment, prompt from feedback").fetchall()
    assert len(rows) == 10 and {r[0] for r in rows} == set(ids)
    assert rows[-1][2] == "Nr. 4 – 好" and rows[-1][3] is None  # no text unless that is asked for
    metrics = server.metrics()
    assert metrics['wane_feedback_total{rating="up"}'] == 6 and metrics['wane_feedback_total{rating="down"}'] == 4


def test_what_is_refused_is_said_in_the_clients_own_errors(server):
    chat = gpt(server).chat.completions.create(model="default", messages=MESSAGES)
    for client, kind in ((claude(server), anthropic), (gpt(server), openai)):
        with pytest.raises(kind.NotFoundError) as error:
            rate(client, {"response_id": "chatcmpl-nobody", "rating": "up"})
        assert "no reply chatcmpl-nobody" in str(error.value)
        with pytest.raises(kind.BadRequestError) as error:
            rate(client, {"response_id": chat.id, "rating": "meh"})
        assert "rating" in str(error.value) and "up" in str(error.value)


def test_without_a_pool_there_is_no_such_route(scripted):
    with pytest.raises(openai.NotFoundError) as error:
        rate(gpt(scripted(replies=REPLIES)), {"response_id": "x", "rating": "up"})
    assert "--feedback" in str(error.value)


def test_another_answer_for_a_bad_one(scripted, tmp_path):
    server = scripted(replies=[{"match": "", "tokens": [], "logits": {str(ord(c)): 25.0 for c in "abcd"}}], feedback=str(tmp_path / "pool"),
                      feedback_text=True, quality={"mode": "legacy", "token_vote": False, "rules": False, "clamp": 0, "dialogue_slope": 0})
    chat = gpt(server).chat.completions.create(model="default", messages=MESSAGES, max_tokens=12, temperature=1, top_p=1,
                                               extra_body={"wane_hold": "vote"})
    got = rate(claude(server), {"response_id": chat.id, "rating": "down", "comment": "no"})
    assert got["alternative"]["ranked_by"] == "vote" and len(got["alternative"]["text"]) == 12
    assert got["alternative"]["text"] != chat.choices[0].message.content
    assert json.loads(json.dumps(got))["rating"] == -1
    rows = sqlite3.connect(tmp_path / "pool").execute("select prompt, reply from feedback").fetchall()
    assert rows == [("user: hi\n", chat.choices[0].message.content)]
