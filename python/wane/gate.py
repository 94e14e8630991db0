"""The gate: how likely a vote over answers would leave a token alone. docs/gate.md has formulas and file."""
from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Optional, Tuple

from ._core import Handle, Path, call, ffi, fields, lib, path_of, pointer, shipped, struct, text, tokens_of
from .errors import NotFound, Unsupported
from .parts import Origin
from .quality import Quality
from .rows import Row, candidates_of

#: Candidates that a look takes.
OVER = 50


@dataclass(frozen=True)
class GateFacts:
    """What a gate's file says of itself; NaN: nothing was held out of training."""

    model: str
    tokenizer: str
    vocab_size: int
    patterns: int
    seed: int
    votes: int
    positions: int
    kept: int
    tokens: int
    auc: float
    ece: float
    coverage: float
    allowance: float
    note: str


@dataclass(frozen=True)
class Prompt:
    """What a prompt asks of the gate: the entropy of its tokens in bits, its documents, and the threshold of odds."""

    entropy: float
    documents: int
    tau: float


@dataclass(frozen=True)
class Verdict:
    """What was made of one token. `judged` False: not looked at. `reason` of a rejection: "doubt", "revival", "forced". `woke`: it spent the budget."""

    index: int
    judged: bool
    table: bool
    reject: bool
    lut: bool
    revival: bool
    forced: bool
    woke: bool
    reason: str
    odds: float
    tau: float
    share: Tuple[float, ...]
    gap: Tuple[float, ...]
    bin: Tuple[int, ...]


def verdict_of(token: Any) -> Verdict:
    """A wane_gate_token of C's."""
    plain = fields(token, ("token", "share", "gap", "bin", "reason"))
    return Verdict(reason=text(lib.wane_wake_name(token.reason)), share=tuple(token.share), gap=tuple(token.gap), bin=tuple(token.bin), **plain)


class Gate(Handle):
    """
    A gate's file, read. `of`: the model and tokenizer that it must be of, else Unsupported: another model's odds would mean nothing. Threads: any number at
    once.
    """

    def __init__(self, path: Path, *, of: Optional[Origin] = None) -> None:
        made = ffi.new("wane_gate **")
        call(lib.wane_gate_open, path_of(path), made)
        super().__init__(made[0], lib.wane_gate_free)
        self.path = os.fspath(path)
        facts = struct("wane_gate_facts")
        lib.wane_gate_describe(self._handle, facts)
        self.facts = GateFacts(**fields(facts, ("bytes",)))
        if of is None:
            return
        for what in ("model", "tokenizer"):
            want, have = getattr(of, what), getattr(self.facts, what)
            if want and want != have:
                self.close()
                raise Unsupported(f"The gate {self.path} is of another {what} ({have}; this one is {want}): its odds would mean nothing.")

    @classmethod
    def open(cls, path: Path, *, of: Optional[Origin] = None) -> "Gate":
        """As Gate(path)."""
        return cls(path, of=of)

    @classmethod
    def shipped(cls, model: str) -> "Gate":
        """The one that ships for the model with this digest (file_digest of its GGUF file); NotFound: there is none."""
        path = shipped(f"gates/{model}.gate")
        if path is None:
            raise NotFound(f'No gate ships for the model {model}. "wane train gate" makes one from traces with votes.')
        return cls(path, of=Origin(model=model))

    def odds(self, row: Row, temperature: float = 1.0) -> float:
        """
        Log10 odds that a vote would leave this row's token alone; NaN: fewer than 50 candidates were given, and the others could change the answer. A row
        of V logits, or its Candidates, after bias and penalties.
        """
        best, out = candidates_of(row, OVER), ffi.new("float *")
        known = lib.wane_gate_odds(self._use(), pointer(best.array, "wane_candidate *"), len(best), best.whole, temperature, out, ffi.NULL)
        return float(out[0]) if known else float("nan")

    def seen(self, row: Row, temperature: float = 1.0) -> bool:
        """Is what the row looks like among what training saw?"""
        best, out, found = candidates_of(row, OVER), ffi.new("float *"), ffi.new("bool *")
        known = lib.wane_gate_odds(self._use(), pointer(best.array, "wane_candidate *"), len(best), best.whole, temperature, out, found)
        return bool(known and found[0])

    def doubt(self, prompt: Prompt, quality: Optional[Quality] = None, temperature: float = 0.8, top_k: int = 40) -> "Doubt":
        """A reply's doubt, for a request with these settings."""
        return Doubt(self, prompt, quality, temperature, top_k)


def look_at_prompt(tokens: Any, text: Optional[str] = None, quality: Optional[Quality] = None) -> Prompt:
    """What a prompt asks of the gate: of its tokens, and of its text, in which documents are counted where it is given."""
    ids, raw = tokens_of(tokens), (text or "").encode()
    made = struct("wane_gate_prompt")
    call(lib.wane_gate_look_at_prompt, (quality or Quality())._c, pointer(ids, "int32_t *"), ids.size, ffi.from_buffer(raw), len(raw), made)
    return Prompt(made.entropy, made.documents, made.tau)


class Doubt(Handle):
    """
    What a reply may still be unsure of: each token is judged, rejections are counted, and the one that exceeds the request's budget wakes the vote. With
    one answer, or at temperature 0, a vote cannot change anything, and nothing is judged. Threads: one at a time; others wait.
    """

    def __init__(self, gate: Gate, prompt: Prompt, quality: Optional[Quality] = None, temperature: float = 0.8, top_k: int = 40) -> None:
        generation, of, made = struct("wane_generation", lib.wane_generation_init), struct("wane_gate_prompt"), ffi.new("wane_doubt **")
        generation.sampling.temperature, generation.sampling.top_k = temperature, top_k
        of.entropy, of.documents, of.tau = prompt.entropy, prompt.documents, prompt.tau
        call(lib.wane_doubt_new, (quality or Quality())._c, ffi.addressof(generation, "sampling"), of, made)
        super().__init__(made[0], lib.wane_doubt_free)
        self.gate = gate

    def judge(self, row: Row, index: int, in_table: bool = False) -> Verdict:
        """Judge token `index` of the reply by its row. `in_table`: a table knows the context, which passes without a look, unless a check is forced."""
        best, token = candidates_of(row, OVER), struct("wane_gate_token")
        with self._lock:
            lib.wane_doubt_judge(self._use(), self.gate._use(), pointer(best.array, "wane_candidate *"), len(best), best.whole, in_table, index, token)
        return verdict_of(token)

    def _get(self) -> Tuple[int, int, int]:
        out = [ffi.new("int *") for _ in range(3)]
        with self._lock:
            lib.wane_doubt_get(self._use(), *out)
        return out[0][0], out[1][0], out[2][0]

    @property
    def rejects(self) -> int:
        """Tokens that were rejected so far."""
        return self._get()[0]

    @property
    def first_reject(self) -> Optional[int]:
        """Index of the first one: where other answers would fork."""
        at = self._get()[1]
        return None if at < 0 else at

    @property
    def woke_at(self) -> Optional[int]:
        """Index of the token that woke the vote; None: nothing did."""
        at = self._get()[2]
        return None if at < 0 else at
