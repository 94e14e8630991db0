"""
wane's numbers in vLLM's Prometheus registry, under the names that `wane serve` has for them (docs/metrics.md).

vLLM decodes in a process of its own and answers /metrics in another. Counters lie in a file that both can see, one for each process that counts; a collector
adds them up when it is asked. Where vLLM has several processes that answer (PROMETHEUS_MULTIPROC_DIR), the counters are prometheus_client's own. Owns names
and files; refuses to be in the way: a file that cannot be written costs the numbers, and no request.
"""
from __future__ import annotations

import atexit
import mmap
import os
import pathlib
import shutil
import struct
import tempfile
from typing import Any, Dict, Iterator, List, Optional, Tuple

FOLDER = "WANE_VLLM_COUNTERS"
MULTIPLE = "PROMETHEUS_MULTIPROC_DIR"

#: Name, label and its values, help. No label: ("",).
FAMILIES: Tuple[Tuple[str, str, Tuple[str, ...], str], ...] = (
    ("wane_mode_requests", "mode", ("off", "legacy", "wane"), "Requests that began, by the mode that they ran in."),
    ("wane_ssp_requests", "", ("",), "Requests with an SSP."),
    ("wane_corrected_tokens", "", ("",), "Tokens drawn with a correction at work."),
    ("wane_changed_tokens", "", ("",), "Of these, other ones than without."),
    ("wane_gate_judged", "", ("",), "Tokens that the gate judged."),
    ("wane_gate_hits", "", ("",), "Of these, found in the gate's table; the net ran for the others."),
    ("wane_gate_table_passed", "", ("",), "Tokens that passed without a look, for the table knows their context."),
    ("wane_gate_rejects", "reason", ("doubt", "revival", "forced"), "Tokens in doubt."),
    ("wane_gate_revoted", "", ("",), "Tokens in doubt that were drawn again, by votes over votes."),
    ("sfcl_fallback", "reason", ("doubt", "revival", "forced"), "Replies that spent their doubt budget, by what spent it."),
    ("wane_governor_tokens", "state", ("normal", "locked", "explore", "protect"), "Tokens drawn under a profile."),
    ("wane_fuse", "rule", ("loop", "plain"), "Replies that the fuse ended, by its rule."),
    ("slmt_hit", "", ("",), "Tokens whose context is in the table, and whose entry fits."),
    ("wane_row_failures", "", ("",), "Rows that could not be drawn from: vLLM drew instead."),
    ("wane_record_dropped", "", ("",), "Requests and tokens that the recorder dropped."),
    ("wane_audit_dropped", "", ("",), "Audit records that were lost."),
    ("wane_draft_proposed", "source", ("table", "text"), "Tokens verified ahead, by where they came from."),
    ("wane_draft_accepted", "source", ("table", "text"), "Of these, tokens that were drawn."),
    ("wane_draft_blocks", "", ("",), "Blocks verified."),
    ("wane_draft_backoffs", "", ("",), "Steps in which a sequence's draft was held back, for it had lost more than it gained."),
    ("wane_table_reloads", "", ("",), "Tables that were opened while running."),
)

_PLACES: Dict[Tuple[str, str], int] = {}
for _name, _, _values, _ in FAMILIES:
    for _value in _values:
        _PLACES[_name, _value] = 8 * len(_PLACES)


class Counters:
    """This process's: in a file where the folder is known, else in its memory alone."""

    def __init__(self, folder: Optional[str] = None) -> None:
        folder = folder if folder is not None else os.environ.get(FOLDER)
        self._map: Any = bytearray(8 * len(_PLACES))
        try:
            if folder:
                path = pathlib.Path(folder) / f"{os.getpid()}-{id(self):x}"
                path.write_bytes(bytes(self._map))
                with open(path, "r+b") as file:
                    self._map = mmap.mmap(file.fileno(), 0)
        except OSError:
            pass  # the numbers stay here
        self._shared = _shared() if MULTIPLE in os.environ else {}

    def add(self, name: str, value: str = "", count: int = 1) -> None:
        """One more, or so many."""
        if self._shared:
            (self._shared[name].labels(value) if value else self._shared[name]).inc(count)
        at = _PLACES[name, value]
        struct.pack_into("<q", self._map, at, struct.unpack_from("<q", self._map, at)[0] + count)

    def get(self, name: str, value: str = "") -> int:
        """What this process counted."""
        return int(struct.unpack_from("<q", self._map, _PLACES[name, value])[0])


def _shared() -> Dict[str, Any]:
    from prometheus_client import Counter
    return {name: Counter(name, text, [label] if label else []) for name, label, _, text in FAMILIES}


_own: Optional[Counters] = None


def counters() -> Counters:
    """Those of this process."""
    global _own
    if _own is None:
        _own = Counters()
    return _own


def _files() -> List[bytes]:
    folder = os.environ.get(FOLDER)
    found = []
    for path in sorted(pathlib.Path(folder).glob("*-*")) if folder else ():
        try:
            found.append(path.read_bytes())
        except OSError:
            pass  # it went with its process
    return [raw for raw in found if len(raw) == 8 * len(_PLACES)]


def totals() -> Dict[Tuple[str, str], int]:
    """Of all processes together."""
    files = _files()
    if not files:
        return {place: counters().get(*place) for place in _PLACES}
    return {place: sum(struct.unpack_from("<q", raw, at)[0] for raw in files) for place, at in _PLACES.items()}


class Collector:
    """What Prometheus asks."""

    def collect(self) -> Iterator[Any]:
        """All families, as they are now."""
        from prometheus_client.core import CounterMetricFamily
        now = totals()
        for name, label, values, text in FAMILIES:
            family = CounterMetricFamily(name, text, labels=[label] if label else [])
            for value in values:
                family.add_metric([value] if label else [], now[name, value])
            yield family


_registered = False


def register() -> None:
    """Put the collector into vLLM's registry, once in a process."""
    global _registered
    if _registered or MULTIPLE in os.environ:
        return
    _registered = True
    from vllm.v1.metrics.prometheus import get_prometheus_registry
    get_prometheus_registry().register(Collector())


def prepare() -> None:
    """In the process that starts the others, before it does: a folder for their counters."""
    if FOLDER not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="wane-vllm-")
        atexit.register(_remove, os.environ[FOLDER], os.getpid())


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a child that was forked
        shutil.rmtree(folder, ignore_errors=True)
