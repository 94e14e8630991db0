"""Tables: contexts that were seen before, and what came after them. docs/table.md and docs/slmt.md define every term."""
from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Optional, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from . import errors
from ._core import CANDIDATE, Handle, Path, Progress, Told, call, digest_of, ffi, fields, lib, path_of, pointer, string_of, struct, text
from .parts import Context, Origin, context_of
from .rows import Candidates, Row, candidates_of

KINDS = ("single", "multi", "code", "summary")
GRADES = ("miss", "rank", "strict")
_DRAFT_MOST = 47
_TOP = 5


@dataclass(frozen=True)
class TableFacts:
    """What a table's file says of itself."""

    digest: str
    verified: bool
    bytes: int
    version: int
    model: str
    tokenizer: str
    vocab_size: int
    built_at: int
    window: int
    depth: int
    min_stability: float
    min_share: float
    entries: int
    long_entries: int
    positions: int
    continuations: int
    continuation_tokens: int
    phrases_bytes: int
    entry_bytes: int
    position_bytes: int
    seen: int


@dataclass(frozen=True)
class TableRow:
    """An entry: its best tokens, how often it was seen, and what mostly follows."""

    window: int
    ten: int
    seen: int
    positions: int
    stability: float
    agreement: float
    mass: float
    kinds: Tuple[str, ...]
    top: Candidates
    continuation: NDArray[np.int32]
    acceptance: float


@dataclass(frozen=True)
class Answer:
    """What was recorded for a context. `source`: "context", "index", "between" or "mean", as docs/slmt.md says."""

    source: str
    top: Candidates
    _c: Any = field(repr=False, compare=False, default=None)

    def grade(self, row: Row, tolerance: float = 1e-4, share: float = 0.95) -> str:
        """
        How well it fits a row of logits, or its Candidates with a log-sum: "strict" where the logits are the recorded ones, "rank" where the tokens that
        carry `share` of the probability are the recorded ones in their order, else "miss".
        """
        now = candidates_of(row, 16)
        grade = lib.wane_table_grade(self._c, pointer(now.array, "wane_candidate *"), len(now), now.low, now.high, tolerance, share)
        return GRADES[grade]


@dataclass(frozen=True)
class Draft:
    """Tokens that a table expects, and of each the chance that it is drawn when all before it were."""

    tokens: NDArray[np.int32]
    chances: NDArray[np.float32]

    def __len__(self) -> int:
        return int(self.tokens.size)

    def cut(self, least: float) -> "Draft":
        """Only as long as all of it so far is drawn with this probability at least."""
        count = int(np.searchsorted(-np.cumprod(self.chances), -least, side="right"))
        return Draft(self.tokens[:count], self.chances[:count])


@dataclass(frozen=True)
class BuildReport:
    """What a build read and made; docs/table.md explains the numbers. `hits` by kind."""

    model: str
    tokenizer: str
    vocab_size: int
    window: int
    records: int
    changed: int
    too_short: int
    empty: int
    kinds: Dict[str, int]
    used: Dict[str, int]
    held_out: int
    cut_files: int
    contexts: int
    once: int
    places: int
    same_hash: int
    other_best: int
    stable: int
    suited: int
    entries: int
    positions: int
    continuations: int
    continuation_tokens: int
    bytes: int
    hits: Dict[str, Dict[str, int]]
    phrase_examples: int
    phrase_held: int
    phrase_auc: float
    spilled: int
    seconds: float


def _report_of(report: Any) -> BuildReport:
    said = fields(report, ("kinds", "used", "band", "band_records", "hottest_count"))
    for name in ("kinds", "used"):
        said[name] = dict(zip(KINDS, getattr(report, name)))
    said["hits"] = {kind: fields(report.hits[i]) for i, kind in enumerate(KINDS)}
    return BuildReport(**said)


#: What wane_table_build_options takes under the same name.
_SETTINGS = ("window", "depth", "samples", "min_stability", "min_share", "min_seen", "follow", "max_entries", "phrases", "built_at", "memory")


