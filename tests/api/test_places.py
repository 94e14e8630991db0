"""What a server writes to, and the faults of such places: a full disk, a folder that becomes read-only, a file that may not grow, a log that
nobody reads, a date that jumps, nobody who scrapes. Serving goes on or is refused as docs/operations.md says, the metric or log line named there
tells of it, nothing half-written is left, and what is missing is counted.

Disks are real ones, small and in memory: their tests need the right to mount, and are left out without it."""
import fcntl
import json
import os
import re
import resource
import socket
import sqlite3
import struct
import subprocess
import time

import pytest
from support import BUILD, SLOW, WANE, Server, eventually, messages, start_real, start_scripted, stop_real

SHIFT_CLOCK = os.path.join(BUILD, "tests", "shift_clock.so")
OPTIONS = ("--context", "512", "--threads", "1", "--batch-threads", "1", "--slots", "2")
MODEL = os.environ.get("WANE_TEST_MODEL", "smollm2-135m")


def mount(*arguments):
    done = subprocess.run(["mount", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("nothing may be mounted here: " + done.stderr.strip())


class Disk:
    """A file system of its own, of so many megabytes."""

    def __init__(self, path, megabytes):
        self.path, self.layers = path, 1
        path.mkdir()
        mount("-t", "tmpfs", "-o", f"size={megabytes}m", "wane-test", path)

    def fill(self):
        with open(self.path / "filler", "ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                try:
                    while file.write(b"\0" * size) == size:
                        pass
                except OSError:
                    pass

    def free(self):
        os.unlink(self.path / "filler")

    def freeze(self):
        """Read-only for whatever is opened from now on."""
        mount("--bind", self.path, self.path)
        self.layers += 1
        mount("-o", "remount,bind,ro", self.path)

    def thaw(self):
        subprocess.run(["umount", str(self.path)], check=True)
        self.layers -= 1

    def close(self):
        for _ in range(self.layers):
            subprocess.run(["umount", "--lazy", str(self.path)], check=False)


@pytest.fixture
def disk(tmp_path):
    disks = []

    def make(megabytes, name="disk"):
        disks.append(Disk(tmp_path / name, megabytes))
        return disks[-1]

    yield make
    for one in disks:
        one.close()


def ask(server, number=0):
    """The same question has the same answer, whatever else happens."""
    reply = server.post("/v1/messages", messages(f"Name {number} colours.", max_tokens=5, temperature=0))
    assert reply.status == 200, reply.body
    value = reply.json()
    return value["id"], value["content"][0]["text"]


def rate(server, reply):
    return server.post("/v1/wane/feedback", {"response_id": reply, "rating": "up"})


def total(metrics, name):
    return sum(value for key, value in metrics.items() if key == name or key.startswith(name + "{"))


def metrics(server, memo):
    """Of both; the memo's are the second one's."""
    return {**server.metrics(), **{name: value for name, value in memo.metrics().items() if name.startswith("wane_memo_")}}


def doctor(*options):
    done = subprocess.run([WANE, "doctor", "--model", MODEL, "--json", *map(str, options)], capture_output=True, text=True, timeout=60)
    return done.returncode, {check["check"]: check for check in json.loads(done.stdout)["checks"]}


def tool(*words):
    done = subprocess.run([WANE, *map(str, words)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dropped_by_files(folder):
    """What the traces themselves say is missing."""
    text = tool("trace", "head", "-n", 1000000, folder)
    found = [json.loads(line) for line in text.splitlines() if '"type":"dropped"' in line]
    return sum(d["requests"] + d["tokens"] for d in found)


def everything(place):
    """Options by which all is written there, but the memo, which rests while replies are recorded."""
    return (*places(place), "--rollout-features", "draft", "--rollout-requests", 0)


def places(place):
    return "--record", place / "trace", "--feedback", place / "feedback", "--audit", place / "audit", "--rollout", place / "rollout"


def rememberer(folder, place):
    """A scripted server whose memo is kept there."""
    return start_scripted(str(folder), "rememberer", replies=[{"match": "", "text": "so it is"}], memo=1 << 20, memo_file=str(place / "memo"), memo_save=1)


WRITTEN = {"trace", "memo", "feedback", "feedback-wal", "feedback-shm", "audit", "audit-wal", "audit-shm", "audit-count", "rollout", "rollout.lock",
           "port", "log", "filler"}


def test_a_full_disk_and_a_read_only_one(disk, tmp_path):
    """All places on one disk, and so is the log."""
    place = disk(12)
    server = start_real(place.path, *OPTIONS, *map(str, everything(place.path)), "--json")
    memo = rememberer(tmp_path, place.path)
    _, said = ask(server)
    ask(memo)
    before = eventually(lambda: memo.metrics()["wane_memo_saves_total"] > 0 and total(m := metrics(server, memo), "wane_trace_records_total") > 0 and m, 10)
    assert total(before, "wane_disk_free_bytes") > 0

    failing = ("wane_trace_failures_total", "wane_memo_save_failures_total", "wane_feedback_failures_total", "wane_audit_failures_total",
               "wane_rollout_save_failures_total")

    def fails(*names):
        """One more of everything, until each place has refused: what fits into the last page still goes."""
        fails.turn += 1
        reply, _ = ask(server, fails.turn)
        ask(memo, fails.turn)
        assert rate(server, reply).status in (200, 500)
        server.post("/v1/wane/rollout", {"do": "start" if fails.turn % 2 else "abort", "feature": "draft"})
        now = metrics(server, memo)
        return all(now[name] > was[name] for name in names) and now
    fails.turn = 0

    # Nothing may be written anew: what is replaced whole fails; open files go on.
    was = before
    place.freeze()
    eventually(lambda: fails("wane_memo_save_failures_total", "wane_rollout_save_failures_total"), 30, "a failure of all that makes files")
    code, checks = doctor(*places(place.path))
    assert code == 2 and checks["DISK"]["found"].count("read-only") == 4, checks["DISK"]
    assert ask(server)[1] == said and server.get("/ready").status == 200
    place.thaw()
    eventually(lambda: server.metrics()["wane_rollout_kept"] == 1, 10, "the rollout's file")

    # Nothing at all fits.
    was = metrics(server, memo)
    place.fill()
    now = eventually(lambda: fails(*failing), 60, "a failure of every place")
    assert now["wane_audit_ok"] == 0 and now["wane_rollout_kept"] == 0 and all(v == 0 for k, v in now.items() if k.startswith("wane_disk_free_bytes"))
    assert ask(server)[1] == said and server.get("/ready").status == 200
    refused = rate(server, ask(server)[0])
    assert refused.status == 500 and "full" in refused.json()["error"]["message"]
    eventually(lambda: ask(server) and server.metrics()["wane_log_lost_total"] > 0, 30, "a line of the log that is lost")
    code, checks = doctor(*places(place.path))
    assert code == 2 and checks["DISK"]["level"] == "CRITICAL" and checks["DISK"]["found"].count(": 0.0 GB free") == 4
    time.sleep(1.1)  # a moment of failing, whatever the machine: the memo and the audit try again in it
    assert set(os.listdir(place.path)) <= WRITTEN, os.listdir(place.path)

    # Room again: each goes on by itself.
    place.free()
    was = metrics(server, memo)

    def well():
        reply, _ = ask(server, 1000 + fails.turn)
        ask(memo, 1000 + fails.turn)
        fails.turn += 1
        now = metrics(server, memo)
        return (rate(server, reply).status == 200 and now["wane_audit_ok"] == 1 and now["wane_rollout_kept"] == 1
                and now["wane_memo_saves_total"] > was["wane_memo_saves_total"]
                and total(now, "wane_trace_records_total") > total(was, "wane_trace_records_total") and now)
    eventually(well, 30, "all of it written again")
    assert ask(server)[1] == said
    log = (place.path / "log").read_text()
    for line in ("audit: ", "feedback: ", "trace: ", "rollout: "):
        assert line in log, line
    assert "Cannot write the memo" in open(memo.log).read()
    assert re.search(r"log: \d+ lines? could not be written here", log)
    eventually(lambda: server.metrics()["wane_audit_queue"] == 0, 10, "the audit's queue")
    time.sleep(0.2)
    now = server.metrics()
    stop_real(server)
    assert memo.terminate() == 0
    memo.process.stdout.close()

    # And what is there is whole, with what is missing counted.
    assert set(os.listdir(place.path)) <= WRITTEN, os.listdir(place.path)
    verdict = json.loads(tool("audit", "verify", "--json", place.path / "audit"))
    assert verdict["whole"] and verdict["lost"] == now["wane_audit_dropped_total"]
    tool("trace", "validate", place.path / "trace")
    assert dropped_by_files(place.path / "trace") == total(now, "wane_trace_dropped_total") > 0
    assert not [f for f in os.listdir(place.path / "trace") if os.path.getsize(place.path / "trace" / f) == 0]
    stats = json.loads(tool("feedback", "stats", "--json", place.path / "feedback"))
    assert stats["ratings"] == total(now, "wane_feedback_total")
    assert sqlite3.connect(place.path / "feedback").execute("PRAGMA integrity_check").fetchone() == ("ok",)
    tool("rollout", "status", "--rollout", place.path / "rollout")
    memo = rememberer(tmp_path, place.path)
    ask(memo)
    assert memo.metrics()["wane_memo_hits_total"] > 0
    assert memo.terminate() == 0
    memo.process.stdout.close()


def refused(*options, environment=None):
    done = subprocess.run([WANE, "serve", "--model", MODEL, "--port", "0", *OPTIONS, *map(str, options)], capture_output=True, text=True,
                          timeout=60 * SLOW, env={**os.environ, **(environment or {})})
    return done.returncode, done.stderr


@pytest.mark.parametrize("fault", ["read-only", "full"])
def test_a_start_without_a_place(disk, tmp_path, fault):
    """What cannot be begun is refused in a sentence that names the place; the memo alone works without."""
    place = disk(1)
    if fault == "read-only":
        place.freeze()
    else:
        place.fill()
    for option, name in (("--feedback", "feedback"), ("--audit", "audit"), ("--rollout", "rollout"), ("--ready-file", "port"), *((("--record", "trace"),) if fault == "read-only" else ())):
        code, said = refused(option, place.path / name, *(("--rollout-features", "draft") if name == "rollout" else ()))
        assert code == 1 and str(place.path / name) in said, (option, said)
    left = set(os.listdir(place.path)) - {"filler"}
    assert all(os.path.getsize(place.path / name) == 0 for name in left), left
    server = start_real(tmp_path, *OPTIONS, "--memo-file", str(place.path / "memo"), "--memo-save", "1")
    ask(server)
    eventually(lambda: server.metrics()["wane_memo_save_failures_total"] > 0, 10, "a failure")
    assert server.terminate() == 1  # the memo is lost with it, and that is said
    assert "Cannot write the memo" in open(server.log).read()


def test_a_sketch_without_a_place(disk, tmp_path):
    """It is not built where it could not be kept; the dense head says the same, and metric and log tell."""
    model = os.path.realpath(os.path.join(os.environ.get("WANE_CACHE") or os.path.expanduser("~/.cache/wane"), "models", MODEL + ".gguf"))
    if not os.path.exists(model):
        pytest.skip(f"no {model}")
    small, frozen = disk(1, "small"), disk(1, "frozen")
    frozen.freeze()
    for place, why in ((small, "there is no room for its sketch"), (frozen, "there is no place for its sketch")):
        done = subprocess.run([WANE, "run", "--model", model, "--verbose", "--max-tokens", "4", "--temperature", "0", "--prompt", "Hello", "--threads", "1"],
                              capture_output=True, text=True, timeout=60 * SLOW, env={**os.environ, "WANE_CACHE": str(place.path)})
        assert done.returncode == 0 and done.stdout.strip() and why in done.stderr, done.stderr
        assert [f for _, _, files in os.walk(place.path) for f in files] == []


def test_a_file_that_may_not_grow_and_a_log_that_nobody_reads(tmp_path):
    """ulimit -f is an error of a write, not the end of the server; a reader of the log that stops, or goes, holds nothing up. Nor does a scraper."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    ready = tmp_path / "port"
    command = [WANE, "serve", "--model", MODEL, "--port", "0", "--ready-file", str(ready), *OPTIONS, "--memo-file", str(tmp_path / "memo"), "--memo-save", "1", "--log-level", "debug"]

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
    process = subprocess.Popen(command, stderr=writer, preexec_fn=limit)
    os.close(writer)
    eventually(ready.exists, 60, "a ready server")
    server = Server(process, int(ready.read_text()), "")
    scrapers = []
    for _ in range(8):
        scrapers.append(socket.create_connection(("127.0.0.1", server.port)))
        scrapers[-1].sendall(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")
    try:
        texts, asked, read = {ask(server)[1] for _ in range(2)}, 2, b""
        while not ((now := server.metrics())["wane_log_lost_total"] > 0 and now["wane_memo_save_failures_total"] > 0) and asked < 200:
            ask(server, asked)
            asked += 1
        assert len(texts) == 1 and now["wane_requests_completed_total"] == asked < 200
        os.set_blocking(reader, False)
        for _ in range(20):  # it reads again: the next line says what is missing
            try:
                read += os.read(reader, 65536)
            except BlockingIOError:
                pass
            if re.search(rb"warn  log: \d+ lines? could not be written here", read):
                break
            ask(server)
        else:
            raise AssertionError(read[-1000:])
        assert all(re.match(rb"\d{4}-\d\d-\d\dT|\s|$", line) for line in read.splitlines()[:-1]), read
        lost = server.metrics()["wane_log_lost_total"]
        os.close(reader)
        reader = -1
        assert ask(server)[1] in texts
        eventually(lambda: server.metrics()["wane_log_lost_total"] > lost, 10, "lines that nobody can have")
    finally:
        for s in scrapers:
            s.close()
        code = server.terminate()
        if reader >= 0:
            os.close(reader)
    assert code == 1  # the memo's file could not be written at the end
    left = {name: os.path.getsize(tmp_path / name) for name in os.listdir(tmp_path)}
    assert set(left) <= {"memo"} and left.get("memo", 0) < 2000  # the last one that fitted, whole; none where the first did not


class Clock:
    def __init__(self, path):
        self.path = path
        self.shift(0)

    def shift(self, hours):
        with open(self.path, "r+b" if self.path.exists() else "w+b") as file:
            file.write(struct.pack("<q", int(hours * 3600_000)))


def test_a_date_that_jumps(tmp_path, monkeypatch):
    """Ahead by five hours and back by ten, with everything on: no deadline passes, nothing is held or thrown out for it, and all stays whole."""
    if not os.path.exists(SHIFT_CLOCK):
        pytest.skip(f"no {SHIFT_CLOCK}")
    clock = Clock(tmp_path / "shift")
    with monkeypatch.context() as m:
        m.setenv("WANE_SHIFT_CLOCK", str(clock.path))
        m.setenv("LD_PRELOAD", SHIFT_CLOCK)
        server = start_real(tmp_path, *OPTIONS, *map(str, everything(tmp_path)), "--trace-file-age", "1", "--trace-files", "2", "--deadline", "60000",
                            "--feedback-keep", "600", "--alert-command", "true", "--rollout-hold", "3600", "--rollout-share", "0.5", "--json")
        memo = rememberer(tmp_path, tmp_path)
    try:
        assert server.post("/v1/wane/rollout", {"do": "start"}).status == 200
        reply, said = ask(server)
        counted, dates, number = server.metrics(), [], 0
        for hours in (5, -5, 0):
            clock.shift(hours)
            saves = memo.metrics()["wane_memo_saves_total"]
            number += 1
            ask(server, number)
            ask(memo, number)
            assert ask(server)[1] == said
            dates.append([json.loads(line)["time"] for line in open(server.log).read().splitlines() if line.startswith("{")][-1])
            now = server.metrics()
            assert all(now[name] >= value for name, value in counted.items() if name.endswith(("_total", "_count", "_sum", "_bucket"))), hours
            for what in ("queue", "time_to_first_token", "time_per_output_token"):
                assert now[f"wane_{what}_seconds_sum"] < 60, hours
            assert 0 <= now["wane_uptime_seconds"] < 120
            counted = now
            eventually(lambda: memo.metrics()["wane_memo_saves_total"] > saves, 10, "the memo's file")  # noqa: B023
            eventually(lambda: total(server.metrics(), "wane_trace_records_total") > total(now, "wane_trace_records_total"), 10, "the trace")  # noqa: B023
            assert rate(server, reply).status == 200  # kept for ten minutes of this process, whatever the date
        assert server.get("/ready").status == 200
        status = server.get("/v1/wane/rollout").json()["features"]["draft"]
        assert status["stage"] == 1 and status["phase"] == "running"
        assert not [a for a in server.get("/v1/wane/alerts").json()["alerts"] if a["raised"]]
        assert counted["wane_requests_timed_out_total"] == counted["wane_requests_failed_total"] == 0
    finally:
        stop_real(server)
        assert memo.terminate() == 0
        memo.process.stdout.close()
    assert dates[1] < dates[2] < dates[0]  # it did jump, in the program's own eyes
    verdict = json.loads(tool("audit", "verify", "--json", tmp_path / "audit"))
    assert verdict["whole"] and verdict["lost"] == 0
    tool("trace", "validate", tmp_path / "trace")
    files = sorted(os.listdir(tmp_path / "trace"))
    assert len(files) == 2
    head = [json.loads(line) for line in tool("trace", "head", "-n", 1000000, tmp_path / "trace" / files[-1]).splitlines()]
    newest = max(record["time_ms"] for record in head if record["type"] == "request")
    assert abs(newest / 1000 - time.time()) < 600  # the last one kept is the last one written, back from the future
    stats = json.loads(tool("feedback", "stats", "--json", tmp_path / "feedback"))
    assert stats["ratings"] == 3
