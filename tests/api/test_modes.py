"""What a request may ask for and what it gets: modes, domains, and what a reader sees of a vote; on the scripted engine."""
import json
import os

import pytest
from support import Stream, anthropic_stream, chat, eventually, messages, openai_stream, start_scripted, vote_seed, wakes

# Four letters of like chances: another seed, another answer.
EVEN = {"match": "", "tokens": [], "end": False, "logits": {str(ord(c)): 20 for c in "abcd"}}
SLOW = {**EVEN, "match": "slow", "delay_ms": 20}
# Corrections of tokens off: what is drawn is what mode off draws.
PLAIN = {"token_vote": False, "dialogue_slope": 0, "clamp": 0}
MODES = ("off", "legacy", "wane")
LENGTH = 16
CHAT, TEXT, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/messages"


def ask(server, path=CHAT, headers=None, **more):
    """One reply that is not streamed, hot and short."""
    body = {"temperature": 1, "max_tokens": LENGTH, **more}
    if path == TEXT:
        body = {"prompt": "tell", **body}
    elif path == CHAT:
        body = chat("tell", **body)
    else:
        body = messages("tell", **body)
    return server.post(path, body, headers=headers)


def text_of(reply):
    value = reply.json()
    assert reply.status == 200, value
    if "content" in value:
        return value["content"][0]["text"]
    choice = value["choices"][0]
    return choice["text"] if "text" in choice else choice["message"]["content"]


def vote_of(reply):
    assert reply.status == 200, reply.body
    return reply.json().get("wane", {}).get("vote")


