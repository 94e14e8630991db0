"""Rows of logits, and what they say: the best candidates, how sure the model is, what three draws would agree on."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from ._core import CANDIDATE, as_numpy, call, ffi, floats, lib, pointer, struct, tokens_of


class Signals(NamedTuple):
    """What one row says of how sure the model is; NaN: not known. docs/probe.md and docs/governor.md have the formulas."""

    kurtosis: float = math.nan
    spread: float = math.nan
    entropy: float = math.nan
    margin: float = math.nan
    consistency: float = math.nan

    def _c(self) -> Any:
        made = struct("wane_signals")
        for name, value in zip(self._fields, self):
            setattr(made, name, value)
        return made


def signals_of(made: Any) -> Signals:
    """A wane_signals of C's."""
    return Signals(*(getattr(made, name) for name in Signals._fields))


@dataclass(frozen=True)
class Candidates:
    """The best tokens of a row, best first, the smaller token among equals; `best` and Head make them, `of` takes yours."""

    array: NDArray[Any]
    #: log Σ exp(logit) over the whole vocabulary, between two bounds; NaN: not known.
    low: float = math.nan
    high: float = math.nan
    #: Tokens in the vocabulary; 0: not said.
    vocab_size: int = 0

    @property
    def tokens(self) -> NDArray[np.int32]:
        """Their ids."""
        return self.array["token"]

    @property
    def logits(self) -> NDArray[np.float32]:
        """Their logits."""
        return self.array["logit"]

    @property
    def whole(self) -> bool:
        """Are there no others?"""
        return 0 < self.vocab_size <= len(self.array)

    def __len__(self) -> int:
        return len(self.array)

    @classmethod
    def of(cls, tokens: Any, logits: Any, log_sum: float = math.nan, vocab_size: int = 0) -> "Candidates":
        """Of lists in any order, such as vLLM's top log-probabilities, whose log-sum is 0."""
        ids, values = tokens_of(tokens), floats(logits, "logits")
        if values.shape != ids.shape:
            raise ValueError(f"{ids.size} tokens have {values.size} logits")
        made = np.empty(ids.size, CANDIDATE)
        order = np.lexsort((ids, -values))
        made["token"], made["logit"] = ids[order], values[order]
        return cls(made, log_sum, log_sum, vocab_size)


Row = Union[Candidates, NDArray[Any], Any]


def row_of(row: Any) -> NDArray[np.float32]:
    """One row of logits, as float32."""
    given = floats(row, "a row of logits")
    if given.ndim == 2 and given.shape[0] == 1:
        given = given[0]
    if given.ndim != 1 or given.size == 0:
        raise ValueError(f"a row of logits has the shape {given.shape}; it must be (V,)")
    return given


def best(row: Any, count: int = 64) -> Candidates:
    """The best `count` of a row of V logits, with the log-sum of all of them. BadRow: it holds NaN, or nothing to draw."""
    logits = row_of(row)
    if count < 1:
        raise ValueError(f"count is {count}; it must be 1 or more")
    count = min(count, logits.size)
    array, found, log_sum = np.empty(count, CANDIDATE), ffi.new("int *"), ffi.new("double *")
    call(lib.wane_row_best, pointer(logits, "float *"), logits.size, count, pointer(array, "wane_candidate *"), found, log_sum)
    return Candidates(array[:found[0]], log_sum[0], log_sum[0], logits.size)


def candidates_of(row: Row, count: int) -> Candidates:
    """What was given as candidates, or the best of a row."""
    return row if isinstance(row, Candidates) else best(row, count)


def signals(row: Row, vocab_size: Optional[int] = None) -> Signals:
    """
    Entropy (nats, temperature 1) and margin of a row of logits; of Candidates with a log-sum an estimate, see `entropy_bounds`. `vocab_size` is
    asked for where candidates do not say it.
    """
    made = struct("wane_signals")
    if isinstance(row, Candidates):
        _best_signals(row, vocab_size, made)
    else:
        logits = row_of(row)
        call(lib.wane_row_signals, pointer(logits, "float *"), logits.size, made)
    return signals_of(made)


def _best_signals(row: Candidates, vocab_size: Optional[int], made: Any) -> Tuple[float, float]:
    size = row.vocab_size or vocab_size or 0
    if size == 0:
        raise ValueError("candidates do not say of how many tokens they are: pass vocab_size")
    low, high = ffi.new("double *"), ffi.new("double *")
    call(lib.wane_best_signals, pointer(row.array, "wane_candidate *"), len(row), size, 0.5 * (row.low + row.high), made, low, high)
    return low[0], high[0]


def entropy_bounds(row: Candidates, vocab_size: Optional[int] = None) -> Tuple[float, float]:
    """Between what the entropy lies, when only the best tokens and the log-sum are known."""
    return _best_signals(row, vocab_size, struct("wane_signals"))


def vote_of_three(probabilities: Any) -> NDArray[np.float64]:
    """
    The probability of each token to win a vote of three draws, from its probability in one: the collapsed form that mode "wane" draws from once
    (docs/correction.md). In the order of candidates: best first, the smaller token among equals. They are scaled to sum to 1.
    """
    given = np.ascontiguousarray(as_numpy(probabilities), dtype=np.float64)
    whole = float(given.sum()) if given.size else 0.0
    if given.ndim != 1 or given.size == 0 or not np.all(given >= 0) or not 0 < whole < math.inf:
        raise ValueError("probabilities are a list of numbers of 0 and more that are not all 0")
    if np.any(np.diff(given) > 0):
        raise ValueError("probabilities must be best first")
    given = given / whole
    out = np.empty_like(given)
    lib.wane_vote_closed(pointer(given, "double *"), given.size, pointer(out, "double *"))
    return out
