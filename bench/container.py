#!/usr/bin/env python3
"""The image, for real: built from deploy/docker/Dockerfile and run as deploy/docker/compose.yml says, by buildah and podman, without a registry.

usage: container.py FOLDER [--image wane:local] [--rebuild] [--systemd] [--debian MIRROR] [--cache ~/.cache/wane] [--json FILE]

Needs root, buildah, podman, crun, debootstrap (Debian's packages of these names), curl and PyYAML. FOLDER holds images and volumes (some GB), and what
is there is not made again. Everything works without a container engine's usual privileges: storage by copies, builds by chroot, no control groups.

 1  base     debian:bookworm-slim, by debootstrap where no such image is here
 2  cache    the builder's cache gets the engine and the model that lie in --cache, so that neither is fetched nor built
 3  image    deploy/docker/Dockerfile, unchanged
 4  run      the service `wane` of compose.yml: its command, volumes, tmpfs, secret, limits, read-only root, no capabilities
 5  look     user, capabilities, health check, 401 without a key, an answer with one, audit log, doctor, sketch not built at the start
 6  restart  stopped within its grace with status 0; what it remembers is in its volume
 7  unit     with --systemd: deploy/systemd/wane.service under a systemd of its own, in a container of Debian with what the image has in /usr/local,
             set up by the commands of docs/operations.md: it becomes ready under all of its hardening, answers, is killed and comes back, stops

Each container has a network of its own and nothing else in it: what is asked is asked in there. Exit status 0: all of it; 1: not (it says what was seen); 2: it
could not be tried.
"""
import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = "smollm2-135m"
NAME = "wane-container-try"
PODMAN = ("podman", "--runtime", "crun", "--cgroup-manager", "cgroupfs")


class Failed(Exception):
    """It is not as it should be."""


class Stop(Exception):
    """It cannot be tried here."""


def run(*words, codes=(0,), timeout=3600, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout, **more)
    if codes is not None and done.returncode not in codes:
        raise Failed(f"{' '.join(map(str, words))[:300]}: exit status {done.returncode}: {(done.stderr or done.stdout)[-1500:]}")
    return done


def own_view():
    """Control groups of both versions at once are more than crun knows: in a view of our own there is one."""
    if os.path.ismount("/sys/fs/cgroup/unified") and "WANE_CONTAINER_VIEW" not in os.environ:
        os.environ["WANE_CONTAINER_VIEW"] = "1"
        os.execvp("unshare", ["unshare", "--mount", "sh", "-c", 'umount /sys/fs/cgroup/unified && exec "$@"', "sh", sys.executable, *sys.argv])


