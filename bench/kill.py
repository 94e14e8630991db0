#!/usr/bin/env python3
"""kill -9 at random moments while a server is under load: is what it leaves whole, and how soon does it serve again?

usage: kill.py run FOLDER [--model script|smollm2-135m] [--kills 50] [--clients 6] [--longest 5] [--threads 1] [--seed 1] [--seconds N]
                [--wane build/wane] [--script-server build/tests/script_server] [--json FILE]
       kill.py report FOLDER [--json FILE]

A round: start a server with an audit log, a table, traces, feedback of replies and, where this wane has one, a rollout; let clients ask it in both APIs,
streamed and whole, leave in the middle, and reload the table; beside it `wane table build` writes that very table anew from the traces, over and over, and
the rollout is moved back and forth. At a random moment of the first --longest seconds under load everything is killed at once with SIGKILL. Then:

audit      `wane audit verify` finds every record in order; half of one is never there
tables     the table's file is a whole one, old or new (`wane table info`); no client saw another answer than a served one
rollout    its file is read by `wane rollout status`
feedback   the pool is read to its end
restart    the server is started again on what is there, and each reply that a client got whole is a record or counted in a gap; time from its
           start until it is ready, less the time until its model is loaded (what the log says), is what the bar of 3 s is for

Each round is a line of FOLDER/kills.jsonl, so that a run that was stopped, or that stopped itself after about --seconds, goes on where it was. The
moments come from --seed. Exit code 1 when anything was not whole.
"""
import argparse
import http.client
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import serving  # noqa: E402

FIELDS = {"round", "audit", "restart_s"}
BAR_S = 3.0
WORDS = "Tell me something about red green blue cats dogs seas skies one two three bridges tea and glaciers please".split()
REPLIES = [{"match": text, "text": f"{text} it is, and no other; " * 6, "delay_ms": delay}
           for text, delay in (("red", 1), ("cats", 2), ("seas", 0), ("one", 4))] + [{"match": "", "text": "So be it. " * 10, "delay_ms": 1}]


def run_tool(*command, **more):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, **more)


class Server:
    """The server of a round, on what lies in the state's folder."""

    def __init__(self, args, state, rollout):
        self.args, self.state, self.ready = args, state, state / "port"
        self.log = state / "serve.log"
        self.ready.unlink(missing_ok=True)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("WANE_") or k in ("WANE_CACHE", "WANE_BACKENDS", "WANE_OFFLINE")}
        environment["WANE_CONFIG"] = "/dev/null"
        table = state / "t.slmt"
        self.began = time.monotonic()
        with open(self.log, "w", encoding="utf-8") as log:
            if args.model == "script":
                setup = {"replies": REPLIES, "sequences": 4, "window_ms": 1, "audit": {"file": str(state / "audit")},
                         "record": {"folder": str(state / "traces")}}
                if table.exists():
                    setup["table"] = str(table)
                if rollout:
                    setup["rollout"] = str(state / "rollout")
                (state / "setup.json").write_text(json.dumps(setup))
                self.process = subprocess.Popen([args.script_server, str(state / "setup.json")], stdout=subprocess.PIPE, stderr=log, text=True)
            else:
                command = [args.wane, "serve", "--model", args.model, "--port", "0", "--ready-file", str(self.ready), "--slots", "4", "--audit",
                           str(state / "audit"), "--record", str(state / "traces"), "--trace-files", "3", "--feedback", str(state / "feedback"),
                           "--threads", str(args.threads), "--batch-threads", str(args.threads), "--context", "512"]
                if table.exists():
                    command += ["--table", str(table)]
                if rollout:
                    command += ["--rollout", str(state / "rollout")]
                self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def wait(self):
        """Until it answers; (seconds from its start, seconds until its model was there)."""
        if self.args.model == "script":
            line = self.process.stdout.readline()
            if not line.startswith("port "):
                raise serving.Stop("the server did not start:\n" + self.log.read_text()[-2000:])
            self.port = int(line.split()[1])
            return time.monotonic() - self.began, 0.0
        loaded = None
        while not self.ready.exists():
            if self.process.poll() is not None or time.monotonic() - self.began > 300:
                raise serving.Stop("the server did not start:\n" + self.log.read_text()[-2000:])
            if loaded is None and re.search(r" loaded ", self.log.read_text()):
                loaded = time.monotonic() - self.began
            time.sleep(0.005)
        self.port = int(self.ready.read_text())
        return time.monotonic() - self.began, loaded or 0.0

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        status = self.process.wait(timeout=60)
        if status != 0:
            raise serving.Stop(f"the server ended with status {status}:\n" + self.log.read_text()[-2000:])


