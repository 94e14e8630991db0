#!/usr/bin/env python3
"""An incident from end to end, on a real server, as one command: a table with a wrong entry is served, and everything that should notice does.

usage: incident.py [FOLDER] [--model smollm2-135m] [--wane build/wane] [--requests 60] [--threads 1] [--prometheus PATH] [--no-prometheus] [--json FILE]

 1  replies are recorded, and a table is built of them; one of its entries is made wrong (bench/wrong_table.py), under `argmax`
 2  the table is rolled out to all requests, and the first of them come
 3  the shadow check finds the wrong entry; no reply has a wrong token
 4  the breaker switches the table off (--breaker-divergences 1: else the rollout's bar, which allows one in 100,000, steps back before it)
 5  its rollout steps back
 6  the web hook gets signed messages, and the shipped rules fire in a real Prometheus
 7  the audit log, whole, shows which requests looked up in that table
 8  doctor and diagnose name the cause
 9  the good table takes its place: it is on, the alert is cleared, its rollout begins anew, replies are the same

Each step is a line with the seconds since the wrong table was served. The exit status is 0 when all of it happened, 1 when a step did
not (it says what was seen), 2 when it could not be tried. FOLDER (a temporary one otherwise) keeps logs and files.
"""
import argparse
import hashlib
import hmac
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import serving  # noqa: E402
import wrong_table  # noqa: E402
from prometheus import Prometheus  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROMPTS = ["Write three sentences about the sea.", "List five kinds of bread.", "Explain how a clock works.", "Say what a library is for.",
           "Describe a winter morning.", "Give advice to somebody who learns to swim."]
TOKENS = 48
SECRET = b"a secret of the incident's own"
STEPS = {3: "the shadow check finds the wrong entry", 4: "the breaker switches the table off", 5: "its rollout steps back",
         6: "the hook and Prometheus are told", 7: "the audit log shows who looked up in it", 8: "doctor and diagnose name the cause",
         9: "the good table takes its place"}


class Failed(Exception):
    """A step did not happen."""


def wait(condition, seconds, what):
    until = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > until:
            raise Failed(f"{what} did not happen within {seconds} s")
        time.sleep(0.1)


