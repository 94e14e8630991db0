"""Alerts of a server on the scripted engine: what raises and clears them, whom they are told, and that nobody waits for that."""
import hashlib
import hmac
import http.server
import json
import os
import signal
import socket
import subprocess
import threading
import time

import pytest

from support import SCRIPT_SERVER, SLOW, chat, eventually

REPLY = "the tide comes in slowly"
SCRIPT = {"replies": [{"match": "sea", "text": REPLY}], "context": 256}


class Receiver:
    """A web hook on this machine: answers as it is told, the last answer again and again, and keeps what it got."""

    def __init__(self, *answers):
        receiver = self
        self.answers, self.got, self.lock = list(answers) or [200], [], threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                with receiver.lock:
                    answer = receiver.answers[min(len(receiver.got), len(receiver.answers) - 1)]
                    receiver.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                try:
                    answer(self) if callable(answer) else self.reply(answer)
                except OSError:
                    pass

            def do_GET(self):
                with receiver.lock:
                    receiver.got.append((self.path, {}, b"GET"))
                self.reply(200)

            def reply(self, status, **headers):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?token=its-secret"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def bodies(self):
        with self.lock:
            return [json.loads(body) for _, _, body in self.got if body != b"GET"]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver():
    made = []

    def make(*answers):
        made.append(Receiver(*answers))
        return made[-1]

    yield make
    for one in made:
        one.close()


def write_table(folder, name, wrong):
    path, script = folder / name, folder / "script.json"
    script.write_text(json.dumps(SCRIPT))
    subprocess.run([SCRIPT_SERVER, script, path, f"whole:{wrong}"], check=True)
    return path


def alerts_of(server, **more):
    reply = server.get("/v1/wane/alerts", **more)
    assert reply.status == 200, reply.body
    whole = reply.json()
    return {a["name"]: a for a in whole["alerts"]}, {f["name"]: f for f in whole["features"]}, whole["hooks"]


def say(server):
    reply = server.post("/v1/chat/completions", chat("sea"))
    assert reply.status == 200, reply.body
    return reply.json()["choices"][0]["message"]["content"]



# ------------------------------------------------------------------ a wrong table

def test_a_wrong_table_switches_itself_off(scripted, receiver, tmp_path):
    """The incident as far as it is this server's: wrong record, found in shadow, table off, told, back with another table."""
    hook = receiver()
    table = write_table(tmp_path, "t.slmt", 4)
    server = scripted(**SCRIPT, table=str(table), table_meaning="argmax", alerts={"url": hook.url, "retry_ms": 10})
    assert alerts_of(server)[0]["table_divergence"]["raised"] is False
    for i in range(1, 4):
        assert say(server) == REPLY  # whatever the table says
        alerts, features, _ = alerts_of(server)
        assert alerts["table_divergence"]["raised"] is True
        assert features["table"]["divergences"] == i and features["table"]["off"] is (i == 3)
    metrics = server.metrics()
    assert metrics['wane_alert{name="table_divergence"}'] == 1
    assert metrics['wane_alerts_total{name="table_divergence"}'] == 2  # when it began, and when it went off
    assert metrics['wane_divergences_total{feature="table"}'] == metrics["output_divergence_count"] == 3
    assert metrics['wane_feature_broken{feature="table"}'] == 1 and metrics["wane_table_on"] == 0
    looked_up = metrics['wane_table_records_total{source="context"}']
    assert say(server) == REPLY
    assert server.metrics()['wane_table_records_total{source="context"}'] == looked_up
    raised = eventually(lambda: len(hook.bodies()) == 2 and hook.bodies(), what="two messages")
    assert [b["state"] for b in raised] == ["raised", "raised"] and [b["sequence"] for b in raised] == [1, 2]
    assert "switched itself off after 3 divergences" in raised[1]["reason"] and "the model says token" in raised[1]["reason"]
    assert server.get("/ready").status == 200  # it serves, and rightly
    # The same file again is the same table. Another one takes its place.
    reply = server.post("/v1/wane/table/reload", {})
    assert reply.status == 200 and reply.json()["on"] is False
    right = write_table(tmp_path, "right.slmt", -1)
    os.replace(right, table)
    assert server.post("/v1/wane/table/reload", {}).json()["on"] is True
    alerts, features, _ = alerts_of(server)
    assert alerts["table_divergence"]["raised"] is False and features["table"]["off"] is False
    assert say(server) == REPLY
    assert server.metrics()['wane_table_tokens_total{grade="strict"}'] > 0
    cleared = eventually(lambda: len(hook.bodies()) == 3 and hook.bodies()[2], what="the third message")
    assert cleared["state"] == "cleared" and cleared["count"] == 2


