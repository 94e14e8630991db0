"""
The parts of wane in Python, over NumPy; see docs/python.md.

    Head        the best tokens of a hidden row, exactly, without the whole product
    Table       what was seen before, and what may come next; TableWatch follows a file
    Gate        how likely a vote over answers would leave a token alone; Doubt is one reply's
    Governor    how the next token is to be drawn, and the fuse; Profile has its thresholds
    Sampler     one reply's draws with all of these; Rules hold words down
    Tracer      records what was decoded, for tables and gates
    Auditor     writes the audit log; wane.audit reads and checks it
    with_ssp    the structured system instruction, for the clients of a wane server: needs neither NumPy nor the library

Names are loaded when they are first used.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, List

from .ssp import KEYS, SSPError, ssp, with_ssp

if TYPE_CHECKING:
    from .audit import Auditor, AuditorState, AuditVerdict
    from .errors import (BadRow, Busy, Cancelled, FormatError, InternalError, InvalidArgument, IOFailure, NoMemory, NotFound, Unauthorized,
                         Unsupported, WaneError)
    from .gate import Doubt, Gate, GateFacts, Prompt, Verdict, look_at_prompt
    from .governor import Governor, Profile, Steer
    from .head import Head, HeadFacts, HeadWork, Scan
    from .parts import Context, Origin, file_digest, tokenizer_digest
    from .quality import Quality, instruction_of
    from .rows import Candidates, Signals, best, entropy_bounds, signals, vote_of_three
    from .sampler import Drawn, Rules, Sampler
    from .table import Answer, BuildReport, Draft, Table, TableFacts, TableRow, TableWatch
    from .trace import Traced, Tracer, TracerState
    from .weights import GGUF, Tensor, Weights

__version__ = "0.1.0"

_WHERE = {
    "audit": ("Auditor", "AuditorState", "AuditVerdict"),
    "errors": ("BadRow", "Busy", "Cancelled", "FormatError", "InternalError", "InvalidArgument", "IOFailure", "NoMemory", "NotFound", "Unauthorized",
               "Unsupported", "WaneError"),
    "gate": ("Doubt", "Gate", "GateFacts", "Prompt", "Verdict", "look_at_prompt"),
    "governor": ("Governor", "Profile", "Steer"),
    "head": ("Head", "HeadFacts", "HeadWork", "Scan"),
    "parts": ("Context", "Origin", "file_digest", "tokenizer_digest"),
    "quality": ("Quality", "instruction_of"),
    "rows": ("Candidates", "Signals", "best", "entropy_bounds", "signals", "vote_of_three"),
    "sampler": ("Drawn", "Rules", "Sampler"),
    "table": ("Answer", "BuildReport", "Draft", "Table", "TableFacts", "TableRow", "TableWatch"),
    "trace": ("Traced", "Tracer", "TracerState"),
    "weights": ("GGUF", "Tensor", "Weights"),
}
_MODULE = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "KEYS", "SSPError", "ssp", "with_ssp",
    "BadRow", "Busy", "Cancelled", "FormatError", "InternalError", "InvalidArgument", "IOFailure", "NoMemory", "NotFound", "Unauthorized",
    "Unsupported", "WaneError",
    "Doubt", "Gate", "GateFacts", "Prompt", "Verdict", "look_at_prompt",
    "Governor", "Profile", "Steer",
    "Head", "HeadFacts", "HeadWork", "Scan",
    "Context", "Origin", "file_digest", "tokenizer_digest",
    "Quality", "instruction_of",
    "Candidates", "Signals", "best", "entropy_bounds", "signals", "vote_of_three",
    "Drawn", "Rules", "Sampler",
    "Answer", "BuildReport", "Draft", "Table", "TableFacts", "TableRow", "TableWatch",
    "Traced", "Tracer", "TracerState",
    "Auditor", "AuditorState", "AuditVerdict",
    "GGUF", "Tensor", "Weights",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module 'wane' has no attribute {name!r}")
    value = getattr(importlib.import_module("." + _MODULE[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__})
