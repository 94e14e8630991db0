"""Recording on a real server: what the trace says is what the clients got, nothing more, and never a secret."""
import glob
import json
import os
import stat
import subprocess

from support import WANE, Stream, chat, eventually, messages, together

END = 257


def records(folder):
    out = []
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        with open(path) as file:
            out += [json.loads(line) for line in file]
    return out


def of(all, kind):
    return [r for r in all if r["type"] == kind]


def text_of(tokens):
    return "".join(chr(t) for t in tokens if 0 <= t < 256)


def test_records_what_was_decoded(scripted, tmp_path):
    folder = str(tmp_path / "traces")
    server = scripted(replies=[{"match": "Hi", "text": "Hello"}], record={"folder": folder, "plain": True})
    replies = together([lambda: server.post("/v1/chat/completions", chat("Hi", max_tokens=20, stop=["xyz"])),
                        lambda: server.post("/v1/messages", messages("Hi"), headers={"wane-kind": "summary"})])
    assert [r.status for r in replies] == [200, 200]
    eventually(lambda: server.metrics()['wane_trace_records_total{type="end"}'] == 2, what="the records on the disk")
    values = server.metrics()
    assert values["wane_trace_recording"] == 1
    assert values['wane_trace_records_total{type="token"}'] == 12
    assert values['wane_trace_dropped_total{type="token"}'] == 0
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    server.terminate()

    all = records(folder)
    assert all[0]["type"] == "origin" and all[0]["vocab_size"] == 384
    ids = {json.loads(r.body)["id"] for r in replies}
    assert {r["id"] for r in of(all, "request")} == ids
    assert {r["kind"] for r in of(all, "request")} == {"single", "summary"}
    for request in of(all, "request"):
        tokens = [r for r in of(all, "token") if r["id"] == request["id"]]
        assert text_of(r["token"] for r in tokens) == "Hello" and tokens[-1]["token"] == END
        assert [r["index"] for r in tokens] == list(range(6))
        context = request["prompt"] + [r["token"] for r in tokens]
        for r in tokens:
            assert r["top"][0][0] == r["token"] and len(r["top"]) == 64  # the tests' servers are greedy
            assert r["last"] == context[:r["position"]][-10:]
        end = [r for r in of(all, "end") if r["id"] == request["id"]]
        assert [(r["finish"], r["tokens"]) for r in end] == [("end", 6)]


def test_kinds(scripted, tmp_path):
    folder = str(tmp_path / "traces")
    server = scripted(replies=[{"match": "", "text": "ok"}], record={"folder": folder, "plain": True})
    talk = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                         {"role": "user", "content": "c"}]}
    bodies = [chat("one"), talk, chat("```\nx\n```"), chat("Summarise it"), chat("one", wane_kind="code")]
    for body in bodies:
        assert server.post("/v1/chat/completions", body).status == 200
    refused = server.post("/v1/chat/completions", chat("one", wane_kind="prose"))
    assert refused.status == 400 and "single" in refused.json()["error"]["message"]
    refused = server.post("/v1/messages", messages("one"), headers={"wane-kind": "prose"})
    assert refused.status == 400 and "wane-kind" in refused.json()["error"]["message"]
    server.terminate()
    kinds = [r["kind"] for r in of(records(folder), "request")]
    assert kinds == ["single", "multi", "code", "summary", "code"]


def test_tenants_and_keys_stay_out(scripted, tmp_path):
    folder = str(tmp_path / "traces")
    keys = tmp_path / "keys"
    keys.write_text("zoe physics key-of-zoe\nbob chemistry key-of-bob\n")
    keys.chmod(0o600)
    server = scripted(replies=[{"match": "Hi", "text": "Hello"}], key_file=str(keys),
                      record={"folder": folder, "plain": True})
    for key in ("key-of-zoe", "key-of-bob"):
        assert server.post("/v1/chat/completions", chat("Hi"), headers={"x-api-key": key}).status == 200
    server.terminate()
    all = records(folder)
    assert len({r["tenant"] for r in of(all, "request")}) == 2
    assert len({r["before"] for r in of(all, "token")}) == 12  # the same tokens, under two tenants' names
    raw = json.dumps(all)
    for word in ("zoe", "physics", "bob", "chemistry", "key-of"):
        assert word not in raw


def test_secrets_are_redacted(scripted, tmp_path):
    folder = str(tmp_path / "traces")
    patterns = tmp_path / "patterns"
    patterns.write_text("# keys\nsk-[a-z0-9]+\n")
    secret = "sk-abc123"
    server = scripted(replies=[{"match": "repeat", "text": "It is sk-abc123, I said, and nothing but that."}],
                      record={"folder": folder, "plain": True, "redact_file": str(patterns)})
    assert server.post("/v1/chat/completions", chat(f"repeat {secret} please")).status == 200
    server.terminate()
    all = records(folder)
    request = of(all, "request")[0]
    end = of(all, "end")[0]
    assert request["redacted"] == 2 * len(secret) and request["prompt"].count(-1) == len(secret)
    assert secret not in text_of(request["prompt"])
    tokens = of(all, "token")
    assert len(tokens) == end["tokens"] - end["redacted"] > 10
    for r in tokens:
        assert not set(text_of(r["last"] + [r["token"]])) & set("k123")  # letters that only the secret has


def test_nothing_without_being_asked(scripted, tmp_path):
    server = scripted(replies=[{"match": "Hi", "text": "Hello"}])
    assert server.post("/v1/chat/completions", chat("Hi", wane_kind="code")).status == 200
    assert server.metrics()["wane_trace_recording"] == 0
    assert not glob.glob(str(tmp_path / "**" / "*.jsonl*"), recursive=True)


def test_killed_server(scripted, tmp_path):
    """kill -9 in the middle of a reply: what was synced is there, and reading it is no error."""
    folder = str(tmp_path / "traces")
    server = scripted(record={"folder": folder}, replies=[{"match": "Hi", "text": "Hello"},
                                                          {"match": "slow", "text": "x" * 300, "delay_ms": 20}])
    assert server.post("/v1/chat/completions", chat("Hi")).status == 200
    eventually(lambda: server.metrics()['wane_trace_records_total{type="end"}'] == 1, what="a sync")
    stream = Stream(server, "/v1/chat/completions", chat("slow", stream=True))
    eventually(lambda: server.metrics()['wane_trace_records_total{type="token"}'] > 8, what="another sync")
    server.process.kill()
    server.process.wait()
    stream.close()
    server.process.returncode = 0  # it did not fail: it was killed
    result = subprocess.run([WANE, "trace", "stats", folder, "--json"], capture_output=True, text=True, check=True)
    stats = json.loads(result.stdout)
    assert stats["requests"] == 2 and stats["tokens"] > 8 and stats["ends"] == 1
    assert stats["bad_lines"] == 0 and stats["dropped_tokens"] == 0