def test_arming_is_an_operators(scripted, tmp_path):
    table = write_table(tmp_path, "t.slmt", 0)
    server = scripted(**SCRIPT, table=str(table), table_meaning="argmax", divergence_limit=1)
    say(server)
    assert alerts_of(server)[1]["table"]["off"] is True
    for body, words in [("", "JSON"), ("[]", "object"), ('{"feature": 3}', "3"), ('{"feature": "gate"}', "head, table, draft, memo"),
                        ("{}", "nothing"), ('{"feature": "table", "why": 1}', "only the field")]:
        reply = server.post("/v1/wane/alerts/arm", body)
        assert reply.status == 400 and words in reply.body.decode(), reply.body
    assert alerts_of(server)[1]["table"]["off"] is True
    reply = server.post("/v1/wane/alerts/arm", {"feature": "table"})
    assert reply.status == 200
    assert alerts_of(server)[1]["table"] == {"name": "table", "off": False, "checks": 1, "divergences": 1, "since_armed": 0,
                                             "limit": 1, "last": ""}
    assert alerts_of(server)[0]["table_divergence"]["raised"] is False
    say(server)
    assert alerts_of(server)[0]["table_divergence"]["raised"] is True
    assert server.get("/v1/wane/alerts/arm").status == 405 and server.post("/v1/wane/alerts", {}).status == 405


def test_the_memo_is_looked_at(scripted, tmp_path):
    """With --shadow 1 each token that the memo knows is computed, too; what a wrong one does stands in test_memo_replies.c."""
    memo = tmp_path / "m.memo"
    first = scripted(**SCRIPT, memo=1 << 20, memo_file=str(memo))
    say(first)
    assert first.terminate() == 0
    server = scripted(**SCRIPT, memo=1 << 20, memo_file=str(memo), shadow=1)
    assert say(server) == REPLY
    features = alerts_of(server)[1]
    assert features["memo"]["checks"] == len(REPLY) + 1 and features["memo"]["divergences"] == 0
    assert server.metrics()["wane_memo_hits_total"] == 0


# ------------------------------------------------------------------ reloading

def test_reload_failures(scripted, tmp_path):
    table = write_table(tmp_path, "t.slmt", -1)
    server = scripted(**SCRIPT, table=str(table), alerts={"reload_failures": 2})
    good = table.read_bytes()
    held = open(table, "rb")  # or its inode would be the next file's, and that one would look like it, written into
    for i in range(1, 4):
        other = tmp_path / f"bad{i}"
        other.write_bytes(good[:5000])
        os.replace(other, table)  # another file: the table in use stays
        assert server.post("/v1/wane/table/reload", {}).status == 500
        alerts = alerts_of(server)[0]
        assert alerts["table_reload"]["raised"] is (i >= 2)
    assert "3 times in a row" in alerts["table_reload"]["reason"] and alerts["table_reload"]["count"] == 1
    assert server.metrics()["wane_table_on"] == 1 and say(server) == REPLY
    held.close()
    back = tmp_path / "back"
    back.write_bytes(good)
    os.replace(back, table)
    assert server.post("/v1/wane/table/reload", {}).status == 200
    assert alerts_of(server)[0]["table_reload"]["raised"] is False
    # Its own file, written into: then there is no table, and that is said at once.
    with open(table, "r+b") as file:
        file.truncate(5000)
    assert server.post("/v1/wane/table/reload", {}).status == 500
    assert alerts_of(server)[0]["table_reload"]["raised"] is True and server.metrics()["wane_table_on"] == 0


# ------------------------------------------------------------------ a stuck decode