def apart(a, b):
    """Edit distance of two texts over the longer one's length."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1] / max(len(a), len(b))


def foresee(server, seed):
    """The three answers by themselves, and the one that is closest to the others."""
    seeds = [seed, vote_seed(seed, 1), vote_seed(seed, 2)]
    texts = [text_of(ask(server, seed=s, sfcl_mode="off")) for s in seeds]
    sums = [sum(apart(texts[i], texts[j]) for j in range(3)) for i in range(3)]
    return texts, sums.index(min(sums))


# ------------------------------------------------------------------------- modes

@pytest.mark.parametrize("allowed", [[], ["wane"], list(MODES)])
@pytest.mark.parametrize("own", MODES)
def test_which_modes_a_request_may_ask_for(scripted, allowed, own):
    server = scripted(replies=[EVEN], quality={"mode": own}, request_modes=allowed)
    for path in (CHAT, TEXT, MESSAGES):
        for mode in MODES:
            for more in ({"sfcl_mode": mode}, {"headers": {"wane-mode": mode}}):
                reply = ask(server, path, **more)
                if mode in allowed or mode == own:  # what the request gets anyway, it may say
                    assert (vote_of(reply) is not None) == (mode != "off"), (path, mode)
                    continue
                error = reply.json()["error"]
                assert reply.status == 400 and "sfcl_mode" in error["message"] and mode in error["message"]
                assert path == MESSAGES or error["param"] == "sfcl_mode"
                for other in allowed or ["no request"]:
                    assert other in error["message"]
    assert (vote_of(ask(server)) is not None) == (own != "off")


def test_what_is_no_mode(scripted):
    server = scripted(replies=[EVEN], request_modes=list(MODES))
    for more in ({"sfcl_mode": "fast"}, {"headers": {"wane-mode": "fast"}}, {"sfcl_mode": "OFF"}, {"sfcl_mode": ""}):
        reply = ask(server, **more)
        assert reply.status == 400 and "off, legacy or wane" in reply.json()["error"]["message"]
    for field in ("sfcl_mode", "wane_domain", "wane_hold"):
        for value in (1, True, [], {}):
            reply = ask(server, **{field: value})
            assert reply.status == 400 and reply.json()["error"]["param"] == field
        assert ask(server, **{field: None}).status == 200
    reply = ask(server, wane_hold="both")
    assert reply.status == 400 and "vote or note" in reply.json()["error"]["message"]


def test_refusals_of_long_and_odd_words_are_json(scripted):
    server = scripted(replies=[EVEN], domains={"law": {}})
    for word in ("é" * 300, "x" + "é" * 300, "\u0001", '"\\', "😀" * 99):
        for field in ("sfcl_mode", "wane_domain", "wane_hold"):
            for path in (CHAT, MESSAGES):
                reply = ask(server, path, **{field: word})
                assert reply.status == 400 and field in json.loads(reply.body)["error"]["message"]
    reply = ask(server, headers={"wane-mode": b"\xff\xfe".decode("latin-1")})
    assert reply.status == 400 and json.loads(reply.body)


def test_a_field_outranks_its_header(scripted):
    server = scripted(replies=[EVEN], request_modes=list(MODES), domains={"one": {"answers": 1}, "law": {}})
    assert vote_of(ask(server, sfcl_mode="off", headers={"wane-mode": "legacy"})) is None
    assert vote_of(ask(server, sfcl_mode="legacy", headers={"wane-mode": "off"})) is not None
    assert vote_of(ask(server, sfcl_mode="legacy", headers={"wane-mode": "nonsense"})) is not None
    assert vote_of(ask(server, sfcl_mode="legacy", wane_domain="one", headers={"wane-domain": "law"})) is None
    seed = next(s for s in range(1, 50) if vote_of(ask(server, sfcl_mode="legacy", seed=s))["chosen"] != 0)
    noted = vote_of(ask(server, sfcl_mode="legacy", seed=seed, wane_hold="note", headers={"wane-hold": "vote"}))
    assert "text" in noted
    assert "text" in vote_of(ask(server, sfcl_mode="legacy", seed=seed, headers={"wane-hold": "note"}))


def test_no_vote(scripted):
    """One answer, or mode wane without chance: then the memo is of use, too."""
    server = scripted(replies=[EVEN], request_modes=list(MODES), domains={"one": {"answers": 1}}, memo=1 << 20)
    assert vote_of(ask(server, sfcl_mode="legacy", wane_domain="one")) is None
    before = server.metrics()["wane_memo_hits_total"]
    greedy = [ask(server, sfcl_mode="wane", temperature=0) for _ in range(2)]
    assert [vote_of(g) for g in greedy] == [None, None] and text_of(greedy[0]) == text_of(greedy[1])
    metrics = server.metrics()
    assert metrics["wane_memo_hits_total"] - before == LENGTH and metrics["wane_votes_total"] == 0
    assert vote_of(ask(server, sfcl_mode="legacy", temperature=0)) is not None  # as it was once done


# ----------------------------------------------------------------------- domains

def test_unknown_domains(scripted):
    server = scripted(replies=[EVEN], domains={"law": {}, "ward": {}})
    for more in ({"wane_domain": "tax"}, {"headers": {"wane-domain": "tax"}}, {"wane_domain": "LAW"}):
        for path in (CHAT, MESSAGES):
            reply = ask(server, path, **more)
            message = reply.json()["error"]["message"]
            assert reply.status == 400 and "wane_domain" in message and "one of law, ward" in message
    many = scripted(replies=[EVEN], domains={f"domain-{i:02}-{'x' * 40}": {} for i in range(64)})
    message = ask(many, wane_domain="tax").json()["error"]["message"]
    assert "domain-00" in message
    none = scripted(replies=[EVEN])
    assert "has no domains" in ask(none, wane_domain="law").json()["error"]["message"]


def test_a_domain_has_its_own_settings(scripted):
    server = scripted(replies=[EVEN], quality={**PLAIN, "mode": "legacy"},
                      domains={"off": {"mode": "off"}, "one": {**PLAIN, "mode": "legacy", "answers": 1},
                               "value": {**PLAIN, "mode": "legacy", "final_value": "^(.)"}})
    assert vote_of(ask(server, seed=1))["by_value"] is False
    assert vote_of(ask(server, seed=1, wane_domain="off")) is None
    assert vote_of(ask(server, seed=1, wane_domain="one")) is None
    votes = {}
    for seed in range(1, 13):
        texts = [text_of(ask(server, seed=s, wane_domain="off")) for s in (seed, vote_seed(seed, 1), vote_seed(seed, 2))]
        pairs = [i for i in range(3) for j in range(i + 1, 3) if texts[i][0] == texts[j][0]]
        reply = ask(server, seed=seed, headers={"wane-domain": "value"})
        vote = votes[seed] = vote_of(reply)
        assert vote["by_value"] == bool(pairs)
        assert not pairs or (vote["chosen"] == pairs[0] and text_of(reply) == texts[pairs[0]])
    assert len({v["by_value"] for v in votes.values()}) == 2  # else this shows little
    assert server.metrics()["wane_votes_by_value_total"] == sum(v["by_value"] for v in votes.values())


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "x" * 65])
def test_bad_names_of_domains(tmp_path, name):
    with pytest.raises(RuntimeError) as fault:
        start_scripted(str(tmp_path), "bad", domains={name: {}})
    assert "is not a name" in str(fault.value)


def test_bad_values_of_domains(tmp_path):
    for quality, word in (({"clamp": 300}, "clamp is 300"), ({"answers": 2}, "outvote"), ({"final_value": "("}, "pattern"),
                          ({"final_value": "x"}, "no group")):
        for setup, where in (({"domains": {"law": quality}}, "domain law"), ({"quality": quality}, "")):
            with pytest.raises(RuntimeError) as fault:
                start_scripted(str(tmp_path), "bad", **setup)
            assert word in str(fault.value) and where in str(fault.value)


# -------------------------------------------------------------------------- keys

def test_what_a_key_has(scripted, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("plain a key-plain-1\nvoter a key-voter-1 mode=legacy\nlaw b key-law-001 domain=law\n"
                    "both b key-both-01 domain=law mode=off admin\n")
    os.chmod(keys, 0o600)
    server = scripted(replies=[EVEN], key_file=str(keys), request_modes=["off"],
                      domains={"law": {"mode": "legacy"}, "one": {"mode": "legacy", "answers": 1}})

    def voted(key, **more):
        return vote_of(ask(server, headers={"x-api-key": key}, **more)) is not None

    assert not voted("key-plain-1") and voted("key-voter-1") and voted("key-law-001") and not voted("key-both-01")
    # A request's domain outranks the key's, its mode the key's where it may ask; the key's mode outranks any domain's.
    assert voted("key-plain-1", wane_domain="law") and not voted("key-law-001", wane_domain="one")
    assert not voted("key-voter-1", sfcl_mode="off") and not voted("key-both-01", wane_domain="law")
    assert voted("key-voter-1", sfcl_mode="legacy")  # it is the key's
    assert ask(server, headers={"x-api-key": "key-plain-1"}, sfcl_mode="legacy").status == 400


def test_keys_of_unknown_domains(tmp_path):
    keys = tmp_path / "keys"
    for text, word in (("ada a key-12345678 domain=tax\n", "no such domain"), ("ada a key-12345678 mode=fast\n", "line 1"),
                       ("ada a key-12345678 domain=\n", "line 1"), ("ada a key-12345678 domain=a/b\n", "line 1")):
        keys.write_text(text)
        with pytest.raises(RuntimeError) as fault:
            start_scripted(str(tmp_path), "bad", key_file=str(keys), domains={"law": {}})
        assert word in str(fault.value)


# -------------------------------------------------------------------------- hold

def test_a_streams_note(scripted):
    server = scripted(replies=[EVEN], quality=PLAIN, request_modes=list(MODES))
    chosen = set()
    for seed in range(1, 9):
        texts, wins = foresee(server, seed)
        for mode in ("legacy", "wane"):  # without a gate, wane doubts everything
            body = chat("tell", temperature=1, max_tokens=LENGTH, seed=seed, sfcl_mode=mode)
            chunks, done, _ = openai_stream(server, CHAT, body)
            assert done and "".join(c["choices"][0]["delta"].get("content", "") for c in chunks) == texts[0]
            assert all("wane" not in c for c in chunks[:-1])
            vote = chunks[-1]["wane"]["vote"]
            assert chunks[-1]["choices"][0]["finish_reason"] == "length"
            assert vote["answers"] == 3 and vote["chosen"] == wins and vote["by_value"] is False
            assert vote["forked_at"] == 0 and vote["spare_tokens"] == 2 * LENGTH
            assert vote.get("text") == (texts[wins] if wins != 0 else None)
        chosen.add(wins)
    assert len(chosen) == 3  # else this shows little


def test_a_streams_vote(scripted):
    server = scripted(replies=[EVEN], quality=PLAIN, request_modes=list(MODES))
    for seed in range(1, 5):
        texts, wins = foresee(server, seed)
        body = chat("tell", temperature=1, max_tokens=LENGTH, seed=seed, sfcl_mode="legacy", wane_hold="vote")
        body["stream_options"] = {"include_usage": True}
        chunks, done, _ = openai_stream(server, CHAT, body)
        assert done and "".join(c["choices"][0]["delta"].get("content", "") for c in chunks[:-1]) == texts[wins]
        assert "text" not in chunks[-2]["wane"]["vote"] and chunks[-2]["wane"]["vote"]["chosen"] == wins
        assert chunks[-1]["usage"]["completion_tokens"] == LENGTH and "wane" not in chunks[-1]
        body = {"prompt": "tell", "temperature": 1, "max_tokens": LENGTH, "seed": seed, "sfcl_mode": "legacy"}
        chunks, done, _ = openai_stream(server, TEXT, body, {"wane-hold": "vote"})
        whole = server.post(TEXT, body)
        assert done and "".join(c["choices"][0]["text"] for c in chunks) == text_of(whole)
        assert chunks[-1]["wane"]["vote"] == vote_of(whole)


def test_what_is_not_streamed_is_held(scripted):
    server = scripted(replies=[EVEN], quality=PLAIN, request_modes=list(MODES))
    for seed in range(1, 7):
        texts, wins = foresee(server, seed)
        reply = ask(server, seed=seed, sfcl_mode="legacy")
        assert text_of(reply) == texts[wins] and "text" not in vote_of(reply) and vote_of(reply)["chosen"] == wins
        assert reply.json()["usage"]["completion_tokens"] == LENGTH
        noted = ask(server, seed=seed, sfcl_mode="legacy", wane_hold="note")
        assert text_of(noted) == texts[0] and vote_of(noted).get("text") == (texts[wins] if wins else None)


def test_anthropics_replies(scripted):
    server = scripted(replies=[EVEN], quality={**PLAIN, "mode": "legacy"})
    noted = set()
    for _ in range(40):
        body = messages("tell", temperature=1, max_tokens=LENGTH)
        names, text, _, last, _ = anthropic_stream(server, body)
        vote = last["wane"]["vote"]
        assert names[0] == "message_start" and names[-2:] == ["message_delta", "message_stop"]
        assert ("text" in vote) == (vote["chosen"] != 0) and vote.get("text") != text
        assert last["usage"]["output_tokens"] == LENGTH
        noted.add(vote["chosen"])
        whole = ask(server, MESSAGES)
        assert len(text_of(whole)) == LENGTH and "text" not in vote_of(whole)
        if noted == {0, 1, 2}:
            break
    _, text, _, last, _ = anthropic_stream(server, {**body, "wane_hold": "vote"})
    assert len(text) == LENGTH and "text" not in last["wane"]["vote"]


def test_logprobs_are_the_chosen_answers(scripted):
    server = scripted(replies=[EVEN], quality=PLAIN, request_modes=list(MODES))
    for seed in range(1, 5):
        reply = ask(server, seed=seed, sfcl_mode="legacy", logprobs=True)
        entries = reply.json()["choices"][0]["logprobs"]["content"]
        assert "".join(e["token"] for e in entries) == text_of(reply)


# ----------------------------------------------------------------------- counted

def test_metrics(scripted):
    server = scripted(replies=[EVEN], quality={"clamp": 3}, request_modes=list(MODES))
    votes = [vote_of(ask(server, sfcl_mode=mode, seed=seed)) for seed in range(6) for mode in ("legacy", "wane")]
    ask(server, sfcl_mode="off")
    m = server.metrics()
    assert m["wane_votes_total"] == wakes(m, "always") == 12
    assert wakes(m, "warm_up") == 1 and wakes(m, "doubt") == 0
    assert m["wane_votes_changed_total"] == sum(v["chosen"] != 0 for v in votes) > 0
    assert m["wane_spare_tokens_total"] == sum(v["spare_tokens"] for v in votes) == 12 * 2 * LENGTH
    corrected = 12 * 3 * LENGTH
    assert m["wane_corrected_tokens_total"] == corrected
    for part in ("clamp", "vote"):
        assert m[f'wane_correction_ran_total{{part="{part}"}}'] == corrected
    assert m["wane_correction_draws_total"] == corrected / 2 * 3 + corrected / 2
    assert 0 < m["wane_changed_tokens_total"] < corrected
    assert all(m[f'wane_correction_changed_total{{part="{part}"}}'] > 0 for part in ("clamp", "vote"))
    assert m["wane_rules_loaded"] == m['wane_correction_ran_total{part="rules"}'] == 0


def test_no_drill_where_nothing_can_vote(scripted):
    def drilled(**setup):
        return wakes(scripted(replies=[EVEN], **setup).metrics(), "warm_up")

    assert drilled() == drilled(request_modes=["off"]) == drilled(quality={"mode": "wane", "answers": 1}) == 0
    assert drilled(quality={"mode": "wane"}) == drilled(domains={"law": {"mode": "legacy"}}) == 1


def test_a_keys_mode_is_drilled_for(scripted, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("ada a key-12345678 mode=wane\n")
    server = scripted(replies=[EVEN], key_file=str(keys))
    assert wakes(server.metrics({"x-api-key": "key-12345678"}), "warm_up") == 1


# -------------------------------------------------------------------- cut short

@pytest.mark.parametrize("sequences", [1, 2, 4])
@pytest.mark.parametrize("hold", ["note", "vote"])
def test_a_client_that_leaves(scripted, sequences, hold):
    server = scripted(replies=[SLOW, EVEN], sequences=sequences, quality=PLAIN, request_modes=list(MODES))
    body = chat("slow", temperature=1, sfcl_mode="legacy", wane_hold=hold, stream=True)
    for tokens, most in ((2, 60), (7, 6)):  # early; and with one sequence, when the first answer waits for the others
        before = server.metrics()
        stream = Stream(server, CHAT, {**body, "max_tokens": most})
        stream.read_headers()
        eventually(lambda: server.metrics()["wane_reply_tokens_total"] >= before["wane_reply_tokens_total"] + tokens,
                   what="some tokens")
        stream.close()
        server.idle()
        eventually(lambda: server.metrics()["wane_requests_cancelled_total"] == before["wane_requests_cancelled_total"] + 1,
                   what="the cancellation")
    assert vote_of(ask(server, sfcl_mode="legacy")) is not None
    server.idle()


def test_out_of_time(scripted):
    """The first answer is whole when time is up, and stands; were it not, the request has failed in words."""
    server = scripted(replies=[SLOW, EVEN], sequences=1, quality=PLAIN, request_modes=list(MODES))
    body = chat("slow", temperature=1, sfcl_mode="legacy", max_tokens=10, seed=1)
    alone = text_of(server.post(CHAT, {**body, "sfcl_mode": "off"}))
    reply = server.post(CHAT, body, headers={"x-claude-timeout": "400"})
    if reply.status == 200:
        assert text_of(reply) == alone and vote_of(reply)["chosen"] == 0
    else:
        assert reply.status == 504
    server.idle()
