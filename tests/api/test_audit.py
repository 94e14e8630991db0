"""The audit log of a real server: which requests are in it and what it says of them, a chain that others can check, and what is left after kill -9."""
import hashlib
import json
import signal
import sqlite3
import subprocess
import threading
import time

import pytest

from support import SCRIPT_SERVER, WANE, Stream, anthropic_stream, chat, eventually, messages, openai_stream, start_scripted

HI = {"match": "hi", "text": "hello there"}
LONG = {"match": "long", "text": "abcdefghij" * 40, "delay_ms": 5}
SLMT = {"match": "", "text": "hello"}


def wane(*arguments):
    return subprocess.run([WANE, "audit", *map(str, arguments)], capture_output=True, text=True, timeout=60)


def records(path, *arguments):
    result = wane("export", *arguments, path)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def requests(path, count, *arguments):
    """Its request records, when there are so many: they are written a moment after the reply."""
    return eventually(lambda: next((found for found in [records(path, "--event", "request", *arguments)] if len(found) >= count), None),
                      what=f"{count} records")


def verify(path, *arguments):
    result = wane("verify", "--json", *arguments, path)
    return result.returncode, json.loads(result.stdout) if result.stdout else result.stderr


def chain(path, key=b""):
    """docs/audit.md's formula, in another language: the number of records whose chain is right."""
    base = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    rows = base.execute("SELECT * FROM audit ORDER BY seq").fetchall()
    base.close()
    head = bytes(32)
    for row in rows:
        *fields, before, digest = row
        hasher = hashlib.blake2b(digest_size=32, key=key)
        hasher.update(b"wane-audit-1" + before)
        for value in fields:
            if value is None:
                hasher.update(b"-")
            elif isinstance(value, int):
                hasher.update(b"#" + value.to_bytes(8, "little", signed=True))
            else:
                text = value.encode()
                hasher.update(b'"' + len(text).to_bytes(8, "little") + text)
        assert before == head and digest == hasher.digest(), row[0]
        head = digest
    return len(rows)


