"""A server with a rollout: sides in headers, by user, key, line and request; steps through the route, the file and the command; the same
bytes on either side; repeated questions; two servers on one file."""
import json
import os
import subprocess
import threading

import anthropic
import openai
import pytest
from support import WANE, anthropic_stream, chat, eventually, messages, openai_stream, start_scripted

ROUTE = "/v1/wane/rollout"
TEXT = "one potato, two potato, three potato, four; " * 3
REPLIES = [{"match": "potato", "text": TEXT}, {"match": "hi", "text": "hello"}]
PLAN = {"hold": 0, "requests": 4, "wait": 3600,
        "features": {"memo": {"stages": [{"users": 0.5}, {"lines": ["sales"]}, {"all": True}], "bars": {"hit_rate": None}},
                     "draft": {"stages": [{"all": True}]}}}


@pytest.fixture
def rolling(scripted, tmp_path):
    """A function that starts a server with a plan; all of them use the same file."""
    path = tmp_path / "rollout.json"

    def start(plan=PLAN, **more):
        if plan is not None:
            path.write_text(json.dumps(plan))
        server = scripted(replies=REPLIES, memo=1 << 20, draft=True, rollout=str(path), **more)
        server.rollout_file = path
        return server

    return start


def do(server, action, feature=None, **more):
    body = {"do": action, **({"feature": feature} if feature else {})}
    return server.post(ROUTE, body, **more)


def state(server, **more):
    reply = server.get(ROUTE, **more)
    assert reply.status == 200, reply.body
    return reply.json()


def sides(reply):
    """The header as {feature: (side, stage)}."""
    found = {}
    for part in reply.headers["wane-rollout"].split(", "):
        words = part.split(";")
        feature, side = words[0].split("=")
        found[feature] = (side, words[1].split("=")[1])
    return found


def ask(server, user=None, headers=None, **more):
    reply = server.post("/v1/chat/completions", chat("hi", **({"user": user} if user else {}), **more), headers=headers)
    assert reply.status == 200 and reply.json()["choices"][0]["message"]["content"] == "hello"
    return reply


def test_sides(rolling):
    server = rolling({**PLAN, "auto": False})
    assert sides(ask(server, "u0")) == {"memo": ("off", "0"), "draft": ("off", "0")}
    assert do(server, "start", "memo").json()["features"]["memo"]["phase"] == "running"
    first = {f"u{i}": sides(ask(server, f"u{i}"))["memo"] for i in range(24)}
    assert {side for side, _ in first.values()} == {"on", "off"} and {stage for _, stage in first.values()} == {"1"}
    # The same user is on the same side through both APIs, whole and streamed.
    for user, side in list(first.items())[:8]:
        body = messages("hi", metadata={"user_id": user})
        assert sides(server.post("/v1/messages", body))["memo"] == side
        assert sides(server.post("/v1/chat/completions", chat("hi", user=user)))["memo"] == side
    off = next(user for user, side in first.items() if side[0] == "off")
    do(server, "advance", "memo")
    assert sides(ask(server, off))["memo"] == ("off", "2")
    assert sides(ask(server, off, wane_line="sales"))["memo"] == ("on", "2")
    assert sides(ask(server, off, headers={"wane-line": "sales"}))["memo"] == ("on", "2")
    assert sides(ask(server, off, headers={"wane-line": "sales"}, wane_line="other"))["memo"] == ("off", "2")
    m = server.metrics()
    on, without = (m[f'wane_rollout_requests_total{{feature="memo",side="{s}"}}'] for s in ("on", "off"))
    assert on + without == 1 + 24 + 16 + 4
    assert m['wane_rollout_stage{feature="memo"}'] == 2 and m['wane_rollout_stage{feature="draft"}'] == 0
    assert m['wane_rollout_phase{feature="memo",phase="running"}'] == 1
    assert m['wane_rollout_steps_total{feature="memo",direction="forward"}'] == 2
    assert 'wane_rollout_bar_limit{feature="memo",bar="hit_rate"}' not in m
    # Without a name a request stands for itself.
    assert {sides(ask(server))["memo"] for _ in range(30)} == {("on", "2"), ("off", "2")}


