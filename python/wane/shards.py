"""
Tables from many shards of traces: partial builds, each by itself, and a tree of merges. The table's bytes are those of the single build of all traces,
whatever the shards, their order, and how often one was built anew.

How work is cut, one shard's build, one merge, and all of it on this machine; a cluster calls the same functions as tasks.
"""
from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
import pathlib
import tempfile
from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple, Union

from .parts import Origin
from .table import BuildReport, Table

__all__ = ["Shard", "Merge", "Plan", "plan", "build_shard", "merge_shards", "build_local", "trace_files"]

_Path = Union[str, "os.PathLike[str]"]
#: Partial builds that one merge takes, unless somebody says otherwise.
FAN_IN = 16
_PARTIAL = ".partial"


def trace_files(paths: Union[_Path, Iterable[_Path]]) -> List[str]:
    """The trace files of files and folders, as a build reads them, each once, in the order of their names."""
    found: Set[str] = set()
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        place = pathlib.Path(path)
        if place.is_dir():
            found.update(str(file) for file in place.iterdir() if file.name.endswith((".jsonl", ".jsonl.zst")) and file.is_file())
        elif place.exists():
            found.add(str(place))
        else:
            raise FileNotFoundError(f"there is no trace {place}")
    return sorted(found)


def _name(words: Sequence[str]) -> str:
    hashed = hashlib.blake2b(digest_size=8)
    for word in words:
        hashed.update(len(word).to_bytes(4, "little") + word.encode())
    return hashed.hexdigest()


def _identity(path: str) -> str:
    """A file as it is now: a shard whose files changed is another shard."""
    facts = os.stat(path)
    return f"{path} {facts.st_size} {facts.st_mtime_ns}"


@dataclass(frozen=True)
class Shard:
    """Traces for one partial build, and the name of its file: the same traces and settings have the same name, so that what is there is not built again."""

    name: str
    traces: Tuple[str, ...]
    bytes: int


@dataclass(frozen=True)
class Merge:
    """Partial builds that become one; `last`: they become the table."""

    name: str
    inputs: Tuple[str, ...]
    last: bool


@dataclass(frozen=True)
class Plan:
    """What is to be done: shards in any order, then merges in this one (those of a level in any order)."""

    shards: Tuple[Shard, ...]
    levels: Tuple[Tuple[Merge, ...], ...]
    settings: Dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> str:
        """For people, and for a log."""
        return json.dumps(asdict(self), indent=2)


#: Settings that a partial build has in it; the others count where the table is made.
_OF_PARTIALS = ("window", "samples")


def plan(traces: Union[_Path, Iterable[_Path]], shards: int, *, fan_in: int = FAN_IN, **settings: Any) -> Plan:
    """Cut traces into at most so many shards of about equal size, whole files each, and put a tree of merges over them."""
    if shards < 1 or fan_in < 2:
        raise ValueError(f"shards is {shards} and fan_in {fan_in}; they must be at least 1 and 2")
    files = trace_files(traces)
    if not files:
        raise FileNotFoundError("there are no traces to build a table of")
    sized = sorted(((os.path.getsize(file), file) for file in files), key=lambda pair: (-pair[0], pair[1]))
    count = min(shards, len(files))
    bins: List[Tuple[int, List[str]]] = [(0, []) for _ in range(count)]
    for size, file in sized:
        least = min(range(count), key=lambda i: (bins[i][0], i))
        bins[least][1].append(file)
        bins[least] = (bins[least][0] + size, bins[least][1])
    said = json.dumps({name: settings[name] for name in _OF_PARTIALS if name in settings}, sort_keys=True)
    made = []
    for size, group in bins:
        group.sort()
        made.append(Shard("shard-" + _name([said, *map(_identity, group)]), tuple(group), size))
    return Plan(tuple(made), _levels([shard.name for shard in made], fan_in), dict(settings))