class Clients:
    """Ask until the server is gone; what they were given whole."""

    def __init__(self, port, count, seed):
        self.port, self.ids, self.lock, self.over = port, [], threading.Lock(), False
        self.threads = [threading.Thread(target=self.ask, args=(random.Random(seed * 1000 + i),)) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def join(self):
        self.over = True
        for thread in self.threads:
            thread.join()

    def ask(self, chance):
        while not self.over:
            try:
                self.once(chance)
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.01)  # killed meanwhile, or about to be

    def once(self, chance):
        text = " ".join(chance.sample(WORDS, 6))
        chat, stream = chance.random() < 0.5, chance.random() < 0.4
        body = {"model": "default", "max_tokens": chance.randint(4, 40), "stream": stream, "messages": [{"role": "user", "content": text}]}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            if chance.random() < 0.02:
                connection.request("POST", "/v1/wane/table/reload", "")
                connection.getresponse().read()
                return
            connection.request("POST", "/v1/chat/completions" if chat else "/v1/messages", json.dumps(body))
            answer = connection.getresponse()
            if stream and chance.random() < 0.2:
                answer.read(chance.randint(1, 300))
                return  # and leaves
            data = answer.read().decode()
        finally:
            connection.close()
        if answer.status != 200:
            return
        if stream:
            whole = data.rstrip().endswith("[DONE]") if chat else "event: message_stop" in data
            found = re.search(r'"id":"((?:msg|chatcmpl)[^"]+)"', data)
            reply = found.group(1) if whole and found else None
        else:
            reply = json.loads(data)["id"]
        if reply is not None:
            with self.lock:
                self.ids.append(reply)
            if chance.random() < 0.1:
                self.rate(reply)

    def rate(self, reply):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", "/v1/wane/feedback", json.dumps({"response_id": reply, "rating": "up"}))
            connection.getresponse().read()
        finally:
            connection.close()


class Beside:
    """Programs that write what the server reads, one after another, until they are killed with it."""

    def __init__(self, command):
        self.command, self.over, self.process, self.lock = [str(word) for word in command], False, None, threading.Lock()
        self.done = 0
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        while not self.over:
            with self.lock:
                if self.over:
                    return
                self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if self.process.wait() == 0:
                self.done += 1
            time.sleep(0.25)

    def kill(self):
        with self.lock:
            self.over = True
            if self.process is not None and self.process.poll() is None:
                self.process.kill()

    def join(self):
        self.thread.join()


def look_at_audit(args, state):
    result = run_tool(args.wane, "audit", "verify", "--json", state / "audit")
    try:
        return json.loads(result.stdout)
    except ValueError:
        return {"whole": False, "fault": "unreadable", "what": result.stderr.strip(), "records": 0, "lost": 0, "requests": 0}


def look_at(tool, path):
    """none, whole, or what is wrong."""
    if not path.exists():
        return "none"
    result = run_tool(*tool)
    return "whole" if result.returncode == 0 else result.stderr.strip() or f"exit code {result.returncode}"


def missing_of(args, state, ids):
    result = run_tool(args.wane, "audit", "export", "--event", "request", state / "audit")
    named = {json.loads(line).get("reply") for line in result.stdout.splitlines()}
    return sum(one not in named for one in ids)