def test_both_apis(scripted, tmp_path):
    log = tmp_path / "log"
    key = "a-long-random-string"
    keys = tmp_path / "keys"
    keys.write_text(f"ada physics {key}\n")
    keys.chmod(0o600)
    server = scripted(sequences=2, replies=[HI, LONG], key_file=str(keys), audit={"file": str(log)})
    auth = {"x-api-key": key}
    reply = server.post("/v1/messages", messages("hi"), headers=auth)
    anthropic_stream(server, messages("hi"), auth)
    openai_stream(server, "/v1/chat/completions", chat("hi", max_tokens=3), auth)
    server.post("/v1/completions", {"prompt": "hi", "stop": "lo"}, headers=auth)
    server.post("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "hi"}]}, headers=auth)
    assert server.post("/v1/chat/completions", chat("hi", top_p=-1), headers=auth).status == 400
    assert server.post("/v1/messages", messages("hi")).status == 401  # nobody's: there is nobody to name
    assert server.post("/v1/messages", messages("x" * 5000), headers=auth).status == 400
    found = requests(log, 6)
    assert [(r["api"], r["finish"], r["status"]) for r in found] == [
        ("messages", "end", 200), ("messages", "end", 200), ("chat", "length", 200), ("completions", "stop", 200),
        ("chat", "refused", 400), ("messages", "refused", 400)]
    first = found[0]
    assert first["request"] == reply.headers["request-id"] and first["reply"] == reply.json()["id"]
    assert (first["key"], first["tenant"], first["mode"]) == ("ada", "physics", "off")
    usage = reply.json()["usage"]
    assert (first["prompt_tokens"], first["reply_tokens"]) == (usage["input_tokens"], usage["output_tokens"])
    assert sum(first["origin"].values()) == usage["output_tokens"]
    assert found[4]["detail"] == {"problem": "invalid", "field": "top_p"}
    text = log.read_bytes() + (tmp_path / "log-wal").read_bytes()
    assert key.encode() not in text and b"hello" not in text and b"user: hi" not in text  # no key, no text
    m = server.metrics(auth)
    assert m["wane_audit_on"] == 1 and m["wane_audit_ok"] == 1 and m["wane_audit_dropped_total"] == 0
    assert m["wane_audit_records_total"] == 7  # with the start
    assert server.terminate() == 0
    code, verdict = verify(log)
    assert code == 0 and verdict["whole"] and verdict["ended"] and verdict["requests"] == 6
    assert chain(str(log)) == 9
    assert records(log, "--request", first["reply"]) == [first]
    assert [r["event"] for r in records(log)] == ["open", "start"] + 6 * ["request"] + ["stop"]


def test_left_failed_and_timed_out(scripted, tmp_path):
    log = tmp_path / "log"
    broken = {"match": "broken", "text": "abcdef", "fail_at": 2}
    server = scripted(sequences=2, window_ms=1, replies=[broken, LONG, HI], audit={"file": str(log)})
    stream = Stream(server, "/v1/messages", messages("long", stream=True))
    stream.read_headers()
    next(event for event in stream.events() if event[0] == "content_block_delta")
    stream.close()
    server.idle()
    server.post("/v1/messages", messages("broken"))
    server.post("/v1/messages", messages("long"), headers={"X-Claude-Timeout": "200"})
    left, failed, late = requests(log, 3)
    assert (left["finish"], left["status"]) == ("cancelled", 499) and 0 < left["reply_tokens"] < 400
    assert (failed["finish"], failed["status"]) == ("failed", 500) and failed["detail"]["code"] == "WANE_EENGINE"
    assert (late["finish"], late["status"]) == ("timeout", 504)


def test_texts_key_and_chain(scripted, tmp_path):
    log, key = tmp_path / "log", tmp_path / "key"
    key.write_text("00112233445566778899aabbccddeeff" * 2 + "\n")
    key.chmod(0o600)
    server = scripted(replies=[HI, {"match": "big", "text": "é" * 100}],
                      audit={"file": str(log), "key_file": str(key), "text": True}, context=70000)
    server.post("/v1/messages", messages("hi", system="Be kind."))
    server.post("/v1/messages", messages("big" + "é" * 33000))
    first, second = requests(log, 2)
    assert first["prompt"].endswith("user: hi") and "Be kind." in first["prompt"] and first["text"] == "hello there"
    assert len(second["prompt"].encode()) <= 65536 and second["detail"]["prompt_cut"] is True
    assert server.terminate() == 0
    assert verify(log)[0] != 0  # it is keyed
    code, verdict = verify(log, "--audit-key", key)
    assert code == 0 and verdict["keyed"]
    assert chain(str(log), bytes.fromhex("00112233445566778899aabbccddeeff" * 2)) == 5


def test_votes_and_policy(scripted, tmp_path):
    log = tmp_path / "log"
    server = scripted(sequences=3, quality={"mode": "off", "answers": 3, "doubt_budget": 0}, request_modes=["wane", "legacy"],
                      prompt_share=0, replies=[HI], audit={"file": str(log)})
    server.post("/v1/messages", messages("hi", sfcl_mode="legacy"))
    server.post("/v1/messages", messages("hi", system="SSP:domain=legal;confidence=high"))
    legacy, ssp = requests(log, 2)
    assert legacy["mode"] == "legacy" and legacy["vote"]["answers"] == 3 and legacy["wakes"] == {"always": 1}
    assert sum(legacy["origin"].values()) == 3 * legacy["reply_tokens"]  # all three answers are the request's
    assert ssp["mode"] == "wane" and ssp["policy"]["ssp"] == {"domain": "legal", "confidence": "high"}


def test_a_table(scripted, tmp_path):
    """Which requests a table had a hand in, and when it was exchanged."""
    log, table = tmp_path / "log", tmp_path / "t.slmt"
    setup = {"replies": [SLMT], "table": str(table), "audit": {"file": str(log)}}
    config = tmp_path / "make.json"
    config.write_text(json.dumps({"replies": [SLMT]}))
    subprocess.run([SCRIPT_SERVER, str(config), str(table), "300"], check=True, timeout=60)
    server = scripted(**setup)
    server.post("/v1/messages", messages("hi"))
    subprocess.run([SCRIPT_SERVER, str(config), str(table), "200"], check=True, timeout=60)
    assert server.post("/v1/wane/table/reload", "").status == 200
    exchanged = eventually(lambda: records(log, "--event", "table"), what="the table's record")[0]
    start = records(log, "--event", "start")[0]
    assert start["slmt_table"] != exchanged["slmt_table"] and exchanged["detail"]["reloads"] == 1
    assert len(exchanged["slmt_table"]) == 64


def test_a_rollout(scripted, tmp_path):
    """Which side a request was on, what it had, and each step."""
    log, plan = tmp_path / "log", tmp_path / "rollout.json"
    plan.write_text(json.dumps({"hold": 0, "requests": 4, "wait": 3600, "auto": False,
                                "features": {"memo": {"stages": [{"users": 0.5}, {"all": True}], "bars": {"hit_rate": None}}}}))
    server = scripted(replies=[HI], memo=1 << 20, rollout=str(plan), audit={"file": str(log)})
    assert server.post("/v1/wane/rollout", {"do": "start", "feature": "memo"}).status == 200
    headers = [server.post("/v1/chat/completions", chat("hi", user=f"u{i}")).headers["wane-rollout"] for i in range(12)]
    found = requests(log, 12)
    assert [r["features"]["rollout"] for r in found] == headers
    assert {("memo" in r["features"]["on"]) for r in found} == {True, False}
    assert all(("memo" in r["features"]["on"]) == header.startswith("memo=on") for r, header in zip(found, headers, strict=True))
    step = eventually(lambda: records(log, "--event", "rollout"), what="the step's record")[0]
    assert step["detail"]["feature"] == "memo" and step["detail"]["step"] == "forward"


def load(server, seconds, count):
    """Clients that ask until the server is gone; the ids of whole replies that they got."""
    got, lock = [], threading.Lock()

    def ask():
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                reply = server.post("/v1/messages", messages("hi"))
            except OSError:
                return
            except Exception:  # noqa: BLE001 - half a reply: the server was killed meanwhile
                return
            if reply.status == 200:
                with lock:
                    got.append(reply.json()["id"])

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads, got


def test_kill_under_load(scripted, tmp_path):
    """kill -9: nothing half-written, and each reply that somebody got is a record or is counted as missing."""
    log = tmp_path / "log"
    setup = {"sequences": 4, "window_ms": 1, "replies": [{**HI, "delay_ms": 1}], "audit": {"file": str(log)}}
    got = []
    for _ in range(3):
        server = start_scripted(str(tmp_path), "killed", **setup)
        threads, replies = load(server, 10, 4)
        eventually(lambda: len(replies) >= 20, seconds=20, what="twenty replies")
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        server.process.stdout.close()
        for thread in threads:
            thread.join()
        code, verdict = verify(log)
        assert code == 0 and verdict["whole"] and not verdict["ended"], verdict
        got += replies
    server = scripted(**setup)
    server.post("/v1/messages", messages("hi"))
    assert server.terminate() == 0
    code, verdict = verify(log)
    assert code == 0 and verdict["ended"] and verdict["gaps_unknown"] == 0, verdict
    named = {r["reply"] for r in records(log, "--event", "request")}
    missing = [one for one in got if one not in named]
    assert len(missing) <= verdict["lost"], (len(missing), verdict)
    assert chain(str(log)) == verdict["records"]


@pytest.mark.parametrize("failure", ["serve", "stop"])
def test_locked(scripted, tmp_path, failure):
    """Somebody holds the file: served on, or refused in words until it is free; nothing is lost either way."""
    log = tmp_path / "log"
    server = scripted(replies=[HI], audit={"file": str(log), "failure": failure})
    server.post("/v1/messages", messages("hi"))
    requests(log, 1)
    rude = sqlite3.connect(log, isolation_level=None)
    rude.execute("BEGIN IMMEDIATE")
    assert server.post("/v1/messages", messages("hi")).status == 200  # nobody knows yet
    eventually(lambda: server.metrics()["wane_audit_ok"] == 0, seconds=10, what="a failed write")
    reply, ready = server.post("/v1/messages", messages("hi")), server.get("/ready")
    openai = server.post("/v1/chat/completions", chat("hi"))
    if failure == "serve":
        assert (reply.status, openai.status, ready.status) == (200, 200, 200)
    else:
        assert reply.status == 503 and "audit log" in reply.json()["error"]["message"] and "locked" in reply.json()["error"]["message"]
        assert openai.status == 503 and openai.json()["error"]["code"] == "audit_unavailable"
        assert ready.status == 503 and "audit" in ready.json()["reason"]
    rude.execute("ROLLBACK")
    rude.close()
    eventually(lambda: server.metrics()["wane_audit_ok"] == 1, seconds=10, what="a write")
    assert server.post("/v1/messages", messages("hi")).status == 200
    assert server.get("/ready").status == 200
    assert server.terminate() == 0
    code, verdict = verify(log)
    assert code == 0 and verdict["gaps"] == 0
    assert verdict["requests"] == (5 if failure == "serve" else 3)


def test_follow(scripted, tmp_path):
    """tail --follow prints what is written while it looks on, and ends by Ctrl-C."""
    log = tmp_path / "log"
    server = scripted(replies=[HI], audit={"file": str(log)})
    tail = subprocess.Popen([WANE, "audit", "tail", "--follow", "--event", "request", "--json", str(log)], stdout=subprocess.PIPE, text=True)
    for _ in range(2):
        reply = server.post("/v1/messages", messages("hi"))
        assert json.loads(tail.stdout.readline())["reply"] == reply.json()["id"]
    tail.send_signal(signal.SIGINT)
    assert tail.wait(timeout=60) == 130
    tail.stdout.close()


def test_not_started(tmp_path):
    """A file that is something else, or another's: the server does not begin."""
    diary = tmp_path / "diary"
    diary.write_text("dear diary\n" * 100)
    with pytest.raises(RuntimeError, match="no audit log"):
        start_scripted(str(tmp_path), "diary", replies=[HI], audit={"file": str(diary)})
    with pytest.raises(RuntimeError, match="audit log"):
        start_scripted(str(tmp_path), "nowhere", replies=[HI], audit={"file": str(tmp_path / "no" / "log")})