class Hook:
    def __init__(self):
        hook, self.got = self, []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                hook.got.append((self.headers.get("wane-signature", ""), body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def messages(self):
        """What was signed rightly; anything else is a fault."""
        out = []
        for signature, body in list(self.got):
            when, mac = (part.split("=", 1)[1] for part in signature.split(","))
            if not hmac.compare_digest(mac, hmac.new(SECRET, when.encode() + b"." + body, hashlib.sha256).hexdigest()):
                raise Failed("a message's signature is wrong")
            out.append(json.loads(body))
        return out


class Incident:
    def __init__(self, args, folder):
        self.args, self.folder, self.steps, self.began = args, folder, [], None
        self.prometheus = None

    def say(self, number, found):
        seconds = round(time.monotonic() - self.began, 2)
        self.steps.append({"step": number, "what": STEPS[number], "seconds": seconds, "found": found})
        print(f"ok  {seconds:7.2f} s  {STEPS[number]}: {found}", flush=True)

    def wane(self, *words, codes=(0,)):
        done = subprocess.run([self.args.wane, *map(str, words)], capture_output=True, text=True, timeout=300, check=False,
                              env={k: v for k, v in os.environ.items() if not k.startswith("WANE_") or k in ("WANE_CACHE", "WANE_BACKENDS", "WANE_OFFLINE")})
        if done.returncode not in codes:
            raise Failed(f"wane {' '.join(map(str, words))}: exit code {done.returncode}: {(done.stderr or done.stdout)[-600:]}")
        return done.stdout

    def server(self, name, *options):
        place = self.folder / name
        place.mkdir(exist_ok=True)
        # One row in a call and nothing reused: the same request has the same floats, so that what was recorded is what is said again.
        return serving.Server(self.args, place, name, ["--no-prefix-reuse", "--temperature", "0", "--context", "512", *map(str, options)])

    def say_all(self, server, prompts=PROMPTS):
        body = {"max_tokens": TOKENS, "temperature": 0}
        return [server.ask({**body, "messages": [{"role": "user", "content": p}]})["choices"][0]["message"]["content"] for p in prompts]

    def get(self, server, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=60) as reply:
            return json.load(reply)

    def table_of(self, server):
        return next(f for f in self.get(server, "/v1/wane/alerts")["features"] if f["name"] == "table")

    # ---- before

    def prepare(self):
        f = self.folder
        with self.server("recording", "--record", f / "trace") as server:
            self.replies = self.say_all(server)
            if self.say_all(server) != self.replies:
                raise serving.Stop("the same requests have other replies, before anything is wrong: is another program at work?")
        self.wane("table", "build", "--log-file", f / "trace", "-o", f / "good.slmt", "--min-seen", 2)
        image, self.wrong = wrong_table.spoil((f / "good.slmt").read_bytes())
        (f / "bad.slmt").write_bytes(image)
        self.digest = hashlib.blake2b(image, digest_size=32).hexdigest()
        (f / "secret").write_bytes(SECRET)
        (f / "secret").chmod(0o600)
        shutil.copy(f / "bad.slmt", f / "table.slmt")
        self.wane("rollout", "plan", "--rollout", f / "rollout.json", "--rollout-features", "table", "--rollout-share", 1, "--rollout-users", "none",
                  "--rollout-hold", 3600, "--rollout-requests", 0)
        self.wane("rollout", "start", "--rollout", f / "rollout.json")

    # ---- the incident

    def run(self):
        f = self.folder
        self.prepare()
        self.hook = Hook()
        with self.server("serving", "--table", f / "table.slmt", "--table-meaning", "argmax", "--shadow", 0.05, "--breaker-divergences", 1, "--audit", f / "audit.db", "--rollout",
                         f / "rollout.json", "--alert-url", self.hook.url, "--alert-secret-file", f / "secret") as server:
            if self.args.prometheus:
                self.prometheus = Prometheus(self.args.prometheus, f / "prometheus", [f"127.0.0.1:{server.port}"], every="500ms")
                wait(lambda: self.prometheus.query("output_divergence_count == 0"), 30, "Prometheus' first look")
            try:
                self.began = time.monotonic()
                self.notice(server)
                self.tell(server)
                self.explain(server)
                self.mend(server)
            finally:
                if self.prometheus:
                    self.prometheus.stop()

    def notice(self, server):
        sent, found = 0, None
        while sent < self.args.requests:
            which = sent % len(PROMPTS)
            reply = self.say_all(server, [PROMPTS[which]])[0]
            sent += 1
            if reply != self.replies[which]:
                raise Failed(f"the reply to {PROMPTS[which]!r} is another one: {reply!r}")
            table = self.table_of(server)
            if table["divergences"] and found is None:
                found = sent
                self.say(3, f"in request {found}, {table['divergences']} of {table['checks']} records that were looked at; every reply is as recorded")
            if table["off"]:
                self.say(4, f"in request {sent}: {table['last']}")
                return
        raise Failed(f"{sent} requests, and the table is on: {self.table_of(server)}")

    def tell(self, server):
        def back():
            status = json.loads(self.wane("rollout", "status", "--rollout", self.folder / "rollout.json", "--json"))
            table = status["features"]["table"]
            return table if table["stage"] == 0 else None
        table = wait(back, 10, "a step back")
        self.say(5, f"{table['phase']}, nobody has it: {table['why']}")

        def told():
            messages = self.hook.messages()
            names = {(m["name"], m["state"]) for m in messages}
            return names if {("table_divergence", "raised"), ("rollout_step_back", "raised")} <= names else None
        names = sorted(" ".join(n) for n in wait(told, 20, "both messages"))
        firing = sorted(wait(lambda: {"WaneDivergence"} <= self.prometheus.firing() and self.prometheus.firing(), 60, "WaneDivergence")) if self.prometheus else []
        self.say(6, f"hook: {', '.join(names)}; firing: {', '.join(firing) or 'no Prometheus here'}")

    def explain(self, server):
        f = self.folder

        def used():
            lines = self.wane("audit", "export", "--table", self.digest[:16], f / "audit.db").splitlines()
            return [r for r in map(json.loads, lines) if r.get("event") == "request"]
        rows = wait(used, 10, "records of that table")
        parted = [r for r in rows if (r.get("divergences") or (r.get("shadow") or {}).get("divergences") or 0)]
        self.wane("audit", "verify", f / "audit.db")
        if not parted:
            raise Failed(f"none of {len(rows)} records says that its shadow check parted: {rows[-1]}")
        self.say(7, f"{len(rows)} requests, {len(parted)} of them with a divergence, first {parted[0]['request']}; the chain is whole")
        doctor = json.loads(self.wane("doctor", "--model", self.args.model, "--url", f"http://127.0.0.1:{server.port}", "--json", codes=(0, 1, 2)))
        checks = doctor["checks"] if isinstance(doctor, dict) else doctor
        named = [c for c in checks if "diverg" in json.dumps(c).lower()]
        if not named:
            raise Failed(f"doctor does not say that something diverged: {checks}")
        named = next((c for c in named if c.get("check") == "ALERTS"), named[0])
        use = f"--table {f}/{{}} --table-meaning argmax"
        said = []
        for prompt in PROMPTS:
            out = json.loads(self.wane("diagnose", "--model", self.args.model, "--context", 512, "--max-tokens", TOKENS, "--json", "--a",
                                       use.format("good.slmt"), "--b", use.format("bad.slmt"), prompt, codes=(0, 1)))
            said += [e for e in (out.get("b") or {}).get("entries", []) if str(self.wrong["is"]) in json.dumps(e)]
            if said:
                break
        if not said:
            raise Failed(f"diagnose does not name the entry that was made wrong: {self.wrong}")
        self.say(8, f"doctor: {json.dumps(named)[:260]}; diagnose: {json.dumps(said[0])[:260]}")

    def mend(self, server):
        f = self.folder
        shutil.copy(f / "good.slmt", f / "table.new")
        os.replace(f / "table.new", f / "table.slmt")
        wait(lambda: not self.table_of(server)["off"], 20, "the good table")
        alerts = {a["name"]: a for a in self.get(server, "/v1/wane/alerts")["alerts"]}
        if alerts["table_divergence"]["raised"]:
            raise Failed("the alert is still raised")
        before = self.table_of(server)["checks"]
        self.wane("rollout", "start", "--rollout", f / "rollout.json", "table")

        def looked_at():
            if self.say_all(server) != self.replies:
                raise Failed("replies are others than before")
            return self.table_of(server)["checks"] > before
        wait(looked_at, 30, "a lookup in the good table")
        table = self.table_of(server)
        if table["since_armed"]:
            raise Failed(f"the good table diverges as well: {table['last']}")
        self.say(9, f"on, alert cleared, rolled out anew, {table['checks'] - before} records looked at, {len(PROMPTS)} replies as recorded")


def find_prometheus(args):
    if args.no_prometheus:
        return None
    cache = os.environ.get("WANE_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "wane")
    found = args.prometheus or shutil.which("prometheus") or shutil.which("prometheus", path=os.path.join(cache, "tools"))
    if not found:
        raise serving.Stop("there is no prometheus; scripts/deps test brings it, --no-prometheus leaves it out")
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", nargs="?")
    p.add_argument("--model", default="smollm2-135m")
    p.add_argument("--wane", default=str(ROOT / "build" / "wane"))
    p.add_argument("--requests", type=int, default=60)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--prometheus")
    p.add_argument("--no-prometheus", action="store_true")
    p.add_argument("--json")
    args = p.parse_args()
    args.slots = 1
    folder = pathlib.Path(args.folder or tempfile.mkdtemp(prefix="wane-incident-")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    incident, code, why = Incident(args, folder), 0, ""
    try:
        if any(folder.iterdir()):
            raise serving.Stop(f"{folder} is not empty")
        args.prometheus = find_prometheus(args)
        incident.run()
    except Failed as fault:
        code, why = 1, str(fault)
    except (serving.Stop, subprocess.TimeoutExpired, OSError) as fault:
        code, why = 2, str(fault)
    if why:
        print(f"incident: {why} (logs and files: {folder})", file=sys.stderr)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"passed": code == 0, "why": why, "steps": incident.steps}, indent=1) + "\n")
    if code == 0 and not args.folder:
        shutil.rmtree(folder)
    return code


if __name__ == "__main__":
    sys.exit(main())
