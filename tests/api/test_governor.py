"""A domain's own profile, and sides of live traffic, as an operator sets them up: the settings file and options of `wane serve`."""
import glob
import json
import pathlib
import subprocess

from support import WANE, start_real, stop_real

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = "[quality]\nmode = wane\nanswers = 1\nfuse = off\n[domain.legal]\nprofile = {profile}\n[domain.free]\nclamp = 0\n"


def steered(server):
    return sum(value for name, value in server.metrics().items() if name.startswith("wane_governor_tokens_total"))


def wane_governor_ab(url, *more):
    return subprocess.run([WANE, "governor", "ab", "--url", url, *more], capture_output=True, text=True, timeout=60)


def own_profile(folder):
    """The profile that ships for the test's model: the server says whose it is not."""
    for path in glob.glob(str(ROOT / "share" / "profiles" / "*.json")):
        if "smollm2-135m" in json.load(open(path))["evidence"]["command"]:
            return path
    raise AssertionError("no profile of smollm2-135m ships")


def test_a_domains_profile_and_the_sides(tmp_path):
    profile = json.load(open(own_profile(tmp_path)))
    profile["domain"] = "medical"
    (tmp_path / "own.json").write_text(json.dumps(profile))
    (tmp_path / "wane.conf").write_text(CONFIG.format(profile=tmp_path / "own.json"))
    server = start_real(tmp_path, "--config", str(tmp_path / "wane.conf"), "--context", "512", "--threads", "1", "--batch-threads", "2")
    try:
        # Nobody asked for a governor but the domain, and its profile says that it was tuned for another one.
        assert "own.json was tuned for the domain medical" in open(server.log).read()
        body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 6, "temperature": 0.8}
        for domain, more in ((None, 0), ("free", 0), ("legal", 1)):
            before = steered(server)
            reply = server.post("/v1/chat/completions", {**body, **({"wane_domain": domain} if domain else {})})
            assert reply.status == 200 and "wane-governor-side" not in reply.headers
            assert (steered(server) > before) == bool(more), domain
        assert server.get("/v1/wane/ab").status == 404
        refused = wane_governor_ab(server.url)
        assert refused.returncode == 1 and "start it with --ab-governor SHARE" in refused.stderr
    finally:
        stop_real(server)
    server = start_real(tmp_path, "--config", str(tmp_path / "wane.conf"), "--context", "512", "--threads", "1", "--batch-threads", "2", "--ab-governor", "0.5")
    try:
        sides = {}
        for i in range(8):
            before = steered(server)
            reply = server.post("/v1/chat/completions", {**body, "user": f"user {i}"})
            side = reply.headers["wane-governor-side"]
            assert reply.json()["wane"]["ab"]["governor"] == side and (steered(server) > before) == (side == "on")
            sides[side] = sides.get(side, 0) + 1
        told = server.get("/v1/wane/ab").json()
        assert server.get("/v1/wane/state?samples=0").json()["ab"]["on"]["replies"] == told["on"]["replies"]
        assert told["share"] == 0.5 and {s: told[s]["replies"] for s in ("off", "on")} == {"off": 0, "on": 0, **sides}
        shown = wane_governor_ab(server.url)
        assert f"steers 50 % of the users: {sides.get('on', 0)} replies" in shown.stdout and "distinct-2" in shown.stdout and shown.returncode == 0
        assert json.loads(wane_governor_ab(server.url, "--json").stdout) == told
    finally:
        stop_real(server)