def test_stuck(scripted, receiver):
    hook = receiver()
    server = scripted(replies=[{"match": "slow", "text": "x", "delay_ms": 1500}, {"match": "", "text": "y"}],
                      watchdog_ms=50, alerts={"url": hook.url})
    done = threading.Thread(target=lambda: server.post("/v1/chat/completions", chat("slow", max_tokens=1)))
    done.start()
    reply = eventually(lambda: next((r for r in [server.get("/ready")] if r.status == 503), None), what="the watchdog")
    assert reply.json()["ready"] is False and "one engine call with 1 sequence has run for" in reply.json()["reason"]
    assert server.get("/health").status == 200
    metrics = server.metrics()
    assert metrics["wane_engine_stuck"] == metrics['wane_alert{name="stuck_decode"}'] == 1
    done.join()
    eventually(lambda: server.get("/ready").status == 200, what="to be ready again")
    assert alerts_of(server)[0]["stuck_decode"]["raised"] is False
    eventually(lambda: [b["state"] for b in hook.bodies() if b["name"] == "stuck_decode"] == ["raised", "cleared"], what="both messages")
    assert server.metrics()["wane_engine_stuck_total"] == 1


def test_a_stopped_process_is_not_stuck(scripted):
    """Stopped by a signal, as by a debugger, for longer than the bound: what stood still is not held against a call."""
    server = scripted(replies=[{"match": "slow", "text": "x", "delay_ms": 100}], watchdog_ms=150)
    done = threading.Thread(target=lambda: server.post("/v1/chat/completions", chat("slow", max_tokens=1)))
    done.start()
    eventually(lambda: server.metrics()["wane_slots_busy"] == 1, what="the request")
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(1.3)
    server.process.send_signal(signal.SIGCONT)
    done.join()
    assert server.metrics()["wane_engine_stuck_total"] == 0


# ------------------------------------------------------------------ hooks

def wrong_server(scripted, tmp_path, **more):
    """One request, and there is an alert."""
    table = write_table(tmp_path, "t.slmt", 0)
    return scripted(**SCRIPT, table=str(table), divergence_limit=1, **more)


def test_retries_and_signature(scripted, receiver, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"sixteen bytes or more\n")
    secret.chmod(0o600)
    hook = receiver(500, 429, lambda h: h.connection.shutdown(socket.SHUT_RDWR), 200)
    server = wrong_server(scripted, tmp_path, alerts={"url": hook.url, "secret_file": str(secret), "retry_ms": 10})
    say(server)
    metrics = eventually(lambda: next((m for m in [server.metrics()]
                                       if m['wane_alert_hooks_total{hook="url",result="delivered"}'] == 1), None), what="delivery")
    assert metrics['wane_alert_hooks_total{hook="url",result="retried"}'] == 3
    assert metrics['wane_alert_hooks_total{hook="url",result="failed"}'] == 0
    assert len(hook.got) == 4 and len({body for _, _, body in hook.got}) == 1  # the same message each time
    path, headers, body = hook.got[3]
    assert path == "/hook?token=its-secret" and headers["content-type"] == "application/json"
    when, mac = (part.split("=")[1] for part in headers["wane-signature"].split(","))
    assert abs(int(when) - time.time()) < 60 * SLOW
    assert mac == hmac.new(b"sixteen bytes or more", when.encode() + b"." + body, hashlib.sha256).hexdigest()
    message = json.loads(body)
    assert set(message) == {"schema", "sequence", "name", "state", "reason", "count", "at", "raised_at", "instance", "host",
                            "port", "model", "version"}
    assert message["schema"] == "wane.alert/1" and message["name"] == "table_divergence" and message["port"] == server.port
    # No secret of the operator's is shown anywhere.
    shown = open(server.log).read() + server.get("/v1/wane/alerts").body.decode() + server.get("/metrics").body.decode()
    assert "its-secret" not in shown and "sixteen" not in shown and "sea" not in body.decode()
    assert alerts_of(server)[2] == [{"hook": "url", "target": hook.url.split("/hook")[0], "waiting": 0, "delivered": 1,
                                     "retried": 3, "failed": 0, "dropped": 0}]


def test_redirections_are_not_followed(scripted, receiver, tmp_path):
    elsewhere = receiver(200)
    for target in (elsewhere.url, "file:///etc/passwd", "gopher://127.0.0.1/"):
        hook = receiver(lambda h: h.reply(302, location=target))
        server = wrong_server(scripted, tmp_path, alerts={"url": hook.url, "retry_ms": 10})
        say(server)
        eventually(lambda: server.metrics()['wane_alert_hooks_total{hook="url",result="failed"}'] == 1, what="giving up")
        assert len(hook.got) == 1 and elsewhere.got == []
        assert "redirections are not followed" in open(server.log).read()


