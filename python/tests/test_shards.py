"""Shards and a tree of merges give the very bytes of the single build, go on where they were stopped, and build nothing twice."""
import os

import pytest

import wane
from wane import shards as sharding
from conftest import record


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    for i in range(7):
        record(folder / f"day{i}", requests=2, length=8 + i, start=2 * i, plain=bool(i % 2))
    return sorted(folder.iterdir())


@pytest.mark.parametrize("settings", [{}, dict(window=2, max_entries=40, samples=30)])
def test_the_bytes_of_the_single_build(shards, tmp_path, settings):
    single = tmp_path / "single"
    whole = wane.Table.build(shards, single, **settings)
    for count, fan_in, workers in ((1, 2, 1), (3, 16, 2), (7, 2, 2), (100, 3, 3)):
        out, heard = tmp_path / f"{count}-{fan_in}", []
        report = sharding.build_local(shards, out, shards=count, fan_in=fan_in, workers=workers, progress=lambda *said: heard.append(said), **settings)
        assert out.read_bytes() == single.read_bytes()
        assert report.entries == whole.entries and report.records == whole.records and heard[-1][1] == 1


def test_a_plan(shards):
    plan = sharding.plan(shards, 3, fan_in=2)
    files = [file for shard in plan.shards for file in shard.traces]
    assert sorted(files) == sharding.trace_files(shards) and len(plan.shards) == 3
    sizes = [sum(os.path.getsize(file) for file in shard.traces) for shard in plan.shards]
    assert [shard.bytes for shard in plan.shards] == sizes and max(sizes) < 2 * min(sizes)
    assert plan == sharding.plan(shards, 3, fan_in=2) and plan.levels[-1][0].last and "shard-" in plan.as_json()
    assert {s.name for s in plan.shards}.isdisjoint(s.name for s in sharding.plan(shards, 3, window=2).shards)
    names = {s.name for s in plan.shards}
    for level in plan.levels:
        assert {name for merge in level for name in merge.inputs} <= names
        names |= {merge.name for merge in level}
    for bad in (dict(shards=0), dict(shards=1, fan_in=1)):
        with pytest.raises(ValueError, match="at least"):
            sharding.plan(shards, **bad)
    with pytest.raises(FileNotFoundError):
        sharding.plan([shards[0] / "none"], 1)


def test_it_goes_on_where_it_was(shards, tmp_path, monkeypatch):
    folder, out = tmp_path / "work", tmp_path / "table"
    with pytest.raises(InterruptedError):
        sharding.build_local(shards, out, shards=4, fan_in=2, folder=folder, progress=lambda what, share: share < 0.4)
    there = set(os.listdir(folder))
    assert there and not out.exists()
    os.truncate(folder / sorted(there)[0], 0)  # no such thing can happen to a file that has its name; if it does, it is told
    with pytest.raises(wane.FormatError):
        sharding.build_local(shards, out, shards=4, fan_in=2, folder=folder)
    os.unlink(folder / sorted(there)[0])
    built, real = [], wane.Table.build_partial
    monkeypatch.setattr(sharding.Table, "build_partial", staticmethod(lambda *a, **k: built.append(1) or real(*a, **k)))
    sharding.build_local(shards, out, shards=4, fan_in=2, folder=folder)
    assert len(built) == 4 - (len([name for name in there if name.startswith("shard-")]) - 1)
    single = tmp_path / "single"
    wane.Table.build(shards, single)
    assert out.read_bytes() == single.read_bytes()
