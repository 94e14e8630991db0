"""wane_ray without Ray: stand-ins for Ray and fsspec (stand_in/), the real program. Shards, parts, merges, what is kept, what is lost."""
import os
import pathlib
import subprocess
import sys

import pytest
from support import WANE

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OLD = 1_700_000_000

sys.path[:0] = [str(ROOT / "python"), str(HERE / "stand_in")]
try:
    import fsspec.core as memory
    import ray
    import wane_ray
    from wane_ray import drive, places, work
finally:
    del sys.path[:2]

pytestmark = pytest.mark.skipif(not os.path.exists(WANE), reason=f"no {WANE}: build first")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """(folder of eight traces, bytes of the single build)"""
    folder = tmp_path_factory.mktemp("traces")
    subprocess.run([sys.executable, str(ROOT / "tests/cli/traces.py"), str(folder / "traces"), "8", "1000"], check=True)
    single = folder / "single.slmt"
    subprocess.run([WANE, "table", "build", "--log-file", str(folder / "traces"), "--max-entries", "50", "--phrases", "--output", str(single)],
                   check=True, stdout=subprocess.DEVNULL)
    return folder / "traces", single.read_bytes()


@pytest.fixture
def traces(original, tmp_path):
    """A copy of one's own, old enough for its stamps to count."""
    folder = tmp_path / "traces"
    folder.mkdir()
    for file in sorted(original[0].iterdir()):
        (folder / file.name).write_bytes(file.read_bytes())
        os.utime(folder / file.name, (OLD, OLD))
    return folder


@pytest.fixture
def cluster():
    ray.started.clear()
    ray.before = None
    memory.files.clear()
    one = drive.Cluster("local")
    yield one
    ray.before = None
    one.end()
    assert {"wane_ray.places", "wane_ray.work"} <= set(ray.cloudpickle.by_value)


class Job:
    """A build of `traces` in `folder`; run() gives the table's bytes."""

    def __init__(self, folder, traces, cluster, store=None, **more):
        self.output, self.store, self.cluster, self.said = folder / "T.slmt", store or str(folder / "parts"), cluster, []
        words = ["--max-entries=50", "--phrases", f"--output={self.output}", f"--report={folder}/report.json"]
        self.options = drive.Options([str(one) for one in traces], self.store, WANE, more.pop("settings", {}), words, **{"shard": 1, **more})

    def run(self):
        ray.started.clear()
        code, self.counts = wane_ray.build(self.options, self.cluster, lambda text, last: self.said.append((text, last)))
        assert code == 0
        return self.output.read_bytes()

    def parts(self):
        return sorted(name for name in os.listdir(self.store) if name.endswith(".part"))


def built():
    """Shards that were begun, by their files' names."""
    return sorted("+".join(os.path.basename(file) for file in inputs) for what, inputs in ray.started if what == "build_part")


@pytest.mark.parametrize("shard, fan_in, shards, merges", [(1, 3, 8, 3), (1 << 40, 2, 1, 0), (0, 2, 4, 2)])
def test_the_bytes_of_a_single_build(original, traces, tmp_path, cluster, shard, fan_in, shards, merges):
    size = max(file.stat().st_size for file in traces.iterdir())
    job = Job(tmp_path, [traces], cluster, shard=shard or 2 * size, fan_in=fan_in)
    assert job.run() == original[1]
    assert len(built()) == shards and len(ray.started) == shards + merges
    assert job.counts["made"] == shards + merges and job.counts["records"] == 1200
    assert job.said[-1][1] is True and not [name for name in os.listdir(job.store) if name.startswith(".")]


@pytest.mark.parametrize("which", ["build_part", "merge_parts"])
def test_a_lost_worker_repeats_only_its_own(original, traces, tmp_path, cluster, which):
    """It dies where it is worst: when all is written but for the name."""
    lost, victim = [], []

    def die(what, arguments):
        if what == which and not lost:
            lost.append(arguments[1])
            store = places.place_of(arguments[0]["work"])
            name = work.part_name("build", [places.digest_of(file) for file in arguments[1]], arguments[0]["settings"]) \
                if which == "build_part" else work.part_name("merge", arguments[1], arguments[0]["settings"])
            victim.append(store.fresh(name, None))
            pathlib.Path(victim[0]).write_bytes(b"half a part")
            raise ray.exceptions.WorkerCrashedError("killed")

    ray.before = die
    job = Job(tmp_path, [traces], cluster, fan_in=4)
    assert job.run() == original[1]
    begun = [inputs for what, inputs in ray.started]
    again = [inputs for inputs in begun if begun.count(inputs) > 1]
    assert again == lost * 2 and job.counts["repeated"] == 1
    assert any("a worker was lost (WorkerCrashedError)" in text for text, last in job.said if last is None)
    assert not os.path.exists(victim[0])  # what it left is swept away


