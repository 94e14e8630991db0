"""deploy/fleet and deploy/nginx/fleet.conf: three real replicas behind a real nginx. A user is on one side on all of them; a signed table
reaches all of them, and one that is not in order none."""
import json
import os
import re
import shutil
import socket
import subprocess

import exposition
import pytest
import yaml
from support import start_real, stop_real
from support import WANE, eventually, messages, together
from test_deploy import DEPLOY, ROOT, Nginx, answers, read, run

PUSH, PULL = (os.path.join(DEPLOY, "fleet", name) for name in ("push-table", "pull-table"))
ENVIRONMENT = {**os.environ, "WANE": WANE}


def pull(*words, code=0, **more):
    return run(PULL, *map(str, words), code=code, env={**ENVIRONMENT, **more})


def push(*words, code=0, **more):
    return run(PUSH, *map(str, words), code=code, env={**ENVIRONMENT, **more}).strip()


class Fleet(Nginx):
    """fleet.conf with these ports for its machines: the last one gets a new release first."""

    def __init__(self, folder, ports):
        config = read("deploy/nginx/fleet.conf")
        listed = dict(zip(re.findall(r"server (10\.0\.0\.\d+:\d+) max_fails", config), ports))
        for name, port in listed.items():
            config = config.replace(name, f"127.0.0.1:{port}")
        assert "10.0.0." not in config
        super().__init__(folder, ports[:2])
        # As Nginx does it with wane.conf.
        site = (folder / "site.conf").read_text()
        mine = config.replace("/etc/nginx/", f"{folder}/")
        for listen in ("443", "80"):
            mine = mine.replace(f"listen {listen}", "listen " + re.search(rf"listen (127\.0\.0\.1:\d+){' ssl' if listen == '443' else ';'}", site)[1])
        (folder / "site.conf").write_text(re.sub(r"(?m)^\s*listen \[::\].*\n", "", mine))


