"""Traces of what was decoded, in the files that `wane serve --trace` writes: recording for whoever has an engine of one's own, and reading."""
from __future__ import annotations

import itertools
import json
import math
import os
import secrets
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Union

from ._core import Handle, Path, Progress, Told, call, ffi, fields, lib, path_of, pointer, string_of, struct, text, texts_of, tokens_of
from .errors import Busy
from .parts import Context, Origin
from .rows import Row, candidates_of
from .table import KINDS

STATES = ("normal", "locked", "explore", "protect")
#: Candidates of a token that are recorded.
TOP = 64


@dataclass(frozen=True)
class TracerState:
    """Counters of a tracer; they never fall."""

    requests: int
    tokens: int
    ends: int
    dropped_requests: int
    dropped_tokens: int
    redacted_tokens: int
    withheld_tokens: int
    files: int
    bytes: int
    failures: int
    waiting_bytes: int
    held_bytes: int


class Tracer(Handle):
    """
    Writes traces into a folder by a thread of its own: nothing waits for the disk; what its queue cannot take is dropped, and counted. docs/trace.md
    specifies the files, docs/table.md what tables make of them.

    `of` says whose they are, all of it. `plain`: .jsonl instead of .jsonl.zst. `files`: so many are kept, the newest; 0: all. `redact`: a file with patterns
    of what must not be recorded; then `token_bytes` gives a token's text, as bytes or None. Threads: any, at once; one request's records in their order.
    """

    def __init__(self, folder: Path, of: Origin, *, plain: bool = False, queue_bytes: int = 32 << 20, file_bytes: int = 256 << 20,
                 file_seconds: float = 3600.0, files: int = 0, sync_seconds: float = 1.0, redact: Optional[Path] = None, hold_bytes: int = 128 << 20,
                 token_bytes: Optional[Callable[[int], Optional[bytes]]] = None) -> None:
        options, made = struct("wane_recorder_options", lib.wane_recorder_options_init), ffi.new("wane_tracer **")
        place, patterns = path_of(folder), path_of(redact)
        options.folder, options.redact_file = place, patterns
        options.plain, options.queue_bytes, options.file_bytes, options.file_seconds = plain, queue_bytes, file_bytes, file_seconds
        options.files, options.sync_seconds, options.hold_bytes = files, sync_seconds, hold_bytes
        self._token_bytes = ffi.NULL
        if token_bytes is not None:
            self._token_bytes = ffi.callback("int(void *, int32_t, char *, size_t)", texts_of(token_bytes), error=-1)
        call(lib.wane_tracer_open, options, of._c(), self._token_bytes, ffi.NULL, made)
        super().__init__(made[0], lib.wane_tracer_close)
        self.of = of
        self._nonce, self._number = secrets.token_hex(8), itertools.count(1)

    def request(self, prompt: Any, *, id: Optional[str] = None, kind: str = "single", tenant: str = "", temperature: float = 0.8, top_k: int = 40,
                top_p: float = 0.95, min_p: float = 0.05, repeat_penalty: float = 1.0, presence_penalty: float = 0.0,
                frequency_penalty: float = 0.0, penalty_window: int = 64, seed: int = 0, max_tokens: int = 0, ignore_end: bool = False,
                stops: Sequence[str] = (), vote_of: Optional[str] = None, vote_answer: int = 0) -> "Traced":
        """
        A request came: what it asks for, so that it can be run again. Its name is made up unless it is given (1 to 64 printable ASCII characters without
        blanks, never twice). What is returned takes its tokens and its end. Busy: it was dropped.
        """
        ids, r = tokens_of(prompt, "prompt"), struct("wane_trace_request", lib.wane_trace_request_init)
        name = f"{self._nonce}-{next(self._number)}" if id is None else id
        texts = [string_of(stop, "a stop string") for stop in stops]
        listed = ffi.new("char const *[]", texts)
        keep = string_of(name, "id"), string_of(tenant, "tenant"), string_of(vote_of, "vote_of")
        r.id, r.tenant, r.vote_of = keep
        r.kind, r.prompt, r.prompt_count, r.stops, r.stop_count = _kind(kind), pointer(ids, "int32_t *"), ids.size, listed, len(texts)
        r.max_tokens, r.ignore_end, r.vote_answer = max_tokens, ignore_end, vote_answer
        s = r.sampling
        s.temperature, s.top_k, s.top_p, s.min_p, s.seed = temperature, top_k, top_p, min_p, seed
        s.repeat_penalty, s.presence_penalty, s.frequency_penalty, s.penalty_window = repeat_penalty, presence_penalty, frequency_penalty, penalty_window
        call(lib.wane_tracer_request, self._use(), r)
        return Traced(self, name, kind, Context(ids, tenant))

    def vote(self, of: str, chosen: int) -> None:
        """Which of the answers to a request was chosen, 0 to 2."""
        call(lib.wane_tracer_vote, self._use(), string_of(of, "of"), chosen)

    def flush(self) -> None:
        """Wait until everything so far is on the disk."""
        lib.wane_tracer_flush(self._use())

    @property
    def state(self) -> TracerState:
        """A moment's picture."""
        made = struct("wane_recorder_state")
        lib.wane_tracer_get_state(self._use(), made)
        return TracerState(**fields(made))


