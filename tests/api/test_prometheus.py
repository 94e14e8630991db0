"""A real Prometheus with the shipped rules scrapes a real `wane serve`: targets up, rules healthy, every expression gives data."""
import os
import re
import subprocess
import sys

import exposition
import pytest
from support import start_real, stop_real
from support import SCRIPT_SERVER, SLOW, eventually, messages
from test_deploy import ROOT, dashboard, expressions, rules

sys.path.insert(0, os.path.join(ROOT, "bench"))
from prometheus import Prometheus  # noqa: E402

# A share of nothing has no value, and nothing ends a reply or diverges in a few seconds: these may be empty.
QUIET = {"wane:divergence:rate1d", "Rollout: bars"} | {rule["alert"] for rule in rules("alert")}


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """Two servers, a real one with all that it can write, and a scripted one with a table and a governor's worth of traffic."""
    from support import start_scripted
    folder = tmp_path_factory.mktemp("watched")
    real = start_real(folder, "--context", "512", "--threads", "1", "--slots", "2", "--shadow", "1", "--request-modes", "all", "--governor",
                      "--record", str(folder / "trace"), "--memo-file", str(folder / "memo"), "--feedback", str(folder / "feedback.db"),
                      "--audit", str(folder / "audit.db"), "--rollout", str(folder / "rollout"), "--rollout-features", "memo",
                      "--alert-command", "true", "--ab-governor", "0.5")
    (folder / "setup.json").write_text("{}")
    subprocess.run([SCRIPT_SERVER, str(folder / "setup.json"), str(folder / "t.slmt"), "50"], check=True)
    scripted = start_scripted(str(folder), "scripted", replies=[{"text": "abcabcabcabcabcabcabc"}], table=str(folder / "t.slmt"), draft=True)
    (folder / "prometheus").mkdir()
    prometheus = Prometheus(exposition.tool("prometheus"), folder / "prometheus", [f"127.0.0.1:{s.port}" for s in (real, scripted)])
    try:
        eventually(lambda: targets(prometheus), 20, "the first scrape")
        traffic(real, scripted)
        seen = scrapes(prometheus)
        eventually(lambda: all(count >= seen[at] + 2 for at, count in scrapes(prometheus).items()), 30, "more scrapes of each")
        yield prometheus, real
    finally:
        assert prometheus.stop(20 * SLOW) == 0, (prometheus.folder / "log").read_text()[-2000:]
        stop_real(real)
        assert scripted.terminate() == 0
        scripted.process.stdout.close()


def targets(prometheus):
    found = prometheus.get("targets")["data"].get("activeTargets", [])
    return len(found) == 2 and all(target["health"] == "up" for target in found)


def scrapes(prometheus):
    return {row["metric"]["instance"]: len(row["values"]) for row in prometheus.query("wane_reply_tokens_total[5m]")}


def traffic(real, scripted):
    sides = set()
    for mode, user in (("off", "ann"), *(("wane", user) for user in ("ann", "ben", "cleo", "dan")), ("off", "ann")):
        reply = real.post("/v1/messages", messages("Name three colours.", max_tokens=12, sfcl_mode=mode, metadata={"user_id": user}))
        assert reply.status == 200, reply.body
        sides.add(reply.headers.get("wane-governor-side"))
    assert sides == {None, "on", "off"}  # by a hash of the user: the same in each run
    for _ in range(2):
        assert scripted.post("/v1/completions", {"prompt": "abcabcabc", "max_tokens": 21}).status == 200


def test_targets_and_rules(watched):
    prometheus, _ = watched
    assert targets(prometheus)
    groups = prometheus.get("rules")["data"]["groups"]
    found = [rule for group in groups for rule in group["rules"]]
    assert len(found) == len(rules())
    eventually(lambda: all(rule["health"] == "ok" for group in prometheus.get("rules")["data"]["groups"] for rule in group["rules"]),
               10, "an evaluation of every rule")
    firing = [alert["labels"]["alertname"] for alert in prometheus.get("alerts")["data"]["alerts"] if alert["state"] == "firing"]
    assert firing == []


def test_every_expression_gives_data(watched):
    prometheus, _ = watched
    for where, expr in expressions():
        if where in QUIET:
            prometheus.query(expr)
        else:
            eventually(lambda: prometheus.query(expr), 10, f"a value of {where}: {expr}")  # noqa: B023
    for annotation in dashboard()["annotations"]["list"]:
        prometheus.query(annotation["expr"])
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            inner = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])
            assert prometheus.get("series", **{"match[]": inner[1]})["data"]


def test_alerts_can_be_read(watched):
    """Prometheus' templates expand: a fault there would show only on the day that the alert fires."""
    prometheus, _ = watched
    for rule in rules("alert"):
        for text in rule["annotations"].values():
            for call in re.findall(r"\{\{ \$value \| (\w+) \}\}", text):
                assert call in ("humanize", "humanize1024", "humanizeDuration", "humanizePercentage"), call
            assert not re.search(r"\{\{(?! \$(labels\.(instance|what|name|feature|hook|job)|value( \| \w+)?) \}\})", text), text


def test_the_list_of_metrics(watched):
    """docs/metrics.md has each metric of a server with everything on, with its type and labels, and no other."""
    _, real = watched
    families, known = exposition.scrape(real), exposition.documented()
    assert set(families) == set(known)
    for name, family in families.items():
        kind, unit, labels, meaning = known[name]
        assert family.type == kind, name
        assert family.labels() == labels or not family.samples, (name, family.labels(), labels)
        assert unit and meaning, name
        if name.endswith(("_seconds", "_seconds_total")):
            assert unit == "seconds", name
        if name.endswith(("_bytes", "_bytes_total")):
            assert unit == "bytes", name