def test_a_worker_that_always_dies(traces, tmp_path, cluster):
    def die(what, arguments):
        if arguments[1][0].endswith("3.jsonl"):
            raise ray.exceptions.WorkerCrashedError("killed")

    ray.before = die
    with pytest.raises(wane_ray.RayBuildError, match="WorkerCrashedError; tried 4 times"):
        Job(tmp_path, [traces], cluster).run()
    assert not (tmp_path / "T.slmt").exists()


def test_it_goes_on_where_it_stopped(original, traces, tmp_path, cluster, monkeypatch):
    def die(what, arguments):
        if what == "merge_parts":
            raise ray.exceptions.WorkerCrashedError("killed")

    ray.before = die
    job = Job(tmp_path, [traces], cluster, fan_in=2, tries=1)
    with pytest.raises(wane_ray.RayBuildError):
        job.run()
    assert len(job.parts()) == 8
    # Again: no trace is read, no part is built, only merges are made.
    ray.before = None
    monkeypatch.setattr(work, "fetch", lambda *_: pytest.fail("a trace was read"))
    assert job.run() == original[1]
    assert job.counts["kept"] == 8 and job.counts["made"] == 6
    # And again: nothing is made.
    assert job.run() == original[1]
    assert job.counts["kept"] == 14 and "made" not in job.counts