def _levels(names: List[str], fan_in: int) -> Tuple[Tuple[Merge, ...], ...]:
    levels: List[Tuple[Merge, ...]] = []
    while len(names) > fan_in:
        groups = [names[i:i + fan_in] for i in range(0, len(names), fan_in)]
        level = tuple(Merge("merge-" + _name(group), tuple(group), False) for group in groups if len(group) > 1)
        names = [*(merge.name for merge in level), *(group[0] for group in groups if len(group) == 1)]
        levels.append(level)
    levels.append((Merge("table", tuple(names), True),))
    return tuple(levels)


def _place(folder: _Path, name: str) -> str:
    return os.path.join(folder, name + _PARTIAL)


def build_shard(shard: Shard, folder: _Path, *, of: Origin = Origin(), memory: Optional[int] = None, **settings: Any) -> str:
    """
    One shard's partial build into `folder`; its path. What is there already is taken: the file has its name only when it is whole. For a task of its own,
    on any machine that sees traces and folder.
    """
    path = _place(folder, shard.name)
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        more = {name: settings[name] for name in _OF_PARTIALS if name in settings}
        if memory is not None:
            more["memory"] = memory
        Table.build_partial(shard.traces, path, of=of, **more)
    return path


def merge_shards(merge: Merge, folder: _Path, output: Optional[_Path] = None, *, of: Origin = Origin(), memory: Optional[int] = None,
                 **settings: Any) -> Union[str, BuildReport]:
    """One merge: an inner one into `folder` (its path), the last one into the table `output` (its report)."""
    inputs = [_place(folder, name) for name in merge.inputs]
    more: Dict[str, Any] = {} if memory is None else {"memory": memory}
    if merge.last:
        more.update((name, value) for name, value in settings.items() if name not in _OF_PARTIALS)
        return Table.merge(inputs, output, of=of, **more)
    path = _place(folder, merge.name)
    if not os.path.exists(path):
        Table.merge(inputs, path, partial=True, of=of, **more)
    return path


def _run(tasks: Sequence[Callable[[], Any]], workers: int) -> Iterator[Any]:
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:  # the library holds no interpreter's lock
        for done in concurrent.futures.as_completed([pool.submit(task) for task in tasks]):
            yield done.result()


def build_local(traces: Union[_Path, Iterable[_Path]], output: Optional[_Path], *, shards: int = 4, workers: int = 1, fan_in: int = FAN_IN,
                folder: Optional[_Path] = None, of: Origin = Origin(), memory: Optional[int] = None,
                progress: Optional[Callable[[str, float], Optional[bool]]] = None, **settings: Any) -> BuildReport:
    """
    All of a plan on this machine. With a `folder` the partial builds stay there, and a build that was stopped goes on where it was. `progress` as of
    Table.build; False stops between two tasks.
    """
    what = plan(traces, shards, fan_in=fan_in, **settings)
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="wane-shards-") as place:
            return _all_of(what, place, output, workers, of, memory, progress)
    return _all_of(what, folder, output, workers, of, memory, progress)


def _all_of(what: Plan, folder: _Path, output: Optional[_Path], workers: int, of: Origin, memory: Optional[int],
            progress: Optional[Callable[[str, float], Optional[bool]]]) -> BuildReport:
    steps, done = len(what.shards) + sum(map(len, what.levels)), 0
    more: Dict[str, Any] = {"of": of, "memory": memory, **what.settings}
    report: Any = None
    rounds: List[Tuple[str, List[Callable[[], Any]]]] = [
        ("shards", [lambda shard=shard: build_shard(shard, folder, **more) for shard in what.shards])]  # type: ignore[misc]
    for level in what.levels:
        rounds.append(("merges", [lambda merge=merge: merge_shards(merge, folder, output, **more) for merge in level]))  # type: ignore[misc]
    for name, tasks in rounds:
        for report in _run(tasks, workers):
            done += 1
            if progress is not None and progress(name, done / steps) is False and done < steps:
                raise InterruptedError("the build was stopped")
    assert isinstance(report, BuildReport)
    return report
