"""The memo through the server: a repeated request gives the same bytes without the engine, and nobody else's."""
import os

from support import anthropic_stream, chat, eventually, messages, start_scripted

TEXT = "one potato, two potato, three potato, four; " * 4
REPLIES = [{"match": "potato", "text": TEXT}]
PROMPT = "say potato"
MEMO = 1 << 20


def moved(server, ask):
    """What `ask` gives, and how far it moved the metrics."""
    before = server.metrics()
    answer = ask()
    after = server.metrics()
    return answer, {name: after[name] - before.get(name, 0) for name in after}



def test_the_same_reply_without_the_engine(scripted):
    server = scripted(replies=REPLIES, memo=MEMO)
    for more in ({}, {"stop_sequences": ["three potato, four; one"]}, {"max_tokens": 61}):
        body = messages(PROMPT, **{"max_tokens": 300, **more})
        plain = server.post("/v1/messages", {**body, "wane_memo": False}).json()
        first = server.post("/v1/messages", body).json()
        again, by = moved(server, lambda: server.post("/v1/messages", body).json())
        for key in ("content", "stop_reason", "stop_sequence"):
            assert plain[key] == first[key] == again[key]
        assert first["usage"]["output_tokens"] == again["usage"]["output_tokens"] == by["wane_memo_hits_total"]
        assert by["wane_memo_misses_total"] == 0 and by["wane_engine_calls_total"] == 0
        streamed = anthropic_stream(server, body)
        assert streamed[1] == plain["content"][0]["text"]


def test_who_does_not_share(scripted):
    server = scripted(replies=REPLIES, memo=MEMO)
    for more in ({"temperature": 1}, {"logprobs": True}, {"wane_memo": False}):
        ask = chat(PROMPT, max_tokens=20, **more)
        _, by = moved(server, lambda: [server.post("/v1/chat/completions", ask) for _ in range(2)])
        assert by["wane_memo_hits_total"] == by["wane_memo_misses_total"] == 0
    ask = chat(PROMPT, max_tokens=20, temperature=1, seed=3)
    replies, by = moved(server, lambda: [server.post("/v1/chat/completions", ask).json() for _ in range(2)])
    assert by["wane_memo_hits_total"] == by["wane_memo_misses_total"] == 20
    assert replies[0]["choices"] == replies[1]["choices"]
    assert server.post("/v1/chat/completions", chat(PROMPT, wane_memo="no")).status == 400


def test_from_process_to_process(scripted, tmp_path):
    path = str(tmp_path / "kept.memo")
    body = messages(PROMPT, max_tokens=300)
    server = scripted(replies=REPLIES, memo=MEMO, memo_file=path)
    first = server.post("/v1/messages", body).json()
    server.process.terminate()
    assert server.process.wait(20) == 0
    server = scripted(replies=REPLIES, memo=MEMO, memo_file=path)
    again, by = moved(server, lambda: server.post("/v1/messages", body).json())
    assert again["content"] == first["content"]
    assert by["wane_engine_calls_total"] == 0 and server.metrics()["wane_memo_entries"] == by["wane_memo_hits_total"]


def test_a_killed_server_keeps_what_was_saved(scripted, tmp_path):
    path = str(tmp_path / "kept.memo")
    body = messages(PROMPT, max_tokens=300)
    server = start_scripted(str(tmp_path), "killed", replies=REPLIES, memo=MEMO, memo_file=path, memo_save=1)
    first = server.post("/v1/messages", body).json()
    # Nobody asks for anything: the idle engine thread must do it by itself, and once, since nothing changes.
    eventually(lambda: server.metrics()["wane_memo_saves_total"] == 1, seconds=20, what="the save")
    kept = open(path, "rb").read()
    server.process.kill()
    assert server.process.wait(20) == -9
    assert open(path, "rb").read() == kept
    assert os.listdir(tmp_path).count("kept.memo") == 1
    server.process.stdout.close()
    again_server = scripted(replies=REPLIES, memo=MEMO, memo_file=path)
    again, by = moved(again_server, lambda: again_server.post("/v1/messages", body).json())
    assert again["content"] == first["content"] and by["wane_engine_calls_total"] == 0


def test_saved_again_only_when_something_changed(scripted, tmp_path):
    path = str(tmp_path / "kept.memo")
    server = scripted(replies=REPLIES, memo=MEMO, memo_file=path, memo_save=1)

    def saves():
        return server.metrics()["wane_memo_saves_total"]

    server.post("/v1/messages", messages(PROMPT, max_tokens=30))
    eventually(lambda: saves() == 1, seconds=20, what="the first save")
    entries = server.metrics()["wane_memo_entries"]
    server.post("/v1/messages", messages(PROMPT, max_tokens=30))  # repeated: nothing new
    server.post("/v1/messages", messages(PROMPT, max_tokens=60))
    eventually(lambda: saves() == 2, seconds=20, what="the second save")
    assert server.metrics()["wane_memo_entries"] > entries


def test_a_save_that_fails(scripted, tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    server = scripted(replies=REPLIES, memo=MEMO, memo_file=str(folder / "kept.memo"), memo_save=1)
    folder.rmdir()
    first = server.post("/v1/messages", messages(PROMPT, max_tokens=30)).json()
    eventually(lambda: server.metrics()["wane_memo_save_failures_total"] >= 1, seconds=20, what="the failure")
    assert "Cannot write the memo" in open(server.log).read()
    folder.mkdir()
    eventually(lambda: server.metrics()["wane_memo_saves_total"] == 1, seconds=20, what="the next try")
    assert server.post("/v1/messages", messages(PROMPT, max_tokens=30)).json()["content"] == first["content"]