def test_what_a_side_means(rolling):
    """Without the memo nothing is repeated, without drafts none are made; the bytes are the same."""
    server = rolling({**PLAN, "auto": False})
    body = messages("potato", metadata={"user_id": "u"})

    def moved(expected):
        before = server.metrics()
        whole = server.post("/v1/messages", body).json()["content"][0]["text"]
        streamed = anthropic_stream(server, body)[1]
        chunks, done, _ = openai_stream(server, "/v1/chat/completions", chat("potato", user="u", max_tokens=200))
        assert done and "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"]) == TEXT
        assert whole == streamed == TEXT
        after = server.metrics()
        memo = after["wane_memo_hits_total"] + after["wane_memo_misses_total"] - before["wane_memo_hits_total"] - before["wane_memo_misses_total"]
        drafted = sum(v - before[k] for k, v in after.items() if k.startswith("wane_draft_proposed_total") or k == "wane_draft_rehearsals_total")
        assert (memo > 0, drafted > 0) == expected

    moved((False, False))
    do(server, "start", "draft")
    moved((False, True))
    for _ in range(3):
        do(server, "advance" if state(server)["features"]["memo"]["stage"] else "start", "memo")
    assert state(server)["features"]["memo"]["stage"] == 3
    before = server.metrics()
    assert server.post("/v1/messages", {**body, "wane_without": "memo,draft"}).json()["content"][0]["text"] == TEXT
    assert server.metrics()["wane_memo_misses_total"] == before["wane_memo_misses_total"]
    moved((True, True))
    assert server.post("/v1/messages", {**body, "wane_without": "gate"}).status == 400
    assert server.post("/v1/messages", {**body, "wane_without": ["memo"]}).status == 400


def test_by_itself(rolling):
    """Stages pass when their requests have been made and their bars hold; a bar that breaks takes the feature back."""
    server = rolling({"hold": 0, "requests": 3, "wait": 3600,
                      "features": {"draft": {"stages": [{"users": 1}, {"all": True}],
                                             "bars": {"hit_rate": 0.01, "divergence": None, "consistency_drop": None}}}})
    do(server, "start")
    for i in range(3):
        server.post("/v1/messages", messages("potato", metadata={"user_id": f"{i}"}, wane_memo=False))
    eventually(lambda: state(server)["features"]["draft"]["stage"] == 2, what="the second stage")
    bar = state(server)["features"]["draft"]["bars"]["hit_rate"]
    assert bar["bar"] == 0.01
    assert "table" not in state(server)["features"]
    saved = json.loads(server.rollout_file.read_text())
    assert saved["state"]["features"]["draft"]["phase"] in ("running", "done")
    for i in range(3):
        server.post("/v1/messages", messages("potato", metadata={"user_id": f"{i}"}, wane_memo=False))
    eventually(lambda: state(server)["features"]["draft"]["phase"] == "done", what="the end")
    assert sides(ask(server, "x"))["draft"] == ("on", "done")


def test_file_and_restart(rolling):
    server = rolling({**PLAN, "auto": False})
    do(server, "start", "memo")
    side = sides(ask(server, "someone"))["memo"]
    # Somebody at a terminal, while the server runs.
    run = subprocess.run([WANE, "rollout", "start", "draft", "--rollout", str(server.rollout_file)], capture_output=True, text=True)
    assert run.returncode == 0 and "draft     running" in run.stdout
    eventually(lambda: sides(ask(server, "someone"))["draft"][0] == "on", what="a step from the file")
    assert server.terminate() == 0
    saved = json.loads(server.rollout_file.read_text())
    assert saved["state"]["features"]["memo"]["phase"] == "running"
    assert sum(saved["state"]["features"]["memo"]["seen"][k] for k in ("requests_on", "requests_off")) >= 1
    again = rolling(plan=None)
    assert sides(ask(again, "someone"))["memo"] == side
    other = rolling(plan=None)  # a second server on the same file
    assert sides(ask(other, "someone"))["memo"] == side
    do(other, "abort", "memo")
    eventually(lambda: sides(ask(again, "someone"))["memo"] == ("off", "aborted"), what="the other server's step")