def test_only_what_changed_is_built(original, traces, tmp_path, cluster):
    job = Job(tmp_path, [traces], cluster)
    assert job.run() == original[1]
    first = job.parts()
    # Other names, another order, another folder: the same parts.
    moved = tmp_path / "moved"
    moved.mkdir()
    for file in traces.iterdir():
        (moved / f"{9 - int(file.stem)}.jsonl").write_bytes(file.read_bytes())
    job = Job(tmp_path, [moved], cluster)
    assert job.run() == original[1]
    assert job.parts() == first and job.counts["kept"] == 8
    # One trace less half of its lines, though its size and time are what they were: its part alone is new. Another inode tells.
    text = (traces / "5.jsonl").read_bytes()
    lines = text.splitlines(keepends=True)
    (traces / "new").write_bytes(b"".join(lines[:len(lines) // 2]).ljust(len(text), b"\n"))
    os.utime(traces / "new", (OLD, OLD))
    os.rename(traces / "new", traces / "5.jsonl")
    job = Job(tmp_path, [traces], cluster)
    assert job.run() != original[1]
    assert job.counts["made"] == 1 and len(job.parts()) == 9
    # What does not belong to a part leaves parts as they are; the window does not.
    job.options.merge_words.append("--depth=2")
    job.run()
    assert job.counts["kept"] == 8
    Job(tmp_path, [traces], cluster, settings={"window": 4}).run()
    assert len(job.parts()) == 17


def test_a_young_trace_is_read_again(traces, tmp_path, cluster):
    """Its time may be that of a content which is still to come."""
    for file in traces.iterdir():
        os.utime(file)
    job = Job(tmp_path, [traces], cluster)
    job.run()
    assert not [name for name in os.listdir(job.store) if name.startswith("note-")]
    job.run()
    assert job.counts["kept"] == 8


def test_parts_that_are_not_whole(original, traces, tmp_path, cluster):
    """One that was cut is made anew; one in which a byte is another is found when it is merged, and named."""
    job = Job(tmp_path, [traces], cluster)
    job.run()
    cut, other = (tmp_path / "parts" / name for name in job.parts()[:2])
    whole = cut.read_bytes()
    for size in (0, 255, len(whole) - 1):
        cut.write_bytes(whole[:size])
        assert job.run() == original[1]
        assert job.counts["made"] == 1 and cut.read_bytes() == whole
    data = bytearray(other.read_bytes())
    data[5000] ^= 1
    other.write_bytes(data)
    code, _ = wane_ray.build(job.options, cluster, lambda *_: None)
    assert code == 1
    job = Job(tmp_path, [traces], cluster, fan_in=2)
    with pytest.raises(wane_ray.RayBuildError, match=f"{other.name} is damaged"):
        job.run()
    other.unlink()
    assert job.run() == original[1]


@pytest.mark.parametrize("where", ["traces", "both"])
def test_addresses(original, traces, tmp_path, cluster, where):
    store = None
    for file in traces.iterdir():
        memory.Memory().put_file(file, f"bucket/day/{file.name}")
    memory.Memory().pipe_file("bucket/day/notes.txt", b"no trace")
    named = ["memory://bucket/day"]
    if where == "both":
        store = "memory://bucket/parts"
    job = Job(tmp_path, named, cluster, store, fan_in=4)
    assert job.run() == original[1]
    assert job.run() == original[1]
    assert job.counts["kept"] == 10
    if store:
        left = sorted(name for name in memory.files if name.startswith("bucket/parts/"))
        assert len([name for name in left if name.endswith(".part")]) == 10
        assert all(name.endswith(".part") or "/note-" in name for name in left)


def test_a_trace_that_grows_is_refused(traces, tmp_path, cluster, monkeypatch):
    real = work.run_wane

    def grows(job, words, scratch):
        with open(traces / "2.jsonl", "ab") as file:
            file.write(b"\n")
        return real(job, words, scratch)

    monkeypatch.setattr(work, "run_wane", grows)
    with pytest.raises(wane_ray.RayBuildError, match="2.jsonl was written to while it was read"):
        Job(tmp_path, [traces / "2.jsonl"], cluster).run()
    assert not [name for name in os.listdir(tmp_path / "parts") if name.endswith(".part")]


def test_a_child_that_is_killed_is_done_again(original, traces, tmp_path, cluster, monkeypatch):
    """As by a system that runs out of memory."""
    real, killed = subprocess.run, []

    def run(words, **more):
        if "--partial" in words and not killed:
            killed.append(words)
            return subprocess.CompletedProcess(words, -9, "", "")
        return real(words, **more)

    monkeypatch.setattr(work.subprocess, "run", run)
    job = Job(tmp_path, [traces], cluster)
    assert job.run() == original[1]
    assert job.counts["repeated"] == 1 and any("signal 9" in text for text, _ in job.said)


def test_sentences(traces, tmp_path, cluster):
    def fails(named, match, **more):
        with pytest.raises(wane_ray.RayBuildError, match=match):
            Job(tmp_path, named, cluster, more.pop("store", None), **more).run()

    fails([tmp_path / "nothing"], "there is no .*nothing")
    (tmp_path / "empty").mkdir()
    fails([tmp_path / "empty"], "no trace .* in .*empty")
    fails(["memory://nothing"], "there is no memory://nothing")
    fails(["gopher://x"], "cannot use gopher://x")
    (tmp_path / "bad.jsonl").write_text("x\n")
    fails([traces, tmp_path / "bad.jsonl"], "bad.jsonl:1: not JSON")
    fails([traces], "at least two parts", fan_in=1)
    fails([traces], "parts", store=str(traces / "0.jsonl" / "parts"))
    job = Job(tmp_path, [traces], cluster)
    job.options.wane = str(tmp_path / "wane")
    (tmp_path / "wane").write_text("#!/bin/sh\necho '{\"wane\": \"0.0.9\"}'\n")
    (tmp_path / "wane").chmod(0o755)
    found = work.find_wane({"wane": job.options.wane, "version": "0.0.9"})
    assert found == job.options.wane
    with pytest.raises(places.PlaceError, match="is wane 0.0.9, and here it is"):
        work.find_wane({"wane": job.options.wane, "version": "9.9.9"})


def test_a_fault_of_ours_is_no_lost_worker(traces, tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(work, "known_digest", lambda *_: 1 / 0)
    with pytest.raises(wane_ray.RayBuildError, match="ZeroDivisionError"):
        Job(tmp_path, [traces], cluster).run()


def test_shards():
    sizes = [("a", 5), ("b", 5), ("c", 11), ("d", 1), ("e", 9), ("f", 1)]
    assert drive.make_shards(sizes, 10) == [["a", "b"], ["c"], ["d", "e"], ["f"]]
    assert drive.make_shards(sizes + [("g", 9)], 10)[:3] == drive.make_shards(sizes, 10)[:3]
    assert drive.make_shards([], 10) == []


def run(*words, code=0, path="python", **more):
    places_of = os.pathsep.join(str(ROOT / "python" if one == "python" else HERE / one) for one in path.split())
    environment = {**os.environ, "PYTHONPATH": places_of, **more}
    done = subprocess.run([WANE, "table", "build", *words], capture_output=True, text=True, env=environment)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout, done.stderr


def test_the_command(original, traces, tmp_path):
    """`wane table build --ray`: what it prints is what `wane table build` prints."""
    table = tmp_path / "T.slmt"
    here = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    words = ["--log-file", str(traces), "--max-entries", "50", "--phrases", "--output", str(table)]
    out, err = run("--ray", "local", "--ray-shard", "1K", "--ray-fan-in", "3", *words, path="python stand_in", PATH=here)
    assert table.read_bytes() == original[1]
    assert out == run(*words)[0]
    assert "parts 8 of 8" in err and "merges 3 of 3" in err
    assert len(list((tmp_path / "T.slmt.parts").glob("*.part"))) == 11
    # The same settings by an address where nobody is, and without what it needs.
    assert "cannot reach the Ray cluster at there" in run("--ray", "there", *words, code=1, path="python stand_in", PATH=here)[1]
    assert "there is no Ray cluster at 127.0.0.1:1" in run("--ray", "127.0.0.1:1", *words, code=1, path="python stand_in", PATH=here)[1]
    assert "needs the Python package wane_ray" in run("--ray", "local", *words, code=1, path="stand_in", PATH=here)[1]
    assert "needs python3" in run("--ray", "local", *words, code=1, PATH=str(tmp_path))[1]
    assert "needs traces" in run("--ray", "local", "--output", str(table), code=2)[1]