def endless(handler):
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x" * 65536)


def silent(handler):
    time.sleep(3 * SLOW)


def test_huge_and_silent_replies(scripted, receiver, tmp_path):
    """A reply that does not end is cut off and was an answer; none at all is waited for only so long, and serving goes on."""
    hook = receiver(endless)
    server = wrong_server(scripted, tmp_path, alerts={"url": hook.url})
    say(server)
    eventually(lambda: server.metrics()['wane_alert_hooks_total{hook="url",result="delivered"}'] == 1, what="delivery")
    hook = receiver(silent)
    server = wrong_server(scripted, tmp_path, alerts={"url": hook.url, "timeout_ms": 200, "attempts": 2, "retry_ms": 10})
    say(server)
    assert say(server) == REPLY
    eventually(lambda: server.metrics()['wane_alert_hooks_total{hook="url",result="failed"}'] == 1, what="giving up")
    assert len(hook.got) == 2


def test_a_dead_hook_holds_nobody_up(scripted, tmp_path):
    with socket.socket() as dead:  # bound, but nobody listens
        dead.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{dead.getsockname()[1]}/"
        server = wrong_server(scripted, tmp_path, alerts={"url": url, "attempts": 20, "retry_ms": 600000})
        say(server)
        eventually(lambda: server.metrics()['wane_alert_hooks_total{hook="url",result="retried"}'] == 1, what="a retry")
        for _ in range(40):
            server.post("/v1/wane/alerts/arm", {"feature": "table"})
            assert say(server) == REPLY
        alerts, _, hooks = alerts_of(server)
        assert alerts["table_divergence"]["count"] == 41
        assert hooks[0]["waiting"] == 64 and hooks[0]["dropped"] == 81 - 64
        began = time.monotonic()
        assert server.terminate() == 0  # what waits does not keep it from ending
        assert time.monotonic() - began < 10 * SLOW


def test_command(scripted, tmp_path):
    said = tmp_path / "said"
    server = wrong_server(scripted, tmp_path, alerts={"command": f'echo "$WANE_ALERT $WANE_ALERT_STATE $WANE_ALERT_COUNT" >>{said}'})
    say(server)
    server.post("/v1/wane/alerts/arm", {"feature": "table"})
    eventually(lambda: said.exists() and said.read_text() == "table_divergence raised 1\ntable_divergence cleared 1\n", what="both lines")
    server = wrong_server(scripted, tmp_path, alerts={"command": "exit 3", "attempts": 3, "retry_ms": 10})
    say(server)
    eventually(lambda: server.metrics()['wane_alert_hooks_total{hook="command",result="failed"}'] == 1, what="giving up")
    assert server.metrics()['wane_alert_hooks_total{hook="command",result="retried"}'] == 2


def test_what_is_refused(scripted, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef")
    secret.chmod(0o644)
    for alerts, words in [({"url": "ftp://x/"}, "neither http nor https"), ({"url": "http://x y/"}, "blank"),
                          ({"url": "http://x/", "secret_file": str(secret)}, "chmod 600"),
                          ({"url": "http://x/", "secret_file": str(tmp_path / "none")}, "cannot be read"),
                          ({"secret_file": str(secret)}, "no URL"), ({"attempts": 0}, "1 to 20")]:
        with pytest.raises(RuntimeError) as error:
            scripted(**SCRIPT, alerts=alerts)
        assert words in str(error.value) and "0123456789abcdef" not in str(error.value)


def test_keys(scripted, tmp_path):
    keys = tmp_path / "keys"
    operator, app = "ops-key-0123456789", "app-key-0123456789"
    keys.write_text(f"ops main {operator} admin\napp main {app}\n")
    keys.chmod(0o600)
    server = scripted(**SCRIPT, key_file=str(keys))
    assert server.get("/v1/wane/alerts").status == 401
    for key, status in [(app, 403), (operator, 200)]:
        headers = {"authorization": f"Bearer {key}"}
        assert server.get("/v1/wane/alerts", headers=headers).status == 200
        assert server.post("/v1/wane/alerts/arm", {"feature": "head"}, headers=headers).status == status