class Run(serving.Run):
    def __init__(self, args):
        settings = {name: getattr(args, name) for name in ("model", "clients", "longest", "threads", "seed")}
        super().__init__(args, "kills.jsonl", FIELDS, lambda line: line["round"], settings, {"kills": args.kills})
        self.state = self.folder / "state"
        self.state.mkdir(exist_ok=True)
        self.rollout = "rollout" in run_tool(args.wane, "help", "--words").stdout.split()
        file = ["--rollout", self.state / "rollout"]
        if self.rollout and not (self.state / "rollout").exists():
            for step in (["plan", "--rollout-features", "head", "--rollout-hold", "0"], ["start"]):
                result = run_tool(args.wane, "rollout", *step, *file)
                if result.returncode != 0:
                    raise serving.Stop("wane rollout: " + result.stderr.strip())

    def beside(self):
        table = self.state / "t.slmt"
        programs = [Beside([self.args.wane, "table", "build", "--log-file", self.state / "traces", "--output", table, "--min-seen", "2", "--stamp"])]
        if self.rollout:
            programs += [Beside([self.args.wane, "rollout", step, "--rollout", self.state / "rollout"]) for step in ("advance", "back")]
        return programs

    def round(self, number):
        chance = random.Random(serving.seed_of(self.args.seed, f"kill {number}"))
        moment = chance.uniform(0.05, self.args.longest)
        server = Server(self.args, self.state, self.rollout)
        beside, clients = [], None
        try:
            server.wait()
            before = look_at_audit(self.args, self.state)
            clients, beside = Clients(server.port, self.args.clients, chance.getrandbits(32)), self.beside()
            time.sleep(moment)
        finally:
            server.kill()
            for program in beside:
                program.kill()
            for one in beside + ([clients] if clients else []):
                one.join()
        after = look_at_audit(self.args, self.state)
        found = {"audit": "whole" if after["whole"] else after["what"],
                 "table": look_at([self.args.wane, "table", "info", self.state / "t.slmt"], self.state / "t.slmt"),
                 "rollout": look_at([self.args.wane, "rollout", "status", "--rollout", self.state / "rollout"], self.state / "rollout") if self.rollout else "none",
                 "feedback": look_at([self.args.wane, "feedback", "stats", self.state / "feedback"], self.state / "feedback")}
        again = Server(self.args, self.state, self.rollout)
        ready, loaded = again.wait()
        again.stop()
        end = look_at_audit(self.args, self.state)
        missing, lost = missing_of(self.args, self.state, clients.ids), end["lost"] - before["lost"]
        if not end["whole"]:
            found["audit"] = end["what"]
        elif missing > lost or end.get("gaps_unknown", 0) > 0:
            found["audit"] = f"{missing} replies have no record, and gaps count {lost}"
        self.keep({"round": number, "moment_s": round(moment, 3), "replies": len(clients.ids), "recorded": end["requests"] - before["requests"],
                   "missing": missing, "lost": lost, "built": sum(p.done for p in beside[:1]), "start_s": round(ready, 3), "load_s": round(loaded, 3),
                   "restart_s": round(ready - loaded, 3), **found})

    def all(self):
        with self:
            for number in range(self.args.kills):
                if number in self.done or self.over():
                    continue
                self.round(number)
                self.say("kills", len(self.done), self.args.kills)


def report_of(folder):
    lines = serving.read_lines(folder / "kills.jsonl", FIELDS)
    whole = ("whole", "none")
    faults = [{"round": x["round"], "what": name, "is": x[name]} for x in lines for name in ("audit", "table", "rollout", "feedback") if x[name] not in whole]
    slow = [x["round"] for x in lines if x["restart_s"] > BAR_S]
    restarts = sorted(x["restart_s"] for x in lines)
    return {**serving.read_settings(folder), "rounds": len(lines), "replies": sum(x["replies"] for x in lines), "recorded": sum(x["recorded"] for x in lines),
            "missing": sum(x["missing"] for x in lines), "lost": sum(x["lost"] for x in lines), "tables_built": sum(x["built"] for x in lines),
            "rollouts": sum(x["rollout"] != "none" for x in lines), "tables": sum(x["table"] != "none" for x in lines), "faults": faults, "slow": slow,
            "restart_median_s": restarts[len(restarts) // 2] if restarts else None, "restart_worst_s": restarts[-1] if restarts else None,
            "load_worst_s": max((x["load_s"] for x in lines), default=None), "fine": bool(lines) and not faults and not slow}


def show(result):
    print(f"model      {result['model']}, {result['clients']} clients, moments up to {result['longest']} s")
    print(f"kills      {result['rounds']} of {result['kills']}; tables there in {result['tables']}, a rollout in {result['rollouts']}; "
          f"{result['tables_built']} tables were built meanwhile")
    print(f"replies    {result['replies']} whole ones; {result['recorded']} requests recorded; {result['missing']} replies without a record, "
          f"{result['lost']} records counted as lost")
    print(f"restart    median {result['restart_median_s']} s, worst {result['restart_worst_s']} s, plus at most {result['load_worst_s']} s of loading")
    for fault in result["faults"]:
        print(f"FAULT      kill {fault['round']}: {fault['what']}: {fault['is']}")
    for number in result["slow"]:
        print(f"FAULT      kill {number}: the restart took over {BAR_S} s")
    print("fine" if result["fine"] else "not fine")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("folder")
    for name, kind, default in (("model", str, "smollm2-135m"), ("kills", int, 50), ("clients", int, 6), ("longest", float, 5.0), ("threads", int, 1),
                                ("seed", int, 1), ("seconds", float, 0), ("wane", str, "build/wane"), ("script-server", str, "build/tests/script_server")):
        run.add_argument("--" + name, type=kind, default=default)
    shown = commands.add_parser("report")
    shown.add_argument("folder")
    for command in (run, shown):
        command.add_argument("--json")
    args = parser.parse_args()
    result = {}

    def report():
        result.update(report_of(pathlib.Path(args.folder)))
        if args.json:
            pathlib.Path(args.json).write_text(json.dumps(result, indent=1) + "\n")
        show(result)

    status = serving.carry_out("kill", (lambda: Run(args).all()) if args.command == "run" else None, report)
    return status or (0 if result["fine"] else 1)


if __name__ == "__main__":
    sys.exit(main())
