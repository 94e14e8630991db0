"""wane_ray on a real Ray of two nodes: the bytes of a single build, a node that is killed midway, what a second node brings."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WANE_BUILD", ROOT / "build"))
WANE = BUILD / "wane"
FILES, RECORDS, WARM = 16, 60_000, 6

sys.path.insert(0, str(ROOT / "python"))


@pytest.fixture(scope="session")
def traces(tmp_path_factory):
    """(folder, bytes of the single build): sixteen traces of 60,000 records each, 1.2 GB."""
    folder = tmp_path_factory.mktemp("traces")
    subprocess.run([BUILD / "tests" / "bench_make_traces", "write", str(FILES * RECORDS), folder / "traces", str(FILES)], check=True)
    began = time.time()
    subprocess.run([WANE, "table", "build", "--log-file", folder / "traces", "--output", folder / "single.slmt"], check=True,
                   stdout=subprocess.DEVNULL)
    print(f"\nsingle build of {FILES * RECORDS} records: {time.time() - began:.1f} s")
    yield folder / "traces", (folder / "single.slmt").read_bytes()
    shutil.rmtree(folder)


@pytest.fixture
def cluster():
    """A head without a place for work, so that each node that is added is one worker."""
    from ray.cluster_utils import Cluster
    one = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    yield one
    one.shutdown()


class Build:
    """`wane table build --ray` as a user starts it, and what it says."""

    def __init__(self, folder, traces, address, *more):
        self.table, self.parts = folder / "T.slmt", folder / "parts"
        words = [WANE, "table", "build", "--ray", address, "--ray-shard", "1", "--ray-work", self.parts, "--log-file", traces,
                 "--output", self.table, *more]
        self.log = open(folder / "log", "w+")
        self.process = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=self.log,
                                        env={**os.environ, "PYTHONPATH": str(ROOT / "python")})

    def made(self):
        return {path.name: path.stat().st_mtime_ns for path in self.parts.glob("wane-*.part")} if self.parts.exists() else {}

    def until(self, parts):
        end = time.time() + 120
        while len(self.made()) < parts:
            assert self.process.poll() is None and time.time() < end, self.said()
            time.sleep(0.02)

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def end(self):
        assert self.process.wait(300) == 0, self.said()
        return self.table.read_bytes()


def test_a_node_is_killed_midway(traces, tmp_path, cluster):
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    cluster.wait_for_nodes()
    build = Build(tmp_path, traces[0], cluster.address, "--ray-fan-in", "4")
    build.until(4)
    before = build.made()
    cluster.remove_node(nodes[1], allow_graceful=False)
    assert build.end() == traces[1]
    said = build.said()
    lost = re.findall(r"a worker was lost \((\w+)\); (shard \d+) is done again", said)
    print(f"\nkilled when {len(before)} of {FILES} parts were there; done again: {', '.join(f'{shard} ({why})' for why, shard in lost)}")
    # Only what the node had, or was about to get; what was there stays as it was.
    assert 1 <= len(lost) <= 4 and len(set(lost)) == len(lost)
    after = build.made()
    assert {name: after[name] for name in before} == before
    assert len(after) == FILES + 4


def test_it_goes_on_after_the_driver_was_killed(traces, tmp_path, cluster):
    cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    build = Build(tmp_path, traces[0], cluster.address)
    build.until(3)
    build.process.kill()
    build.process.wait()
    time.sleep(1)  # its tasks are ended by Ray
    before = build.made()
    assert 3 <= len(before) < FILES
    again = Build(tmp_path, traces[0], cluster.address)
    assert again.end() == traces[1]
    assert f"{len(before)} kept from before" in again.said()
    after = again.made()
    assert {name: after[name] for name in before} == before and len(after) == FILES


def test_addresses(traces, tmp_path, cluster):
    """The real fsspec; file:// is the file system that every node here sees."""
    cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    build = Build(tmp_path, f"file://{traces[0]}", cluster.address, "--ray-work", f"file://{tmp_path}/kept", "--ray-fan-in", "5")
    assert build.end() == traces[1]
    names = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert sum(name.endswith(".part") for name in names) == FILES + 3 and all(name.startswith(("wane-", "note-")) for name in names)


def test_nodes_need_no_package(tmp_path):
    """A task's functions travel whole: a process that has Ray's cloudpickle and nothing of ours runs one."""
    code = ("import sys\nfrom ray import cloudpickle\n"
            f"assert not any({str(ROOT / 'python')!r} == p for p in sys.path)\n"
            f"build = cloudpickle.loads(open({str(tmp_path / 'function')!r}, 'rb').read())\n"
            "print(build({'work': sys.argv[1], 'temporary': None, 'settings': {}}, [sys.argv[1] + '/none.jsonl'])['failed'])\n"
            "assert 'wane_ray' not in sys.modules\n")
    from ray import cloudpickle
    from wane_ray import places, work
    cloudpickle.register_pickle_by_value(places)
    cloudpickle.register_pickle_by_value(work)
    (tmp_path / "function").write_bytes(cloudpickle.dumps(work.build_part))
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert "cannot see" in done.stdout and "none.jsonl" in done.stdout, done.stdout + done.stderr


def test_two_workers_against_one(traces, tmp_path, cluster):
    """Printed, not judged: the machine may be others' as well."""
    took = {}
    for workers in (1, 2):
        cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        folder = tmp_path / str(workers)
        folder.mkdir()
        build = Build(folder, traces[0], cluster.address)
        assert build.end() == traces[1]
        times = sorted(build.made().values())
        # From when each worker has begun.
        took[workers] = (times[-1] - times[WARM - 1]) / 1e9
    print(f"\n{FILES - WARM} parts of {RECORDS} records after the first {WARM}: 1 worker {took[1]:.1f} s, 2 workers {took[2]:.1f} s, "
          f"{took[1] / took[2]:.2f} times as fast")
