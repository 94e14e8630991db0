"""deploy/ as its programs see it: promtool, nginx, hadolint, systemd-analyze, wane config; and that pages and files agree."""
import json
import os
import re
import shutil
import subprocess
import sys
import time

import exposition
import pytest
import yaml
from support import Stream, WANE, eventually, messages

ROOT = exposition.ROOT
DEPLOY = os.path.join(ROOT, "deploy")
RULES = os.path.join(DEPLOY, "prometheus", "wane.rules.yml")
# Names that Prometheus makes itself.
OWN = {"up", "ALERTS"}


def read(*parts):
    with open(os.path.join(ROOT, *parts), encoding="utf-8") as file:
        return file.read()


def run(*command, code=0, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


# ---------------------------------------------------------------- Prometheus

def rules(kind=None):
    every = [rule for group in yaml.safe_load(read("deploy/prometheus/wane.rules.yml"))["groups"] for rule in group["rules"]]
    return [rule for rule in every if kind is None or kind in rule]


@pytest.mark.parametrize("config", ["prometheus/prometheus.yml", "docker/prometheus.yml"])
def test_prometheus_config(config, tmp_path):
    """As it lies where it is used: rules and targets beside it, and its key."""
    shutil.copy(RULES, tmp_path)
    folder = os.path.dirname(os.path.join(DEPLOY, config))
    shutil.copytree(os.path.join(folder, "targets"), tmp_path / "targets")
    (tmp_path / "key").write_text("a-key")
    text = read("deploy", config).replace("/run/secrets/prometheus-key", "key")
    (tmp_path / "prometheus.yml").write_text(text)
    run(exposition.tool("promtool"), "check", "config", str(tmp_path / "prometheus.yml"))


def test_rules():
    folder = os.path.join(DEPLOY, "prometheus", "tests")
    files = sorted(os.path.join(folder, name) for name in os.listdir(folder))
    run(exposition.tool("promtool"), "test", "rules", *files, cwd=folder)


def test_each_alert_is_tested_explained_and_complete():
    tests = "".join(read("deploy/prometheus/tests", name) for name in os.listdir(os.path.join(DEPLOY, "prometheus", "tests")))
    page = read("docs/operations.md")
    headings = {re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
                for line in page.splitlines() if line.startswith("#")}
    fired = set(re.findall(r'labels: \'\{alertname="(\w+)"', tests))
    alerts = rules("alert")
    assert fired == {rule["alert"] for rule in alerts}
    for rule in alerts:
        assert rule["labels"]["severity"] in ("page", "ticket", "info"), rule
        notes = rule["annotations"]
        assert notes["summary"] and notes["description"], rule
        name, anchor = notes["runbook"].split("#")
        assert name == "docs/operations.md" and anchor in headings, f"{rule['alert']}: {anchor} is no heading of {name}"


def dashboard():
    return json.loads(read("deploy/grafana/wane.json"))


def expressions():
    """(where, expression) of dashboard and rules, Grafana's variables filled in."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m").replace("$instance", ".*")
    for rule in rules():
        yield rule.get("alert") or rule["record"], rule["expr"]


def test_every_name_is_a_metrics():
    """Rules and dashboard ask for nothing that docs/metrics.md does not have."""
    known = exposition.documented()
    names = OWN | {rule["record"] for rule in rules("record")}
    for name, (kind, _, _, _) in known.items():
        names |= {name} | ({name + end for end in ("_bucket", "_sum", "_count")} if kind in ("histogram", "summary") else set())
    words = set("by on and or sum rate increase changes group count time vector predict_linear histogram_quantile ignoring "
                "group_left avg max min job instance le".split())
    for where, expr in expressions():
        bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\"[^\"]*\"|\b(?:by|on) \([^)]*\)|group_left \(\)|\b\d[\w.]*", " ", expr)
        for word in re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", bare):
            if word not in words:
                assert word in names, f"{where}: {word} in {expr}"


def test_dashboard_is_laid_out():
    """Panels neither overlap nor reach beyond the grid, have ids of their own, and ask the chosen Prometheus."""
    panels = dashboard()["panels"]
    assert len({p["id"] for p in panels}) == len(panels)
    cells = set()
    for panel in panels:
        at = panel["gridPos"]
        mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24 and not mine & cells, panel["title"]
        cells |= mine
        for target in panel.get("targets", []):
            assert target["datasource"]["uid"] == "${datasource}", panel["title"]
    first = [p["targets"][0]["expr"].split("{")[0] for p in panels[1:6]]
    assert first == ["ssp_state_machine_active_ratio", "kv_cache_fragmentation_rate", "temp_command_drop_rate",
                     "semantic_entropy_std_5tokens", "cross_block_consistency_score"]
    for panel in panels[1:6]:
        assert "ormal" in panel["description"] and len(panel["fieldConfig"]["defaults"]["thresholds"]["steps"]) > 1


def test_grafana_provisioning():
    source = yaml.safe_load(read("deploy/grafana/provisioning/datasources/wane.yml"))["datasources"][0]
    provider = yaml.safe_load(read("deploy/grafana/provisioning/dashboards/wane.yml"))["providers"][0]
    compose = yaml.safe_load(read("deploy/docker/compose.yml"))["services"]["grafana"]
    assert source["type"] == "prometheus" and source["url"] == "${WANE_PROMETHEUS_URL}"
    assert compose["environment"]["WANE_PROMETHEUS_URL"] == "http://prometheus:9090"
    assert f"../grafana/wane.json:{provider['options']['path']}/wane.json:ro" in compose["volumes"]


# ----------------------------------------------------------------- container

def test_dockerfile_is_linted():
    linter = shutil.which("hadolint") or shutil.which("hadolint", path=os.path.dirname(sys.executable))
    if not linter:
        pytest.skip("hadolint's package has no program for this machine")
    run(linter, "--failure-threshold", "style", os.path.join(DEPLOY, "docker", "Dockerfile"))


def instructions():
    text = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", read("deploy/docker/Dockerfile")))
    return [line.split(None, 1) for line in text.splitlines() if line.strip()]


def test_dockerfile():
    """Two stages, no rights in the second, a health check, and what is copied is there and not kept out."""
    lines = instructions()
    stages = [rest for word, rest in lines if word == "FROM"]
    assert len(stages) == 2 and stages[0].endswith(" AS build")
    last = lines[max(i for i, (word, _) in enumerate(lines) if word == "FROM"):]
    assert [rest for word, rest in last if word == "USER"] == ["10001:10001"]
    assert any(word == "HEALTHCHECK" for word, _ in last)
    allowed = re.findall(r"(?m)^!(\S+)", read("deploy/docker/Dockerfile.dockerignore"))
    for path in allowed:
        assert os.path.exists(os.path.join(ROOT, path)), path
    for word, rest in lines:
        if word == "COPY" and "--from" not in rest and not rest.startswith(". "):
            source = rest.split()[-2]
            assert source in allowed, source
    # What the build reads of the tree is let through.
    for word in ("Makefile", "CMakeLists.txt", "CMakePresets.json", "src", "include", "cmake", "scripts", "share", "tests", "bench", "docs"):
        assert word in allowed


def needed(path):
    return set(re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", path)))


def test_dockerfile_has_the_libraries():
    """Whatever program, library and engine link is in the image: by the packages that hold it here."""
    if not shutil.which("dpkg-query") or "bookworm" not in read("/etc/os-release"):
        pytest.skip("the image's packages are those of Debian 12")
    if os.environ.get("WANE_BUILD", "").endswith(("asan", "tsan")):
        pytest.skip("a sanitizer's build")
    build = os.path.dirname(WANE)
    engine = re.search(r"(/\S+)/libggml-base\.so", run("ldd", os.path.join(build, "libwane.so")))[1]
    files = [WANE, os.path.join(build, "libwane.so")] + [os.path.join(engine, name) for name in os.listdir(engine) if ".so" in name]
    wanted = set().union(*(needed(path) for path in files)) - set(os.listdir(engine)) - set(os.listdir(build))
    image = " ".join(rest for word, rest in instructions()[1:] if word == "RUN").split()
    there = {"libc6", "libgcc-s1"}  # of the base image, always
    wanted = {name for name in wanted if not name.startswith("ld-linux")}
    owners = {}
    for line in run("dpkg-query", "-S", *(f"*/{name}" for name in wanted)).splitlines():
        package, path = line.split(": ")
        owners.setdefault(os.path.basename(path), set()).add(package.split(":")[0])
    for name in sorted(wanted):
        assert owners[name] & (there | set(image)), f"{name} is of {owners[name]}, which the image does not install"


def test_container_health(scripted):
    ready = os.path.join(DEPLOY, "docker", "ready")
    server = scripted(replies=[{"text": "hello"}])
    run(ready, "127.0.0.1", str(server.port))
    server.terminate()
    run(ready, "127.0.0.1", str(server.port), code=1)


def test_compose():
    compose = yaml.safe_load(read("deploy/docker/compose.yml"))
    volumes, secrets = set(compose["volumes"]), set(compose["secrets"])
    folder = os.path.join(DEPLOY, "docker")
    for name, service in compose["services"].items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), name
        assert set(service["secrets"]) <= secrets
        assert set(service.get("depends_on", [])) <= set(compose["services"])
        image = service["image"]
        assert re.fullmatch(r"(wane:local|[a-z]+/[a-z]+:v?\d+(\.\d+)+)", image), f"{image}: a version, and no registry's host"
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert source in volumes if "/" not in source else os.path.exists(os.path.join(folder, source)), volume
    build = compose["services"]["wane"]["build"]
    assert os.path.realpath(os.path.join(folder, build["context"])) == ROOT
    assert os.path.exists(os.path.join(ROOT, build["dockerfile"]))


def test_compose_secrets(tmp_path, scripted):
    """The script makes what compose.yml hands in; wane takes the keys; a second run changes nothing."""
    shutil.copy(os.path.join(DEPLOY, "docker", "secrets"), tmp_path)
    mine = re.search(r"your key: (\S+)", run(str(tmp_path / "secrets")))[1]
    made = {name: (tmp_path / "secret" / name).read_text() for name in os.listdir(tmp_path / "secret")}
    wanted = {os.path.basename(secret["file"]) for secret in yaml.safe_load(read("deploy/docker/compose.yml"))["secrets"].values()}
    assert set(made) == wanted
    assert run(str(tmp_path / "secrets")) == ""
    assert made == {name: (tmp_path / "secret" / name).read_text() for name in os.listdir(tmp_path / "secret")}
    server = scripted(replies=[{"text": "hello"}], key_file=str(tmp_path / "secret" / "keys"))
    assert server.get("/metrics").status == 401
    for key in (mine, made["prometheus-key"]):
        assert server.get("/metrics", headers={"authorization": "Bearer " + key}).status == 200


# ------------------------------------------------------------------- systemd

UNITS = ("wane.service", "wane@.service")


@pytest.mark.parametrize("name", UNITS)
def test_systemd_unit(name, tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("this system has no systemd-analyze")
    unit = tmp_path / name.replace("@", "@8081")
    unit.write_text(read("deploy/systemd", name).replace("/usr/local/bin/wane", WANE))
    if "--offline" in run("systemd-analyze", "--help"):
        said = run("systemd-analyze", "security", "--offline=true", "--no-pager", str(unit))
        score = float(re.search(r"Overall exposure level for \S+: (\d+\.\d)", said)[1])
        assert score <= 1.5, said
    assert run("systemd-analyze", "verify", "--man=no", str(unit)) == ""


def test_a_replicas_unit_is_the_unit():
    """But for what belongs to one process."""
    lines = [[line for line in read("deploy/systemd", name).splitlines() if not line.startswith("#")] for name in UNITS]
    assert len(lines[0]) == len(lines[1])
    differing = {one.split("=")[0] for one, other in zip(*lines) if one != other}
    assert differing == {"Description", "ExecStart", "StateDirectory", "WorkingDirectory"}


@pytest.mark.parametrize("name", UNITS)
def test_systemd_command(name):
    """The unit's command line is one that wane takes, and waits for longer than wane does when it is stopped."""
    text = read("deploy/systemd", name)
    words = re.search(r"(?m)^ExecStart=\S+ (.*)$", text)[1].split()
    known = run(WANE, "help", words[0])
    assert all(word in known for word in words if word.startswith("--"))
    grace = int(re.search(r"(?m)^grace_ms = (\d+)", read("deploy/config/wane.conf"))[1])
    assert int(re.search(r"(?m)^TimeoutStopSec=(\d+)$", text)[1]) * 1000 > grace


def test_vllm_unit(tmp_path):
    """A unit that systemd takes, whose settings are ones that the plug-ins take and whose middleware is there."""
    text = read("deploy/fleet", "vllm@.service")
    if shutil.which("systemd-analyze"):
        unit, program = tmp_path / "vllm@8081.service", tmp_path / "vllm"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        unit.write_text(text.replace("/opt/vllm/bin/vllm", str(program)))
        assert run("systemd-analyze", "verify", "--man=no", str(unit)) == ""
    module, name = re.search(r"--middleware (\S+)\.(\w+) ", text).groups()
    source = read("python", *module.split(".")[:-1], module.split(".")[-1] + ".py")
    assert f"class {name}" in source
    known = set(re.findall(r"(?m)^    (\w+): ", read("python/wane_vllm", "settings.py").split("class Settings:")[1].split("@property")[0]))
    assert set(json.loads(read("deploy/fleet", "vllm.json"))) <= known


# -------------------------------------------------------------------- config

@pytest.mark.parametrize("name", sorted(os.listdir(os.path.join(DEPLOY, "config"))))
def test_config(name):
    """wane takes it, and from nowhere else comes what it says."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("WANE_")}
    said = json.loads(run(WANE, "config", "--config", os.path.join(DEPLOY, "config", name), "--json", env=clean))
    assert said["file_read"]


# --------------------------------------------------------------------- nginx

class Nginx:
    """The example between two scripted servers, with a certificate of its own and ports that are free."""

    def __init__(self, folder, ports):
        import socket
        with socket.socket() as a, socket.socket() as b:
            a.bind(("127.0.0.1", 0))
            b.bind(("127.0.0.1", 0))
            self.port, plain = a.getsockname()[1], b.getsockname()[1]
        run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=wane.example",
            "-keyout", str(folder / "wane.key"), "-out", str(folder / "wane.crt"))
        site = read("deploy/nginx/wane.conf").replace("/etc/nginx/", f"{folder}/")
        for old, new in (("listen 443", f"listen 127.0.0.1:{self.port}"), ("listen 80", f"listen 127.0.0.1:{plain}"),
                         ("127.0.0.1:8081", f"127.0.0.1:{ports[0]}"), ("127.0.0.1:8082", f"127.0.0.1:{ports[1]}")):
            assert old in site
            site = site.replace(old, new)
        site = re.sub(r"(?m)^\s*listen \[::\].*\n", "", site)
        (folder / "site.conf").write_text(site)
        temporary = "".join(f"{what}_temp_path {folder}/{what};\n" for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (folder / "nginx.conf").write_text(f"daemon off; pid {folder}/pid; error_log stderr; events {{}}\n"
                                           f"http {{ access_log off; {temporary} include {folder}/site.conf; }}\n")
        os.chmod(folder, 0o755)
        self.command = [exposition.tool("nginx"), "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"]

    def start(self, log):
        self.process = subprocess.Popen(self.command, stderr=log)

    def connect(self, timeout=20):
        import http.client
        import ssl
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=ssl._create_unverified_context())

    def ask(self, method, path, body=None, **headers):
        connection = self.connect()
        connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, data


@pytest.fixture
def proxied(scripted, tmp_path):
    replicas = [scripted(replies=[{"match": "long", "text": "x" * 30, "delay_ms": 30}, {"text": f"replica{i}"}]) for i in range(2)]
    nginx = Nginx(tmp_path, [replica.port for replica in replicas])
    said = run(*nginx.command, "-t")
    assert "warn" not in said, said
    with open(tmp_path / "nginx.log", "w") as log:
        nginx.start(log)
    eventually(lambda: answers(nginx), what="nginx's answer")
    yield nginx, replicas
    nginx.process.terminate()
    nginx.process.wait(10)


def answers(nginx):
    try:
        return nginx.ask("GET", "/nginx-health") == (200, b"ok\n")
    except OSError:
        return False


def text_of(nginx, key):
    status, data = nginx.ask("POST", "/v1/messages", messages("hi"), **{"x-api-key": key})
    assert status == 200, data
    return json.loads(data)["content"][0]["text"]


def test_nginx(proxied):
    """The same user to the same replica, both of them used; a stream as it comes; what is inside stays there; a replica may go."""
    nginx, replicas = proxied
    where = {key: text_of(nginx, key) for key in (f"key-{i}" for i in range(12))}
    assert set(where.values()) == {"replica0", "replica1"}
    assert all(text_of(nginx, key) == at for key, at in where.items())
    for path in ("/metrics", "/v1/wane/table/reload"):
        assert nginx.ask("GET", path)[0] == 404
    # A stream: its first event is there long before its last.
    connection = nginx.connect()
    connection.request("POST", "/v1/messages", json.dumps({**messages("long"), "stream": True}))
    answer = connection.getresponse()
    began, times = time.monotonic(), []
    while answer.readline():
        times.append(time.monotonic() - began)
    connection.close()
    assert answer.status == 200 and times[-1] - times[0] > 0.4, times[:3] + times[-3:]
    # A replica goes: its users are served by the other one, the other's stay.
    replicas[0].terminate()
    assert {text_of(nginx, key) for key in where} == {"replica1"}


# ------------------------------------------------------------ the page of it

# Programs of the system that docs/operations.md uses; what they are asked is theirs to know.
SYSTEM = set("wane-pull-table b2sum cat cd chmod cp curl docker du install journalctl ln mv nginx openssl printf promtool systemctl tar".split())


def commands():
    """The command lines of the page's sh blocks, as lists of words; each $(…) inside one is a command of its own."""
    import shlex
    for block in re.findall(r"(?ms)^```sh\n(.*?)^```", read("docs/operations.md")):
        for line in block.splitlines():
            inner = re.findall(r"\$\(([^()]*)\)", line)
            for part in [*re.split(r"\s(?:\||&&|;)\s", re.sub(r"\$\([^()]*\)", "X", line)), *inner]:
                words = [word for word in shlex.split(part) if not re.match(r"^\d?>", word)]
                while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                    words.pop(0)
                if words:
                    yield words


def check_wane(words):
    sub = words[1]
    known = run(WANE, "help", sub)
    usage = known.split("\n\n")[0]
    for i, word in enumerate(words[2:]):
        if word.startswith("--"):
            name = re.split("[= ]", word)[0]  # wane diagnose takes several in one word
            assert re.search(rf"{name}\b|--\[no-\]{name[2:]}\b", known), f"wane {sub} has no {name}"
    if len(words) > 2 and not words[2].startswith("-") and f"wane {sub} {words[2]}" not in usage:
        assert "FILE" in usage or "MODEL" in usage, words


def test_operations_commands():
    """Every command of the page exists: wane's with its options, make's targets, the server's routes, files of this repository."""
    targets = set(re.findall(r"(?m)^(\w+):", read("Makefile")))
    routes = set(re.findall(r"(?m)^\| `(/[^`]*)`", read("docs/api.md")))
    seen = set()
    for words in commands():
        program = os.path.basename(words[0])
        seen.add(program)
        if program == "wane":
            check_wane(words)
        elif program == "make":
            assert words[1] in targets, words
        elif words[0] == "./secrets":
            assert os.path.exists(os.path.join(DEPLOY, "docker", "secrets"))
        elif words[0].startswith("deploy/"):
            assert os.access(os.path.join(ROOT, words[0]), os.X_OK), words
        else:
            assert program in SYSTEM, f"{words}: what is {program}?"
        for word in words:
            if word.startswith("deploy/"):
                assert os.path.exists(os.path.join(ROOT, word)), word
            if word.startswith("http://127.0.0.1:8080/"):
                assert word[len("http://127.0.0.1:8080"):] in routes, word
    assert {"wane", "make", "systemctl", "curl", "nginx", "promtool", "docker"} <= seen
