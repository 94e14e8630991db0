"""A server with a table: started with one, exchanged while it runs, cut under it; signed and unsigned."""
import os
import signal
import subprocess

import pytest
from support import SCRIPT_SERVER, WANE, eventually, messages, together

RELOAD = "/v1/wane/table/reload"
HI = {"match": "hi", "text": "hello"}
LONG = {"match": "long", "text": "abcdefghijklmnopqrstuvwxyz" * 4, "delay_ms": 5}


@pytest.fixture
def table(tmp_path):
    """A function that writes a table for the scripted engine under a name, beside and then in place of what is there."""
    setup = tmp_path / "table.json"
    setup.write_text("{}")

    def write(entries, name="t.slmt"):
        path = tmp_path / name
        subprocess.run([SCRIPT_SERVER, str(setup), str(path), str(entries)], check=True)
        return str(path)

    return write


def digest(server):
    names = [name for name in server.metrics() if name.startswith("wane_table_info{")]
    return names[0].split('"')[1] if names else None


def state(server):
    m = server.metrics()
    return m["wane_table_on"], m["wane_table_entries"]


def answers(server):
    reply = server.post("/v1/messages", messages("hi"))
    assert reply.status == 200 and reply.json()["content"][0]["text"] == "hello"


def test_start_with_a_table(scripted, table):
    server = scripted(table=table(300), replies=[HI])
    assert state(server) == (1, 300)
    assert len(digest(server)) == 64
    answers(server)
    m = server.metrics()
    looked = sum(m[f'wane_table_tokens_total{{grade="{g}"}}'] for g in ("strict", "rank", "miss", "absent"))
    assert looked == 6  # five letters and the end of the turn
    name = server.get("/v1/models").json()["data"][0]["id"]
    for grade in ("strict", "rank"):
        hits = m[f'slmt_hit_total{{model="{name}",grade="{grade}"}}']
        assert hits == m[f'wane_table_tokens_total{{grade="{grade}"}}']
    server.log_text = open(server.log).read()
    assert "300 entries" in server.log_text


def test_a_bad_table_is_no_start(scripted, table, tmp_path):
    path = table(300)
    data = open(path, "rb").read()
    for bad, words in ((data[:-1], "cut short"), (data[:5000] + b"!" + data[5001:], "checksum"), (b"x" * 9000, "not a table")):
        open(path, "wb").write(bad)
        with pytest.raises(RuntimeError, match=words):
            scripted(table=path, replies=[HI])


def test_reload_by_call(scripted, table):
    server = scripted(table=table(300), replies=[HI])
    before = digest(server)
    table(301)
    assert state(server) == (1, 300)  # nobody watches
    reply = server.post(RELOAD, "")
    assert reply.status == 200
    said = reply.json()
    assert said["on"] and said["entries"] == 301 and said["digest"] != before and not said["verified"]
    assert digest(server) == said["digest"]
    assert server.get(RELOAD).status == 405
    assert server.metrics()["wane_table_reloads_total"] == 1
    answers(server)


def test_reload_without_a_table(scripted):
    server = scripted(replies=[HI])
    reply = server.post(RELOAD, "{}")
    assert reply.status == 400 and "--table" in reply.json()["error"]["message"]
    assert server.metrics()["wane_table_on"] == 0
    answers(server)