def test_killed(rolling):
    """kill -9 at any moment leaves a whole file."""
    for i in range(4):
        server = rolling(plan=PLAN if i == 0 else None)
        if i == 0:
            do(server, "start")
        stop = threading.Event()

        def load():
            while not stop.is_set():
                try:
                    do(server, "back", "memo")
                    do(server, "start", "memo")
                except OSError:
                    return

        thread = threading.Thread(target=load)
        thread.start()
        threading.Event().wait(0.05 + 0.07 * i)
        server.process.kill()
        server.process.wait()
        stop.set()
        thread.join()
        saved = json.loads(server.rollout_file.read_text())
        assert saved["state"]["features"]["memo"]["phase"] in ("running", "back")
        server.terminate = lambda timeout=20: 0  # it was meant to end like that


def test_rights_and_wrong_orders(rolling, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("ops staff admin-key-1234 admin\nada physics plain-key-1234\n")
    keys.chmod(0o600)
    server = rolling(key_file=str(keys))
    admin, plain = {"x-api-key": "admin-key-1234"}, {"x-api-key": "plain-key-1234"}
    assert server.get(ROUTE).status == 401
    assert server.get(ROUTE, headers=plain).status == 403
    assert do(server, "start", headers=plain).status == 403
    assert do(server, "start", headers=admin).status == 200
    for body, word in (({"do": "jump"}, "do"), ({}, "do"), ({"do": "start", "feature": "heap"}, "feature"), ({"do": "start", "now": 1}, "now"),
                       ({"do": "start"}, "already"), ({"do": "back", "feature": "table"}, "does not name")):
        reply = server.post(ROUTE, body, headers=admin)
        assert reply.status == 400 and word in reply.json()["error"]["message"], reply.body
    assert server.post(ROUTE, "[", headers=admin).status == 400
    # By key where the request names nobody.
    assert len({sides(ask(server, headers=plain))["memo"] for _ in range(8)}) == 1
    run = subprocess.run([WANE, "rollout", "back", "draft", "--url", server.url, "--key", "admin-key-1234", "--json"], capture_output=True, text=True)
    assert run.returncode == 0 and json.loads(run.stdout)["features"]["draft"]["phase"] == "back", run.stderr
    run = subprocess.run([WANE, "rollout", "status", "--url", server.url], capture_output=True, text=True)
    assert run.returncode == 1 and "401" in run.stderr
    run = subprocess.run([WANE, "rollout", "back", "draft", "--url", server.url], capture_output=True, text=True, env={**os.environ, "WANE_KEY": "admin-key-1234"})
    assert run.returncode == 2 and "nobody has it" in run.stderr


def test_no_rollout(scripted, tmp_path):
    server = scripted(replies=REPLIES)
    assert server.get(ROUTE).status == 404 and do(server, "start").status == 404
    assert server.request("PUT", ROUTE).status == 405
    assert "wane-rollout" not in ask(server, "u").headers
    m = server.metrics()
    assert m['wane_feature_switched_off{feature="head"}'] == 0
    assert m['wane_consistency_repeat_score_count{side="on"}'] == 0
    assert not [name for name in m if name.startswith("wane_rollout_")]
    with pytest.raises(RuntimeError, match="rollout"):
        start_scripted(str(tmp_path), "none", rollout=str(tmp_path / "nowhere.json"))
    (tmp_path / "bad.json").write_text('{"features":{"memo":{"bar":1}}}')
    with pytest.raises(RuntimeError, match="no such field"):
        start_scripted(str(tmp_path), "bad", rollout=str(tmp_path / "bad.json"))


def test_file_cannot_be_written(rolling, tmp_path):
    """What is in force stays in force, and says that it is not kept."""
    server = rolling({**PLAN, "auto": False})
    do(server, "start")
    server.rollout_file.write_text("{")
    reply = do(server, "abort", "draft").json()
    assert reply["kept"] is False and "JSON" in reply["trouble"]
    assert sides(ask(server, "u"))["draft"] == ("off", "aborted")
    m = server.metrics()
    assert m["wane_rollout_kept"] == 0 and m["wane_rollout_save_failures_total"] >= 1
    server.rollout_file.unlink()
    eventually(lambda: server.metrics()["wane_rollout_kept"] == 1, what="a file again")
    assert json.loads(server.rollout_file.read_text())["state"]["features"]["draft"]["phase"] == "aborted"


def test_repeated_questions(rolling):
    server = rolling({**PLAN, "auto": False})
    do(server, "start", "draft")

    def again(earlier, api):
        turns = [("user", "hi"), ("assistant", earlier), ("user", "thanks"), ("assistant", "yes"), ("user", "Hi!")]
        body = {"messages": [{"role": role, "content": text} for role, text in turns], "max_tokens": 50}
        if api == "stream":
            anthropic_stream(server, {"model": "default", **body})
        else:
            assert server.post(api, {"model": "default", **body}).status == 200

    server_text = ask(server).json()["choices"][0]["message"]["content"]
    for api in ("/v1/messages", "/v1/chat/completions", "stream"):
        again(server_text, api)
        again("Hello", api)
        again("something else", api)
    # "Hi!" is not what the script matches, so that all of these answers are of the engine's own language, and alike or not by the rule.
    m = server.metrics()
    assert m['wane_consistency_repeat_score_count{side="off"}'] == 9  # the memo is off for all of them
    assert m['wane_consistency_repeat_score_count{side="on"}'] == 0
    assert 0 <= m['wane_consistency_repeat_score_sum{side="off"}'] <= 9
    seen = json.loads(server.rollout_file.read_text()) if server.terminate() == 0 else None
    assert seen["state"]["features"]["draft"]["seen"]["repeats_on"] == 9
    assert seen["state"]["features"]["memo"]["seen"]["repeats_off"] == 9


def test_real_clients(rolling):
    server = rolling({**PLAN, "auto": False})
    do(server, "start", "draft")
    with openai.OpenAI(base_url=server.url + "/v1", api_key="any", max_retries=0) as client:
        raw = client.chat.completions.with_raw_response.create(model="default", messages=[{"role": "user", "content": "potato"}], user="u7",
                                                               extra_body={"wane_line": "sales"}, max_tokens=200)
        assert "draft=on;stage=1" in raw.headers["wane-rollout"] and raw.parse().choices[0].message.content == TEXT
    with anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0) as client:
        raw = client.messages.with_raw_response.create(model="default", max_tokens=200, messages=[{"role": "user", "content": "potato"}],
                                                       metadata={"user_id": "u7"})
        assert "draft=on;stage=1" in raw.headers["wane-rollout"] and raw.parse().content[0].text == TEXT
        plain = client.messages.create(model="default", max_tokens=200, messages=[{"role": "user", "content": "potato"}],
                                       extra_body={"wane_without": "all"})
        assert plain.content[0].text == TEXT


def test_the_same_without_shortcuts(real):
    """The model's own words, through both clients: with everything, and without head, table, drafts and memo."""
    question = [{"role": "user", "content": "Name three colours."}]
    with openai.OpenAI(base_url=real.url + "/v1", api_key="any", max_retries=0) as client:
        texts = {client.chat.completions.create(model="default", messages=question, max_tokens=12, temperature=0, extra_body=more)
                 .choices[0].message.content for more in ({}, {"wane_without": "head"}, {"wane_without": "head,table,draft,memo"})}
    with anthropic.Anthropic(base_url=real.url, api_key="any", max_retries=0) as client:
        texts.add(client.messages.create(model="default", messages=question, max_tokens=12,
                                         extra_body={"temperature": 0, "wane_without": "all"}).content[0].text)
    assert len(texts) == 1 and texts.pop().strip()