def test_fleet_conf_does_what_wane_conf_does():
    """But for where a request goes."""
    def inside(name):
        text = re.sub(r"(?m)#.*$", "", read("deploy/nginx", name))
        return [" ".join(line.split()) for line in text[text.index("server {"):].splitlines() if line.strip()]
    assert [line for line in inside("fleet.conf") if "proxy_pass" not in line] == [line for line in inside("wane.conf") if "proxy_pass" not in line]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Three replicas that share a rollout of the memo, nginx in front, and a table of what they were asked."""
    folder = tmp_path_factory.mktemp("fleet")
    run(WANE, "key", "new", "--out", str(folder / "key"))
    (folder / "prompts").write_text("Name three colours.\n")
    model = os.environ.get("WANE_TEST_MODEL", "smollm2-135m")
    run(WANE, "record", "--model", model, "--prompts", str(folder / "prompts"), "--out", str(folder / "traces"), "--threads", "1",
        "--temperature", "0", "--max-tokens", "8")
    run(WANE, "rollout", "plan", "--rollout", str(folder / "rollout"), "--rollout-features", "memo", "--rollout-users", "0.5", "--rollout-share", "0")
    run(WANE, "rollout", "start", "--rollout", str(folder / "rollout"))
    for name, depth in (("first", "5"), ("second", "3")):
        run(WANE, "table", "build", "--log-file", str(folder / "traces"), "--min-seen", "1", "--depth", depth, "--output", str(folder / f"{name}.slmt"))
    push(folder / "key", folder / "first.slmt", folder / "place")
    pull(folder / "place", folder / "key.pub", folder / "table.slmt")
    replicas = []
    for i in range(3):
        home = folder / f"replica{i}"
        home.mkdir()
        replicas.append(start_real(home, "--context", "512", "--threads", "1", "--slots", "1", "--table", str(folder / "table.slmt"),
                                   "--table-key", str(folder / "key.pub"), "--rollout", str(folder / "rollout")))
    yield folder, replicas
    for replica in replicas:
        stop_real(replica)


def digest(replica):
    return next(name.split('"')[1] for name in replica.metrics() if name.startswith("wane_table_info{"))


def ask(replica, user):
    reply = replica.post("/v1/messages", messages("Name three colours.", max_tokens=1, metadata={"user_id": user}))
    assert reply.status == 200, reply.body
    return reply.headers["wane-rollout"]


def test_a_user_is_on_one_side_everywhere(fleet):
    _, replicas = fleet
    users = [f"user-{i}" for i in range(8)]
    sides = together([lambda r=replica: [ask(r, user) for user in users] for replica in replicas])
    assert sides[0] == sides[1] == sides[2]
    assert set(sides[0]) == {"memo=on;stage=1", "memo=off;stage=1"}


def test_through_nginx(fleet, tmp_path):
    """Whichever replica serves a user: the same side; a replica that goes changes nothing."""
    _, replicas = fleet
    nginx = Fleet(tmp_path, [replica.port for replica in (replicas[0], replicas[0], replicas[1], replicas[1], replicas[2])])
    said = run(*nginx.command, "-t")
    assert "warn" not in said, said
    with open(tmp_path / "nginx.log", "w") as log:
        nginx.start(log)
    try:
        eventually(lambda: answers(nginx), what="nginx's answer")
        for i in range(6):
            connection = nginx.connect()
            body = messages("Name three colours.", max_tokens=1, metadata={"user_id": f"user-{i}"})
            connection.request("POST", "/v1/messages", json.dumps(body), {"x-api-key": f"key-{i}"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200 and answer.headers["wane-rollout"] == ask(replicas[i % 3], f"user-{i}")
            connection.close()
    finally:
        nginx.process.terminate()
        nginx.process.wait(10)


def test_where_nginx_sends_users(scripted, tmp_path):
    """Always the same replica; all are used; the share for the new release is a share, and is served by others when that one is gone."""
    replicas = [scripted(replies=[{"text": f"replica{i}"}]) for i in range(5)]
    nginx = Fleet(tmp_path, [replica.port for replica in replicas])
    site = (tmp_path / "site.conf").read_text()
    assert "5%      wane_next;" in site
    (tmp_path / "site.conf").write_text(site.replace("5%      wane_next;", "40%     wane_next;"))
    with open(tmp_path / "nginx.log", "w") as log:
        nginx.start(log)
    try:
        eventually(lambda: answers(nginx), what="nginx's answer")

        def where(key):
            status, data = nginx.ask("POST", "/v1/messages", messages("hi"), **{"x-api-key": key})
            assert status == 200, data
            return json.loads(data)["content"][0]["text"]
        keys = [f"key-{i}" for i in range(24)]
        first = {key: where(key) for key in keys}
        assert set(first.values()) == {f"replica{i}" for i in range(5)}
        assert {key: where(key) for key in keys} == first
        replicas[4].terminate()
        after = {key: where(key) for key in keys}
        assert all(after[key] == at for key, at in first.items() if at != "replica4")
        assert {after[key] for key, at in first.items() if at == "replica4"} <= {"replica0", "replica2"}
    finally:
        nginx.process.terminate()
        nginx.process.wait(10)


def test_a_signed_table_reaches_all(fleet):
    folder, replicas = fleet
    place, table, key = folder / "place", folder / "table.slmt", folder / "key.pub"
    urls = [replica.url for replica in replicas]
    old = digest(replicas[0])
    assert {digest(replica) for replica in replicas} == {old}
    # Nothing new: nothing is done.
    assert pull(place, key, table, *urls) == ""
    name = push(folder / "key", folder / "second.slmt", place)
    assert pull(place, key, table, *urls).strip() == name
    new = digest(replicas[0])
    assert name == f"table-{new}.slmt" and {digest(replica) for replica in replicas} == {new} != {old}
    # Whoever is not told finds it.
    push(folder / "key", folder / "first.slmt", place)
    pull(place, key, table)
    eventually(lambda: {digest(replica) for replica in replicas} == {old}, what="the reload")
    # Another's, signed or not, one that was cut, one under another's name, and none: nothing changes.
    run(WANE, "key", "new", "--out", str(folder / "other"))
    whole = (place / name).read_bytes()

    def refused(words):
        said = pull(place, key, table, *urls, code=1)
        assert words in said, said
        assert {digest(replica) for replica in replicas} == {old}
        assert table.read_bytes() == (folder / "first.slmt").read_bytes()
        assert not list(folder.glob(".pull-*"))

    push(folder / "other", folder / "second.slmt", place)
    refused("stays as it was")
    push(folder / "key", folder / "second.slmt", place)
    (place / name).write_bytes(whole[:-1])
    refused("stays as it was")
    (place / name).write_bytes((folder / "first.slmt").read_bytes())
    shutil.copy(place / f"table-{old}.slmt.sig", place / f"{name}.sig")
    refused("another table than its name says")
    (place / f"{name}.sig").unlink()
    refused("cannot fetch")
    for text in ("../../etc/passwd", "table-.slmt", f"table-{new}.slmt x", ""):
        (place / "current").write_text(text + "\n")
        refused("does not name a table")
    (place / "current").unlink()
    refused("cannot fetch")


def test_a_table_that_no_server_takes(fleet, tmp_path):
    """In order, and another model's: the one before is put back."""
    folder, replicas = fleet
    run("python3", os.path.join(ROOT, "tests", "cli", "traces.py"), str(tmp_path / "traces"), "1", "1000")
    run(WANE, "table", "build", "--log-file", str(tmp_path / "traces"), "--output", str(tmp_path / "x.slmt"))
    old, bytes_before = digest(replicas[0]), (folder / "table.slmt").read_bytes()
    push(folder / "key", tmp_path / "x.slmt", tmp_path / "place")
    said = pull(tmp_path / "place", folder / "key.pub", folder / "table.slmt", *[replica.url for replica in replicas], code=1)
    assert "does not use it" in said and "stays in use" in said and "back in its place" in said
    assert (folder / "table.slmt").read_bytes() == bytes_before
    for replica in replicas:
        assert replica.post("/v1/wane/table/reload", "").status == 200
        assert digest(replica) == old


