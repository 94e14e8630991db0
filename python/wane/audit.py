"""The audit log: why an answer came out as it did, in the file that `wane serve --audit` writes. docs/audit.md has its form and what it guarantees."""
from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple, Union

from ._core import Handle, Path, Progress, Told, call, ffi, fields, lib, path_of, string_of, struct, text
from .errors import InvalidArgument

FAILURES = ("serve", "stop")


def _names() -> Tuple[str, ...]:
    return tuple(text(lib.wane_audit_field_name(i)) for i in range(lib.WANE_AUDIT_FIELDS))


@dataclass(frozen=True)
class AuditorState:
    """A moment's picture. `records`: on the disk, since it was opened; `dropped`: lost; `waiting`: of the queue. `reason`: why nothing is written."""

    ok: bool
    reason: str
    records: int
    dropped: int
    failures: int
    waiting: int
    bytes: int


@dataclass(frozen=True)
class AuditVerdict:
    """What a check found: `fault` "whole", "changed", "missing", "reordered", "replaced", "cut", "unguarded" or "damaged", `what` in a sentence."""

    fault: str
    what: str
    record: int
    file: int
    records: int
    requests: int
    gaps: int
    lost: int
    gaps_unknown: int
    first: int
    last: int
    since: int
    until: int
    before: str
    head: str
    keyed: bool
    ended: bool


class Auditor(Handle):
    """
    Writes a log by a thread of its own: nobody who puts a record waits for a disk. `key_file`: 64 hex digits that key the chain. `failure`: what happens while
    records cannot be written: "serve" goes on and counts what is missing, "stop" admits nothing. `start`: detail of the start record. Threads: any.
    """

    def __init__(self, path: Path, *, key_file: Optional[Path] = None, failure: str = "serve", start: Optional[Dict[str, Any]] = None,
                 table: Optional[str] = None) -> None:
        if failure not in FAILURES:
            raise ValueError(f'failure is "{failure}"; it must be {" or ".join(FAILURES)}')
        options, made = struct("wane_audit_options", lib.wane_audit_options_init), ffi.new("wane_auditor **")
        keep = path_of(path), path_of(key_file)
        options.path, options.key_file = keep
        options.failure = FAILURES.index(failure)
        detail = None if start is None else json.dumps(start, ensure_ascii=False)
        call(lib.wane_auditor_open, options, string_of(detail, "start"), string_of(table, "table"), made)
        super().__init__(made[0], lib.wane_auditor_close)
        self.path = os.fspath(path)
        self._fields = {name: i for i, name in enumerate(_names())}

    def admit(self) -> None:
        """Before a request begins: promises one `put`. IOFailure: records cannot be written, and the log is to stop then."""
        call(lib.wane_auditor_admit, self._use())

    def put(self, **values: Any) -> None:
        """
        The record of a request that was admitted; with `event`, of something else. Fields as docs/audit.md names them: numbers, texts, and what is JSON as
        Python has it. None: it does not apply.
        """
        record, keep = ffi.new("wane_audit_value[]", lib.WANE_AUDIT_FIELDS), []
        for name, value in values.items():
            if name not in self._fields or name in ("seq", "before", "hash"):
                raise InvalidArgument(f"an audit record has no {name} that one may set")
            if value is None:
                continue
            at = record[self._fields[name]]
            if isinstance(value, int) and not isinstance(value, bool):
                at.type, at.number = lib.WANE_AUDIT_NUMBER, value
                continue
            if lib.wane_audit_field_is_json(self._fields[name]):
                value = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            if not isinstance(value, str):
                raise InvalidArgument(f"an audit record's {name} is {value!r}; it must be a number or text")
            keep.append(ffi.new("char[]", value.encode("utf-8", "replace")))
            at.type, at.text, at.size = lib.WANE_AUDIT_STRING, keep[-1], len(keep[-1]) - 1
        call(lib.wane_auditor_put, self._use(), record)

    def flush(self) -> None:
        """Wait until what was put is written, or failed to be."""
        lib.wane_auditor_flush(self._use())

    @property
    def state(self) -> AuditorState:
        """A moment's picture."""
        made = struct("wane_auditor_state")
        lib.wane_auditor_get_state(self._use(), made)
        return AuditorState(**fields(made))


def read(path: Path, *, after: int = 0, request: Optional[str] = None, event: Optional[str] = None, last: int = 0) -> Iterator[Dict[str, Any]]:
    """Records in their order, of which nothing is verified: fields by name, what does not apply left out, JSON as Python has it."""
    options, told, found, names = struct("wane_audit_filter", lib.wane_audit_filter_init), Told(None), [], _names()
    keep = string_of(request, "request"), string_of(event, "event")
    options.after, options.last = after, last
    options.request, options.event = keep

    def give(user: Any, record: Any) -> bool:
        made: Dict[str, Any] = {}
        for i, name in enumerate(names):
            value = record.field[i]
            if value.type == lib.WANE_AUDIT_NUMBER:
                made[name] = value.number
            elif value.type == lib.WANE_AUDIT_STRING:
                raw = bytes(ffi.buffer(value.text, value.size)).decode("utf-8", "replace")
                made[name] = json.loads(raw) if lib.wane_audit_field_is_json(i) else raw
        found.append({**made, "before": text(record.before), "hash": text(record.hash)})
        return True
    told.call(lib.wane_audit_read, path_of(path), options, ffi.callback("wane_audit_fn", give, error=False), ffi.NULL)
    return iter(found)


def verify(paths: Union[Path, Iterable[Path]], *, key_file: Optional[Path] = None, head: Optional[str] = None,
           progress: Optional[Progress] = None) -> AuditVerdict:
    """Check logs that follow each other, the oldest first, from end to end. `head`: a hash that must be in there. Unauthorized: it has another key."""
    listed: List[Any] = [path_of(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    check, verdict, told = struct("wane_audit_check", lib.wane_audit_check_init), struct("wane_audit_verdict"), Told(progress)
    keep = ffi.new("char const *[]", listed), path_of(key_file), string_of(head, "head")
    check.paths, check.key_file, check.head = keep
    check.path_count, check.progress = len(listed), told.callback
    told.call(lib.wane_audit_verify, check, verdict)
    return AuditVerdict(fault=text(lib.wane_audit_fault_name(verdict.fault)), **fields(verdict, ("fault",)))