def _kind(kind: str) -> int:
    if kind not in KINDS:
        raise ValueError(f'kind is "{kind}"; it must be {", ".join(KINDS)}')
    return KINDS.index(kind)


class Traced:
    """
    One recorded request. `context` is all tokens so far: `token` adds to it, so that one may look up tables with it. A with statement ends the request
    as "abandoned", or "failed" where something was raised, if nobody ended it.
    """

    def __init__(self, tracer: Tracer, id: str, kind: str, context: Context) -> None:
        self.tracer, self.id, self.kind, self.context = tracer, id, kind, context
        self.drawn = 0
        self.ended = False
        self._begun = time.monotonic()
        self._id = string_of(id, "id")

    def token(self, token: int, row: Row, *, changed: bool = False, state: Optional[str] = None) -> None:
        """
        A token was drawn from a row: V logits after bias and penalties, or its best Candidates. `changed`: a correction had a hand in it, and no table
        learns from it. `state`: of the governor. Busy: the record was dropped; the request goes on.
        """
        best, t = candidates_of(row, TOP), struct("wane_trace_token", lib.wane_trace_token_init)
        t.id, t.kind, t.before, t.index, t.token, t.changed = self._id, KINDS.index(self.kind), self.context._c, self.drawn, int(token), changed
        t.top, t.top_count = pointer(best.array, "wane_candidate *"), len(best)
        t.log_sum = 0.5 * (best.low + best.high) if not math.isnan(best.low) else math.nan
        if state is not None:
            t.state = STATES.index(state)
        try:
            call(lib.wane_tracer_token, self.tracer._use(), t)
        except Busy:
            self._join(int(token))
            raise
        self._join(int(token))

    def _join(self, token: int) -> None:
        self.context.add(token)
        self.drawn += 1

    def end(self, finish: str = "end") -> None:
        """It ended: "end", "stop", "length", "context", "fuse", "cancelled", "timeout", "failed", "shutdown" or "abandoned". Once."""
        if self.ended:
            return
        call(lib.wane_tracer_end, self.tracer._use(), self._id, string_of(finish, "finish"), self.drawn, 1e3 * (time.monotonic() - self._begun))
        self.ended = True

    def __enter__(self) -> "Traced":
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if not self.ended:
            self.end("failed" if kind is not None else "abandoned")


def _paths(paths: Union[Path, Iterable[Path]]) -> List[Any]:
    return [path_of(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]


def count(paths: Union[Path, Iterable[Path]], *, strictly: bool = False, faults: Optional[Callable[[str, int, str], Optional[bool]]] = None,
          progress: Optional[Progress] = None) -> Dict[str, Any]:
    """
    Read traces, files or folders of them, and count, as `wane trace count` does. Each file's first fault goes to `faults(path, line, what)`, which may return
    False to stop.
    """
    names, told, stats = _paths(paths), Told(progress), struct("wane_trace_stats")

    def fault(user: Any, path: Any, line: int, what: Any) -> bool:
        try:
            assert faults is not None
            return faults(text(path), line, text(what)) is not False
        except BaseException as why:
            told.raised = why
            return False
    heard = ffi.callback("bool(void *, char const *, uint64_t, char const *)", fault) if faults is not None else ffi.NULL
    listed = ffi.new("char const *[]", names)
    told.call(lib.wane_trace_count, listed, len(names), strictly, heard, told.callback, ffi.NULL, stats)
    made = fields(stats, ("requests_of", "tokens_of"))
    for name in ("requests_of", "tokens_of"):
        made[name] = dict(zip(KINDS, getattr(stats, name)))
    return made


def records(paths: Union[Path, Iterable[Path]], most: Optional[int] = None) -> Iterator[Dict[str, Any]]:
    """The records of traces as they stand there, decompressed, in order: at most `most` of them. FormatError names a wrong line."""
    names, told = _paths(paths), Told(None)
    lines: List[bytes] = []

    def give(user: Any, path: Any, line: int, raw: Any, size: int) -> bool:
        if most is not None and len(lines) >= most:
            return False
        try:
            lines.append(bytes(ffi.buffer(raw, size)))
        except BaseException as why:
            told.raised = why
            return False
        return True
    heard, listed = ffi.callback("bool(void *, char const *, uint64_t, char const *, size_t)", give), ffi.new("char const *[]", names)
    told.call(lib.wane_trace_lines, listed, len(names), heard, ffi.NULL)
    return (json.loads(line) for line in lines)