def test_by_http_and_by_a_command_of_ones_own(tmp_path):
    run("python3", os.path.join(ROOT, "tests", "cli", "traces.py"), str(tmp_path / "traces"), "1", "1000")
    run(WANE, "table", "build", "--log-file", str(tmp_path / "traces"), "--output", str(tmp_path / "t.slmt"))
    run(WANE, "key", "new", "--out", str(tmp_path / "key"))
    name = push(tmp_path / "key", tmp_path / "t.slmt", "store:tables", WANE_COPY=copier(tmp_path))
    assert sorted(os.listdir(tmp_path / "store:tables")) == ["current", name, f"{name}.sig"]
    for at, copy in (("store:tables", copier(tmp_path)), (None, "")):
        table = tmp_path / (at or "http") / "T.slmt"
        table.parent.mkdir(exist_ok=True)
        with Web(tmp_path / "store:tables") as url:
            assert pull(at or url, tmp_path / "key.pub", table, WANE_COPY=copy).strip() == name
        assert table.read_bytes() == (tmp_path / "t.slmt").read_bytes()
        assert not (table.parent / "T.slmt.before").exists()


def copier(folder):
    """A command such as `rclone copyto`: FROM TO, one of them in the store, which is a folder here."""
    path = folder / "copy"
    path.write_text(f'#!/bin/sh\ncd {folder} && mkdir -p store:tables && exec cp "$1" "$2"\n')
    path.chmod(0o755)
    return str(path)


class Web:
    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.process = subprocess.Popen(["python3", "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(self.folder)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def listens():
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port)) == 0
        eventually(listens, what="a web server")
        return f"http://127.0.0.1:{port}"

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)


def test_one_prometheus(tmp_path):
    """The shipped configuration with the fleet's targets: each replica once, each with a port that fleet.conf sends to."""
    targets = yaml.safe_load(read("deploy/fleet/targets.yml"))
    listed = [target for group in targets for target in group["targets"]]
    assert sorted(listed) == sorted(set(re.findall(r"server (10\.0\.0\.\d+:\d+)", read("deploy/nginx/fleet.conf"))))
    (tmp_path / "targets").mkdir()
    shutil.copy(os.path.join(DEPLOY, "fleet", "targets.yml"), tmp_path / "targets")
    for name in ("prometheus.yml", "wane.rules.yml"):
        shutil.copy(os.path.join(DEPLOY, "prometheus", name), tmp_path)
    run(exposition.tool("promtool"), "check", "config", str(tmp_path / "prometheus.yml"))


@pytest.mark.parametrize("name", ["wane-table.service", "wane-table.timer"])
def test_units(name, tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("this system has no systemd-analyze")
    for one in ("wane-table.service", "wane-table.timer"):
        (tmp_path / one).write_text(read("deploy/fleet", one).replace("/usr/local/bin/wane-pull-table", PULL))
    assert run("systemd-analyze", "verify", "--man=no", str(tmp_path / name)) == ""
    words = re.search(r"(?m)^ExecStart=(.*)$", read("deploy/fleet/wane-table.service"))[1].split()
    assert len(words) >= 5 and "${PLACE}" in words and "$SERVERS" in words  # in braces: one word; without: as many as there are