def test_reload_needs_a_key_with_the_right(scripted, table, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("ada physics secret-key-of-ada admin\nbob physics secret-key-of-bob\n")
    keys.chmod(0o600)
    server = scripted(table=table(300), key_file=str(keys), replies=[HI])
    ada, bob = {"x-api-key": "secret-key-of-ada"}, {"x-api-key": "secret-key-of-bob"}
    table(301)
    assert server.post(RELOAD, "").status == 401
    assert server.post(RELOAD, "", headers={"x-api-key": "wrong"}).status == 401
    reply = server.post(RELOAD, "", headers=bob)
    assert reply.status == 403 and "\"bob\" may not" in reply.json()["error"]["message"]
    assert reply.json()["error"]["code"] == "admin_key_needed"
    reply = server.post(RELOAD, "", headers={**bob, "anthropic-version": "2023-06-01"})
    assert reply.status == 403 and reply.json()["error"]["type"] == "permission_error"
    assert server.metrics(ada)["wane_table_entries"] == 300
    assert server.post("/v1/messages", messages("hi"), headers=bob).status == 200
    assert server.post(RELOAD, "", headers=ada).status == 200
    assert server.metrics(bob)["wane_table_entries"] == 301


def test_reload_on_an_open_server(scripted, table):
    """Whoever can reach it would be its operator."""
    server = scripted(table=table(300), host="0.0.0.0", open=True, replies=[HI])
    reply = server.post(RELOAD, "")
    assert reply.status == 403 and "--key-file" in reply.json()["error"]["message"]
    answers(server)


def test_reload_by_signal(scripted, table):
    server = scripted(table=table(300), replies=[HI])
    table(302)
    server.process.send_signal(signal.SIGHUP)
    eventually(lambda: state(server) == (1, 302), what="the reload")
    answers(server)


def test_reload_by_change(scripted, table):
    server = scripted(table=table(300), table_poll_ms=20, replies=[HI])
    for entries in (303, 304):
        table(entries)
        eventually(lambda: state(server) == (1, entries), what="the reload")
    answers(server)


def test_bad_replacement(scripted, table, tmp_path):
    """Another file under the name: the old table was in order, and stays."""
    path = table(300)
    server = scripted(table=path, replies=[HI])
    bad = tmp_path / "bad"
    bad.write_bytes(open(path, "rb").read()[:6000])
    os.rename(bad, path)
    reply = server.post(RELOAD, "")
    assert reply.status == 500
    assert "stays in use" in reply.json()["error"]["message"] and "cut short" in reply.json()["error"]["message"]
    assert state(server) == (1, 300)
    assert server.metrics()["wane_table_reload_failures_total"] == 1
    answers(server)


@pytest.mark.parametrize("size", [0, 100, 4096, 5000, 20000])
def test_cut_while_running(scripted, table, size):
    """In the middle of replies: the daemon lives, the table goes off, the replies are what they were."""
    path = table(1000)
    server = scripted(table=path, table_poll_ms=10, sequences=4, replies=[HI, LONG])

    def cut():
        eventually(lambda: server.metrics()["wane_slots_busy"] > 0)
        os.truncate(path, size)
        return None

    jobs = [lambda: server.post("/v1/messages", messages("long", max_tokens=400)) for _ in range(3)] + [cut]
    for reply in together(jobs)[:3]:
        assert reply.status == 200 and reply.json()["content"][0]["text"] == LONG["text"]
    eventually(lambda: server.metrics()["wane_table_on"] == 0, what="the table's end")
    assert digest(server) is None
    assert "turned off" in open(server.log).read()
    answers(server)
    table(305)
    eventually(lambda: state(server) == (1, 305), what="the table's return")


def test_signed(scripted, table, tmp_path):
    if not os.path.exists(WANE):
        pytest.skip(f"no {WANE}: build first")
    path, key = table(300), str(tmp_path / "key")

    def sign():
        subprocess.run([WANE, "table", "sign", "--key", key, path], check=True, stdout=subprocess.DEVNULL)

    subprocess.run([WANE, "key", "new", "--out", key], check=True, stdout=subprocess.DEVNULL)
    with pytest.raises(RuntimeError, match="not signed"):
        scripted(table=path, table_key=key + ".pub", replies=[HI])
    sign()
    server = scripted(table=path, table_key=key + ".pub", replies=[HI])
    assert any(name.endswith('verified="yes"}') for name in server.metrics() if name.startswith("wane_table_info"))
    table(306)
    reply = server.post(RELOAD, "")
    assert reply.status == 500 and "altered" in reply.json()["error"]["message"]
    assert state(server) == (1, 300)
    sign()
    assert server.post(RELOAD, "").json()["verified"]
    assert state(server) == (1, 306)