def _build(logs: Iterable[Path], partials: Iterable[Path], output: Optional[Path], partial: bool, of: Origin, temporary: Optional[Path],
           progress: Optional[Progress], settings: Dict[str, Any]) -> BuildReport:
    options, report, told = struct("wane_table_build_options", lib.wane_table_build_options_init), struct("wane_table_report"), Told(progress)
    keep = []
    for what, paths in (("log", logs), ("partial", partials)):
        names = [path_of(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
        listed = ffi.new("char const *[]", names)
        keep += [names, listed]
        setattr(options, what + "s", listed)
        setattr(options, what + "_count", len(names))
    for name, value in settings.items():
        if name not in _SETTINGS:
            raise TypeError(f"a table's build has no setting {name}; they are {', '.join(_SETTINGS)}")
        setattr(options, name, value)
    out, folder = path_of(output), path_of(temporary)
    options.output, options.temporary, options.partial = out, folder, partial
    options.vocab_size = of.vocab_size
    options.model, options.tokenizer = digest_of(of.model, "model"), digest_of(of.tokenizer, "tokenizer")
    options.progress = told.callback
    told.call(lib.wane_table_build, options, report)
    return _report_of(report)


class Table(Handle):
    """
    A table's file, opened: its own copy in memory, checked from end to end, so that what happens to the file afterwards does not matter to it.

    `of`: the model and tokenizer that it must be of, else Unsupported. `key`: a file with a public key: Unauthorized unless PATH.sig is its signature
    of the very bytes that are used. FormatError: cut, damaged, of another version, or no table at all.

    Threads: any number may look up and draft at once.
    """

    def __init__(self, path: Path, *, of: Optional[Origin] = None, key: Optional[Path] = None) -> None:
        made = ffi.new("wane_table **")
        call(lib.wane_table_open_of, path_of(path), ffi.NULL if of is None else of._c(), path_of(key), made)
        super().__init__(made[0], lib.wane_table_free)
        self.path = os.fspath(path)
        facts = struct("wane_table_facts")
        lib.wane_table_get_facts(self._handle, facts)
        self.facts = TableFacts(**fields(facts))

    @classmethod
    def open(cls, path: Path, *, of: Optional[Origin] = None, key: Optional[Path] = None) -> "Table":
        """As Table(path)."""
        return cls(path, of=of, key=key)

    @classmethod
    def verify(cls, path: Path, key: Path, *, of: Optional[Origin] = None) -> TableFacts:
        """Check a table from end to end and its signature by a public key; what it says of itself, or Unauthorized, FormatError, Unsupported."""
        with cls(path, of=of, key=key) as table:
            return table.facts

    def lookup(self, context: Union[Context, Any], index: int = 0, tenant: str = "") -> Optional[Answer]:
        """
        What was recorded for a context as token `index` of its reply; None: nothing. A list of tokens is named anew in each call; a Context that grows
        token by token is not.
        """
        c, answer = context_of(context, tenant), struct("wane_table_answer")
        if not lib.wane_table_find(self._use(), c._c, index, answer):
            return None
        return Answer(text(lib.wane_table_source(answer.source)), _candidates(answer), answer)

    def draft(self, context: Union[Context, Any], most: int = _DRAFT_MOST, tenant: str = "") -> Draft:
        """What the table expects behind a context: at most `most` tokens, 47 at most; none where it does not know it."""
        c, room = context_of(context, tenant), max(0, min(most, _DRAFT_MOST))
        tokens, chances = np.empty(max(room, 1), np.int32), np.empty(max(room, 1), np.float32)
        count = lib.wane_table_draft(self._use(), c._c, room, pointer(tokens, "int32_t *"), pointer(chances, "float *"))
        return Draft(tokens[:count], chances[:count])

    def hottest(self, count: int = 20) -> List[TableRow]:
        """The entries that were seen most."""
        rows = ffi.new("wane_table_row[]", max(count, 1))
        have = lib.wane_table_hottest(self._use(), max(count, 0), rows)
        return [_row_of(rows[i]) for i in range(have)]

    # ------------------------------------------------------------------ making

    @staticmethod
    def build(logs: Iterable[Path], output: Optional[Path] = None, *, of: Origin = Origin(), temporary: Optional[Path] = None,
              progress: Optional[Progress] = None, **settings: Any) -> BuildReport:
        """
        Make a table of traces: files, or folders of them. `output` None: only the report. Settings as `wane table build` has them: window, depth,
        samples, min_stability, min_share, min_seen, follow, max_entries, phrases, built_at, memory. The same records and settings give the same bytes.
        """
        return _build(logs, (), output, False, of, temporary, progress, settings)

    @staticmethod
    def build_partial(logs: Iterable[Path], output: Path, *, of: Origin = Origin(), temporary: Optional[Path] = None,
                      progress: Optional[Progress] = None, **settings: Any) -> BuildReport:
        """Make a partial build of some of the traces, for `merge`."""
        return _build(logs, (), output, True, of, temporary, progress, settings)

    @staticmethod
    def merge(partials: Iterable[Path], output: Optional[Path] = None, *, partial: bool = False, of: Origin = Origin(),
              temporary: Optional[Path] = None, progress: Optional[Progress] = None, **settings: Any) -> BuildReport:
        """
        Make one of partial builds: a table whose bytes are those of the single build of all their traces, or, with `partial`, one partial build, so that
        merges make a tree. `window` and `samples` are the partial builds'.
        """
        return _build((), partials, output, partial, of, temporary, progress, settings)

    @staticmethod
    def new_key(path: Path) -> None:
        """Make a pair of Ed25519 keys: `path`, for its owner only, and `path`.pub. Never writes over a file."""
        call(lib.wane_table_key_new, path_of(path))

    @staticmethod
    def sign(path: Path, key: Path) -> None:
        """Sign a table with a secret key: writes `path`.sig."""
        call(lib.wane_table_sign, path_of(key), path_of(path))


def _candidates(answer: Any) -> Candidates:
    array = np.empty(answer.top_count, CANDIDATE)
    for i in range(answer.top_count):
        array[i] = answer.top[i].token, answer.top[i].logit
    return Candidates(array)


def _row_of(row: Any) -> TableRow:
    kinds = tuple(kind for i, kind in enumerate(KINDS) if row.kinds >> i & 1)
    follow = np.array([row.continuation[i] for i in range(row.continuation_count)], np.int32)
    return TableRow(row.window, row.ten, row.seen, row.positions, row.stability, row.agreement, row.mass, kinds, _candidates(row), follow, row.acceptance)


_Identity = Tuple[int, int, int, int]


class TableWatch:
    """
    The table that a path has now, exchanged while others look up: `table` opens the file anew where it changed, looking at most every `every` seconds. A
    new file that cannot be used leaves the table that there is, and `reason` says why; until there was one, `table` is None. Threads: any.
    """

    def __init__(self, path: Path, *, of: Optional[Origin] = None, key: Optional[Path] = None, every: float = 1.0) -> None:
        self.path, self.of, self.key, self.every = os.fspath(path), of, key, every
        self.reason = ""
        self.reloads = 0
        self._lock = threading.Lock()
        self._table: Optional[Table] = None
        self._seen: Tuple[Optional[_Identity], Optional[_Identity]] = (None, None)
        self._next = 0.0
        self.refresh()

    @staticmethod
    def _identify(path: str) -> Optional[_Identity]:
        try:
            facts = os.stat(path)
        except OSError:
            return None
        return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns

    @property
    def table(self) -> Optional[Table]:
        """The table in use. Whoever holds it may go on with it after it was exchanged."""
        if time.monotonic() >= self._next:
            self.refresh()
        return self._table

    def refresh(self) -> bool:
        """Look now; True: another table is in use."""
        with self._lock:
            self._next = time.monotonic() + self.every
            seen = self._identify(self.path), self._identify(self.path + ".sig") if self.key is not None else None
            if seen == self._seen and self._table is not None:
                return False
            try:
                fresh = Table(self.path, of=self.of, key=self.key)
            except errors.WaneError as why:
                self._seen, self.reason = seen, str(why)
                return False
            self._seen, self._table, self.reason = seen, fresh, ""
            self.reloads += 1
            return True
