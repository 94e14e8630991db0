"""/metrics as text: a strict reader takes it, promtool too, cold and warm; counters never fall; two who scrape see the same."""
import subprocess

import exposition
from support import Stream, chat, eventually, messages

REPLIES = [{"match": "fail", "text": "never seen", "fail_at": 3}, {"match": "long", "text": "x" * 400, "delay_ms": 5},
           {"text": "hello"}]
# What time alone changes.
RESTLESS = {"wane_uptime_seconds", "process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds",
            "wane_disk_free_bytes", "wane_busy_seconds_total"}


def traffic(server):
    """Replies, an engine's failure, requests that are wrong, a client that leaves, streams: whatever is counted somewhere."""
    assert server.post("/v1/messages", messages("hi")).status == 200
    assert server.post("/v1/chat/completions", chat("hi", logprobs=True)).status == 200
    assert server.post("/v1/completions", {"prompt": "hi", "max_tokens": 3}).status == 200
    assert server.post("/v1/messages", messages("fail")).status == 500
    assert server.post("/v1/messages", "{").status == 400
    assert server.get("/nowhere").status == 404
    assert server.post("/health", "").status == 405
    stream = Stream(server, "/v1/messages", {**messages("long"), "stream": True})
    stream.read_headers()
    stream.close()
    server.idle()


def test_cold_scrape(scripted):
    families = exposition.scrape(scripted(replies=REPLIES))
    values = exposition.series(families, ("counter", "histogram", "summary"))
    # But for the scrape itself, and what loading and looking cost.
    moved = {key[0] for key, value in values.items() if value != 0} - {"process_cpu_seconds_total"}
    assert moved <= {"wane_engine_seconds_total", "wane_busy_seconds_total"}, moved
    for name in ("wane_time_to_first_token_seconds", "wane_time_per_output_token_seconds", "wane_queue_seconds"):
        assert families[name].type == "histogram"
    assert families["slmt_fallback_latency_seconds"].type == "summary"
    # What alerts look at is there before it happens.
    codes = {dict(labels)["code"] for _, labels in families["wane_http_requests_total"].samples}
    assert codes == {"200", "429", "500", "503", "504"}


def test_counters_never_fall(scripted):
    server = scripted(replies=REPLIES)
    before = exposition.scrape(server)
    for _ in range(3):
        traffic(server)
        now = exposition.scrape(server)
        old, new = (exposition.series(f, ("counter", "histogram", "summary")) for f in (before, now))
        assert set(old) <= set(new)
        assert [key for key in old if new[key] < old[key]] == []
        before = now
    assert now["wane_requests_completed_total"].samples[("wane_requests_completed_total", ())] == 9
    # Each finished reply is in each histogram once; of one token there is no time for each further one.
    count = {name: now[name].samples[(name + "_count", ())] for name in
             ("wane_time_to_first_token_seconds", "wane_time_per_output_token_seconds", "wane_queue_seconds")}
    assert set(count.values()) == {9}, count


def test_two_scrapers_see_the_same(scripted):
    server = scripted(replies=REPLIES)
    traffic(server)

    def still():
        first, second = (exposition.series(exposition.scrape(server), exposition.TYPES) for _ in range(2))
        assert set(first) == set(second)
        return {key for key in first if first[key] != second[key] and key[0] not in RESTLESS
                and dict(key[1]).get("route") != "/metrics"} == set()

    eventually(still, what="two scrapes that are the same")  # the last reply's end is counted a moment after it was read


def test_promtool(scripted):
    """No complaint but about the one name that dashboards know."""
    server = scripted(replies=REPLIES)
    traffic(server)
    done = subprocess.run([exposition.tool("promtool"), "check", "metrics"], input=server.get("/metrics").body, capture_output=True)
    lines = (done.stdout + done.stderr).decode().splitlines()
    assert [line for line in lines if not line.startswith("output_divergence_count ")] == []
    assert done.returncode in (0, 3), lines


def test_fallbacks_of_a_table(scripted, tmp_path):
    """Where a table is of no help, the way of each token is timed; without one, none is."""
    from support import SCRIPT_SERVER
    table, setup = tmp_path / "t.slmt", tmp_path / "setup.json"
    setup.write_text("{}")
    subprocess.run([SCRIPT_SERVER, str(setup), str(table), "50"], check=True)
    none, given = scripted(replies=REPLIES), scripted(replies=REPLIES, table=str(table))
    for server in (none, given):
        traffic(server)
    name = "slmt_fallback_latency_seconds"
    assert exposition.scrape(none)[name].samples[(name + "_count", ())] == 0
    families = exposition.scrape(given)
    samples = families[name].samples
    looked_up = families["wane_table_tokens_total"].samples
    missed = sum(value for (_, labels), value in looked_up.items() if dict(labels)["grade"] in ("miss", "absent"))
    assert samples[(name + "_count", ())] == missed > 0
    quantiles = [samples[(name, (("quantile", q),))] for q in ("0.5", "0.9", "0.99")]
    assert 0 < quantiles[0] <= quantiles[1] <= quantiles[2] < 10
    assert families["wane_table_given"].samples[("wane_table_given", ())] == 1


def test_practice_comes_before_the_first_request(real_with):
    """What the first replies would have rehearsed was rehearsed at the start; it is no reply's, and may be left out."""
    for options, rehearsed in (((), True), (("--draft-practice", "0"), False), (("--draft", "off"), False)):
        seen = real_with(*(options or ("--draft-practice", "20000"))).metrics()
        assert (sum(v for k, v in seen.items() if k.startswith("wane_draft_rehearsals_total")) > 0) is rehearsed
        assert sum(v for k, v in seen.items() if k.startswith("wane_reply_tokens_total")) == 0