class Try:
    def __init__(self, args):
        self.args, self.folder, self.steps, self.began = args, pathlib.Path(args.folder).resolve(), [], time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "storage.conf").write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{self.folder}/graph"\nrunroot = "{self.folder}/run"\n')
        os.environ.update(CONTAINERS_STORAGE_CONF=str(self.folder / "storage.conf"), STORAGE_DRIVER="vfs", TMPDIR=str(self.folder / "tmp"))
        (self.folder / "tmp").mkdir(exist_ok=True)

    def say(self, step, found):
        seconds = round(time.monotonic() - self.began, 1)
        self.steps.append({"step": step, "seconds": seconds, "found": found})
        print(f"ok  {seconds:7.1f} s  {step}: {found}", flush=True)

    def has(self, image):
        return run("buildah", "inspect", "--type", "image", image, codes=None).returncode == 0

    # ---- the image

    def base(self):
        image = "debian:bookworm-slim"
        if not self.has(image):
            tree = self.folder / "debian"
            if not (tree / "etc" / "debian_version").exists():
                run("debootstrap", "--variant=minbase", "bookworm", tree, *filter(None, [self.args.debian]))
            container = run("buildah", "from", "scratch").stdout.strip()
            at = run("buildah", "mount", container).stdout.strip()
            run("cp", "-a", f"{tree}/.", f"{at}/")
            run("buildah", "umount", container)
            run("buildah", "commit", "--quiet", container, image)
            run("buildah", "rm", container)
        self.say("base", image)

    def build(self, context, *more):
        run("buildah", "build", "--isolation", "chroot", "--pull=never", "--format", "docker", *more, context)

    def image(self):
        if self.has(self.args.image) and not self.args.rebuild:
            self.say("image", f"{self.args.image} is here")
            return
        cache, context = pathlib.Path(self.args.cache).expanduser(), self.folder / "cache"
        shutil.rmtree(context, ignore_errors=True)
        (context / "models").mkdir(parents=True)
        (context / "engine").mkdir()
        for engine in (cache / "engine").glob("v*"):
            if not engine.name.endswith("-server"):
                shutil.copytree(engine, context / "engine" / engine.name, symlinks=True)
        shutil.copy(cache / "models" / f"{MODEL}.gguf", context / "models")
        (context / "Dockerfile").write_text("FROM debian:bookworm-slim\nCOPY . /seed\nRUN --mount=type=cache,target=/cache rm -f /seed/Dockerfile && cp -a /seed/. /cache/\n")
        self.build(context, "--no-cache", "--tag", "wane-seed")
        self.say("cache", ", ".join(sorted(p.name for p in (*(context / "engine").iterdir(), *(context / "models").iterdir()))))
        docker = ROOT / "deploy" / "docker"
        self.build(ROOT, "--file", docker / "Dockerfile", "--ignorefile", docker / "Dockerfile.dockerignore", "--tag", self.args.image)
        size = int(json.loads(run("buildah", "inspect", "--type", "image", self.args.image).stdout)["Docker"].get("Size") or 0)
        self.say("image", f"{self.args.image}{f', {size / 1e6:.0f} MB' if size else ''}")

    # ---- the service

    def start(self):
        import yaml
        service = yaml.safe_load((ROOT / "deploy" / "docker" / "compose.yml").read_text())["services"]["wane"]
        self.grace = int(service["stop_grace_period"].rstrip("s"))
        words = [*PODMAN, "run", "--detach", "--name", NAME, "--cgroups", "disabled",
                 "--network", "none", "--ulimit", "nproc=4096:4096",
                 "--health-interval", "disable"]  # asked below: podman's own timer is systemd's
        words += ["--read-only"] if service["read_only"] else []
        words += [w for c in service["cap_drop"] for w in ("--cap-drop", c.lower())]
        words += [w for o in service["security_opt"] for w in ("--security-opt", o.replace(":true", ""))]
        words += [w for v in service["volumes"] for w in ("--volume", v)]
        words += [w for t in service["tmpfs"] for w in ("--tmpfs", t)]
        for name, limit in service["ulimits"].items():
            most = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]  # what this machine lets us give
            if most != resource.RLIM_INFINITY and not 0 <= limit <= most:
                limit = most
            words += ["--ulimit", f"{name}={limit}:{limit}"]
        secrets = self.folder / "secrets"
        if not (secrets / "secret" / "keys").exists():
            secrets.mkdir(exist_ok=True)
            shutil.copy(ROOT / "deploy" / "docker" / "secrets", secrets)
            run(secrets / "secrets")
        self.key = re.search(r"(?m)^me mine (\S+)", (secrets / "secret" / "keys").read_text())[1]
        for secret in service["secrets"]:
            words += ["--volume", f"{secrets}/secret/{'keys' if secret == 'wane-keys' else secret}:/run/secrets/{secret}:ro"]
        run(*words, self.args.image, *service["command"])
        self.wait_ready()

    def state(self, what):
        return run("podman", "inspect", "--format", "{{" + what + "}}", NAME).stdout.strip()

    def wait_ready(self):
        until = time.monotonic() + 180
        self.pid = self.state(".State.Pid")
        while self.curl("/ready")[0] != 200:
            if self.state(".State.Running") != "true" or time.monotonic() > until:
                raise Failed("it did not become ready: " + self.log()[-1500:])
            time.sleep(0.2)

    def log(self):
        done = run("podman", "logs", NAME)
        return done.stdout + done.stderr

    def curl(self, path, body=None, key=None):
        """Status and body, asked inside its network."""
        words = ["nsenter", "--target", self.pid, "--net", "curl", "--silent", "--max-time", "120", "--write-out", "\n%{http_code}", f"http://127.0.0.1:8080{path}"]
        words += ["--header", f"Authorization: Bearer {key}"] if key else []
        words += ["--header", "Content-Type: application/json", "--data", json.dumps(body)] if body else []
        text, _, status = run(*words, codes=None).stdout.rpartition("\n")
        return int(status or 0), text

    def inside(self, *words, codes=(0,)):
        return run("podman", "exec", NAME, *words, codes=codes)

    def answer(self):
        body = {"messages": [{"role": "user", "content": "Name three colours."}], "max_tokens": 16, "temperature": 0}
        status, text = self.curl("/v1/chat/completions", body, self.key)
        if status != 200:
            raise Failed(f"it answers {status}: {text[:400]}")
        return json.loads(text)["choices"][0]["message"]["content"]

    def check(self, right, what):
        if not right:
            raise Failed(what)

    def look(self):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        uid, caps, fresh = (re.search(rf"(?m)^{name}:\s+(\S+)", status)[1] for name in ("Uid", "CapEff", "NoNewPrivs"))
        self.check((uid, int(caps, 16), fresh) == ("10001", 0, "1"), f"it runs as {uid} with capabilities {caps}, no-new-privileges {fresh}")
        self.check(self.inside("touch", "/usr/x", codes=None).returncode != 0, "its root can be written")
        self.check(run("podman", "healthcheck", "run", NAME, codes=None).returncode == 0, "the health check fails")
        self.say("look", "user 10001, no capabilities, no new privileges, root read-only, healthy")
        for path in ("/metrics", "/v1/models"):
            self.check(self.curl(path)[0] == 401, f"{path} answers {self.curl(path)[0]} without a key")
        self.said = self.answer()
        self.check(self.said.strip() != "", "its answer is empty")
        self.check("head: certified" in self.log() and "making the sketch" not in self.log(), "it has no sketch, or makes one at the start: " + self.log()[-800:])
        self.check(self.curl("/metrics", key=self.key)[1].count("wane_build_info") > 0, "no metrics")
        time.sleep(1)
        self.inside("wane", "audit", "verify", "/var/lib/wane/audit.db")
        doctor = json.loads(self.inside("wane", "doctor", "--json", codes=(0, 1, 2)).stdout)["checks"]
        critical = [c["check"] for c in doctor if c["level"] == "CRITICAL"]
        self.check(not critical, f"doctor: {critical}: {doctor}")
        self.say("look", f"401 without a key, with one {self.said[:60]!r}; sketch of the image; audit log whole; doctor: {len(doctor)} checks, none critical")

    def restart(self):
        began = time.monotonic()
        run("podman", "stop", "--time", self.grace, NAME)
        took, code = time.monotonic() - began, self.state(".State.ExitCode")
        self.check(code == "0" and "stopped" in self.log(), f"it ended with status {code}: {self.log()[-500:]}")
        run(*PODMAN, "start", NAME)
        self.wait_ready()
        self.check(self.answer() == self.said, "its answer is another one after a restart")
        hits = re.search(r"(?m)^wane_memo_hits_total (\d+)", self.curl("/metrics", key=self.key)[1])
        self.check(hits and int(hits[1]) > 0, "it remembers nothing")
        self.say("restart", f"stopped in {took:.1f} s with status 0; {hits[1]} tokens of the same answer from the memo in its volume")

    # ---- the unit

    def unit(self):
        image, folder, docker = "wane-systemd", self.folder / "systemd", (ROOT / "deploy" / "docker" / "Dockerfile").read_text()
        libraries = " ".join(re.search(r"ca-certificates (lib[^\\\n]*)", docker)[1].split())
        folder.mkdir(exist_ok=True)
        (folder / "Dockerfile").write_text(f"FROM debian:bookworm-slim\nRUN apt-get update && apt-get install --yes --no-install-recommends systemd curl {libraries} "
                                           f"&& rm -rf /var/lib/apt/lists/*\nCOPY --from={self.args.image} /usr/local /usr/local\n"
                                           f"COPY --from={self.args.image} /var/cache/wane/sketches /var/cache/wane/sketches\n")
        if not self.has(image) or self.args.rebuild:
            self.build(folder, "--tag", image)
        self.clean()
        run(*PODMAN, "run", "--detach", "--name", NAME, "--cgroups", "disabled", "--network", "none", "--ulimit", "nproc=4096:4096", "--ulimit",
            "nofile=4096:4096", "--privileged", "--systemd", "always", "--tmpfs", "/run", "--tmpfs", "/tmp", "--volume", "/sys/fs/cgroup:/sys/fs/cgroup:rw",
            "--env", "container=podman", image, "/lib/systemd/systemd", "--system")
        key = "0123456789abcdef0123456789abcdef0123456789abcdef"
        for path, text in (("/etc/wane/wane.conf", (ROOT / "deploy" / "config" / "wane.conf").read_text()), ("/etc/wane/keys", f"me mine {key}\n"),
                           ("/etc/systemd/system/wane.service", (ROOT / "deploy" / "systemd" / "wane.service").read_text())):
            self.shell(f"mkdir -p {os.path.dirname(path)} && umask 077 && cat >{path} && chmod {'0600' if path.endswith('keys') else '0644'} {path}", text)
        self.shell(f"mkdir -p /var/cache/wane/models && ln /usr/local/share/wane/models/{MODEL}.gguf /var/cache/wane/models/ && chmod -R a+rX /var/cache/wane")
        self.shell("wane config --config /etc/wane/wane.conf >/dev/null && systemctl daemon-reload && systemctl enable --now wane")
        self.pid, self.key = self.state(".State.Pid"), key
        handed = "keys as a credential"
        try:
            self.wait_unit()
        except Failed as fault:
            # Where neither a file system with access control lists nor ramfs can be had, systemd cannot hand a credential to a user.
            if "/run/credentials" not in str(fault) or "Permission denied" not in str(fault):
                raise
            handed = "this kernel has no access control lists: keys from their file instead of a credential"
            self.shell("mkdir -p /etc/systemd/system/wane.service.d && cat >/etc/systemd/system/wane.service.d/keys.conf && chmod 0644 /etc/wane/keys",
                       "[Service]\nLoadCredential=\nExecStart=\nExecStart=/usr/local/bin/wane serve --config /etc/wane/wane.conf --key-file /etc/wane/keys\n")
            self.shell("systemctl daemon-reload && systemctl reset-failed wane && systemctl start wane")
            self.wait_unit()
        main = self.shell("systemctl show --property MainPID --value wane").strip()
        status = dict(re.findall(r"(?m)^(Uid|CapEff|NoNewPrivs|Seccomp):\s+(\S+)", self.shell(f"cat /proc/{main}/status")))
        self.check(status["Uid"] != "0" and int(status["CapEff"], 16) == 0 and status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", f"it runs with {status}")
        self.check(self.curl("/v1/models")[0] == 401, "it answers without a key")
        said = self.answer()
        self.shell(f"kill -9 {main}")
        time.sleep(3)
        self.wait_unit()
        self.check(self.answer() == said, "its answer is another one after a kill")
        places = self.shell("ls /var/lib/private/wane").split()
        self.shell("systemctl stop wane")
        result = self.shell("systemctl show --property Result,ExecMainStatus --value wane").split()
        self.check(result == ["success", "0"], f"it ended with {result}: {self.shell('journalctl --unit wane --no-pager | tail -20')}")
        score = re.search(r"exposure level.*: (\S+)", self.shell("systemd-analyze security --no-pager wane"))[1]
        self.say("unit", f"user {status['Uid']}, no capabilities, filtered calls; answers; back after kill -9; stopped with status 0; in its folder: {', '.join(places)}; exposure {score}; {handed}")

    def shell(self, command, text=None):
        return run("podman", "exec", "--interactive", NAME, "sh", "-c", command, input=text or "").stdout

    def wait_unit(self):
        until = time.monotonic() + 120
        while self.curl("/ready")[0] != 200:
            if time.monotonic() > until or self.shell("systemctl is-failed wane || true").strip() == "failed":
                raise Failed("the unit did not become ready: " + self.shell("journalctl --unit wane --no-pager | tail -20"))
            time.sleep(0.3)

    def clean(self):
        run("podman", "rm", "--force", "--volumes", NAME, codes=None)
        for volume in ("wane-state", "wane-cache"):
            run("podman", "volume", "rm", "--force", volume, codes=None)

    def all(self):
        for program in ("buildah", "podman", "crun", "debootstrap", "curl", "nsenter"):
            if not shutil.which(program):
                raise Stop(f"there is no {program}")
        if os.geteuid() != 0:
            raise Stop("images are made and run as root here")
        self.clean()
        self.base()
        self.image()
        try:
            self.start()
            self.say("run", f"{self.args.image}, ready")
            self.look()
            self.restart()
            if self.args.systemd:
                self.unit()
        finally:
            self.clean()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("--image", default="wane:local")
    p.add_argument("--rebuild", action="store_true")
    p.add_argument("--systemd", action="store_true")
    p.add_argument("--debian", default="", help="where packages come from; not given: as debootstrap does")
    p.add_argument("--cache", default=os.environ.get("WANE_CACHE") or "~/.cache/wane")
    p.add_argument("--json")
    args = p.parse_args()
    own_view()
    one, code, why = Try(args), 0, ""
    try:
        one.all()
    except Failed as fault:
        code, why = 1, str(fault)
    except (Stop, OSError, ImportError, subprocess.TimeoutExpired) as fault:
        code, why = 2, str(fault)
    if why:
        print(f"container: {why}", file=sys.stderr)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"passed": code == 0, "why": why, "steps": one.steps}, indent=1) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
