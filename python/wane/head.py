"""The certified head: the best tokens of a hidden row, exactly, without multiplying all rows of the matrix."""
from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

import numpy as np
from numpy.typing import NDArray

from ._core import CANDIDATE, Handle, Path, Progress, Told, call, ffi, floats, lib, path_of, pointer, string_of, struct, text, tokens_of
from .rows import Candidates, Signals
from .weights import GGUF, TYPES, Weights

#: Hidden rows that one pass over the sketch takes at most.
ROWS_MOST = 64


@dataclass(frozen=True)
class HeadFacts:
    """What a head is: its shape, the kernel that scans, and its sketch."""

    vocab_size: int
    d: int
    kernel: str
    bits_level1: float
    bits_level2: float
    bytes: int
    statistics_rows: int
    built: bool
    digest: str


@dataclass(frozen=True)
class HeadWork:
    """What a head's answers took so far: rows of the matrix that were left after either level, and computed."""

    rows: int
    questions: int
    survivors1: int
    survivors2: int
    rescored: int
    dense: int


class Head(Handle):
    """
    Exact candidates of V × d weights. A sketch of few bits a weight rules rows out by a proof; what is left is computed. The answer is that of the whole
    product, with the failure probability that `sigmas` stands for (6: 1e-9 a token). A logit is the sum of products in double, rounded to float32.

    `weights`: an array (V, d) of float32, float16 or bfloat16, taken as it is where it lies row by row, or Weights of packed rows. It must not
    change while the head lives. `path`: of the sketch's file; one that is there and has the digest of these weights is opened, else it is built. None:
    it is built, and kept nowhere. `sample`: a few thousand hidden rows of ordinary use, (n, d): they make the sketch several times sharper. `mean` and
    `covariance`, with `sample_rows`, say the same in less. `digest` names the weights, at most 32 characters; None: computed from their bytes.
    `rows`: hidden rows in one pass, at most 64. `kernel`: "plain", "avx2", "avx512-vnni", "neon"; None: the best. `found`: never build.

    Threads: any, one at a time; others wait. The interpreter's lock is not held meanwhile.
    """

    def __init__(self, weights: Any, path: Optional[Path] = None, *, sample: Any = None, mean: Any = None, covariance: Any = None,
                 sample_rows: int = 0, digest: Optional[str] = None, sigmas: float = 6.0, threads: int = 1, rows: int = 16,
                 rebuild: bool = False, found: bool = False, kernel: Optional[str] = None, progress: Optional[Progress] = None) -> None:
        self.weights = Weights.of(weights)
        if found and path is None:
            raise ValueError("a sketch that is to be found needs a path")
        if not 1 <= rows <= ROWS_MOST:
            raise ValueError(f"rows is {rows}; it must be 1 to {ROWS_MOST}")
        if digest is None:
            digest = self.weights.digest() if path is not None else ""
        keep: List[Any] = []
        options, matrix = self._options(keep, sample, mean, covariance, sample_rows)
        options.sigmas, options.threads, options.rows_most = sigmas, threads, rows
        options.rebuild, options.found = rebuild, found
        for name, value in (("digest", digest), ("kernel", kernel)):
            keep.append(string_of(value, name))
            setattr(options, name, keep[-1])
        super().__init__(self._open(options, matrix, path, Told(progress)), lib.wane_head_free)
        self.rows = rows
        self._hidden: Optional[NDArray[np.float32]] = None
        self._scans = 0
        facts = struct("wane_head_facts")
        lib.wane_head_get_facts(self._handle, facts)
        self.facts = HeadFacts(facts.vocab_size, facts.d, text(facts.kernel), facts.bits_level1, facts.bits_level2, facts.bytes,
                               facts.statistics_rows, facts.built, text(facts.digest))

    def _options(self, keep: List[Any], sample: Any, mean: Any, covariance: Any, sample_rows: int) -> Tuple[Any, Any]:
        w, d = self.weights, self.weights.d
        matrix, options = struct("wane_head_matrix", lib.wane_head_matrix_init), struct("wane_head_options", lib.wane_head_options_init)
        matrix.vocab_size, matrix.d, matrix.type = w.vocab_size, d, TYPES.index(w.type)
        matrix.packed = pointer(w.data, "void *")
        options.sample_rows = sample_rows
        for name, given, shape in (("sample", sample, (None, d)), ("mean", mean, (d,)), ("covariance", covariance, (d, d))):
            if given is None:
                continue
            array = floats(given, name)
            if array.ndim != len(shape) or any(want not in (None, have) for want, have in zip(shape, array.shape)):
                raise ValueError(f"{name} has the shape {array.shape}; it must be {shape}".replace("None", "n"))
            if not np.isfinite(array).all():
                raise ValueError(f"{name} holds a value that is no number")
            keep.append(array)
            setattr(options, name, pointer(array, "float *"))
            if name == "sample":
                options.sample_rows = array.shape[0]
        return options, matrix

    @staticmethod
    def _open(options: Any, matrix: Any, path: Optional[Path], told: Told) -> Any:
        made = ffi.new("wane_head **")
        if path is not None:
            name = path_of(path)
            options.path, options.progress = name, told.callback
            told.call(lib.wane_head_open, options, matrix, made)
            return made[0]
        with tempfile.TemporaryDirectory(prefix="wane-") as folder:  # opened, it is mapped, and needs no name
            name = path_of(os.path.join(folder, "sketch"))
            options.path, options.progress = name, told.callback
            told.call(lib.wane_head_open, options, matrix, made)
        return made[0]

    @classmethod
    def build(cls, weights: Any, path: Path, **options: Any) -> "Head":
        """Build a sketch into a file, whether there is one or not, and open it."""
        return cls(weights, path, rebuild=True, **options)

    @classmethod
    def open(cls, weights: Any, path: Path, **options: Any) -> "Head":
        """Open a sketch that is there: NotFound, FormatError where it is damaged or of other weights; nothing is built."""
        return cls(weights, path, found=True, **options)

    @classmethod
    def from_gguf(cls, gguf: Path, path: Optional[Path] = None, *, tensor: Optional[str] = None, **options: Any) -> "Head":
        """
        The head of a model's file, its weights mapped where they lie. With a `path` the sketch is named by the file's digest, as wane's own are, so
        that a sketch that wane made of this model is taken, and the other way round.
        """
        file = GGUF(gguf)
        weights = file.weights(tensor)
        if path is not None and "digest" not in options:
            from .parts import file_digest
            options["digest"] = file_digest(gguf)
        return cls(weights, path, **options)

    def save(self, path: Path) -> None:
        """Write the sketch to another file: under a temporary name, synced, renamed."""
        with self._lock:
            call(lib.wane_head_save, self._use(), path_of(path))

    @property
    def work(self) -> HeadWork:
        """Counters; they never fall."""
        work = struct("wane_head_work")
        with self._lock:
            lib.wane_head_get_work(self._use(), work)
        return HeadWork(work.rows, work.questions, work.survivors1, work.survivors2, work.rescored, work.dense)

    # ---------------------------------------------------------------- questions

    def _rows_of(self, hidden: Any) -> Tuple[NDArray[np.float32], bool]:
        given = floats(hidden, "hidden")
        one = given.ndim == 1
        if one:
            given = given[np.newaxis]
        if given.ndim != 2 or given.shape[1] != self.weights.d:
            raise ValueError(f"hidden has the shape {given.shape}; it must be ({self.weights.d},) or (n, {self.weights.d})")
        return given, one

    def scan(self, hidden: Any) -> "Scan":
        """Look at hidden rows in one pass, at most `rows` of them, to ask several questions of them; until the next scan or question."""
        given, _ = self._rows_of(hidden)
        with self._lock:
            return self._scan(given)

    def _scan(self, given: NDArray[np.float32]) -> "Scan":
        call(lib.wane_head_scan, self._use(), pointer(given, "float *"), given.shape[0])
        self._hidden = given  # the library reads it until the next scan
        self._scans += 1
        return Scan(self, given.shape[0], self._scans)

    def _scans_of(self, given: NDArray[np.float32]) -> Any:
        for first in range(0, given.shape[0], self.rows):
            yield first, self._scan(given[first:first + self.rows])

    def topk(self, hidden: Any, k: int = 1) -> Tuple[NDArray[np.int32], NDArray[np.float32]]:
        """
        Tokens and logits of the k best, best first, the smaller token among equals: each (k,) for a row of shape (d,), (n, k) for (n, d). k beyond V
        gives V.
        """
        given, one = self._rows_of(hidden)
        if k < 1:
            raise ValueError(f"k is {k}; it must be 1 or more")
        out = np.empty((given.shape[0], min(k, self.weights.vocab_size)), CANDIDATE)
        with self._lock:
            for first, scan in self._scans_of(given):
                for row in range(scan.rows):
                    scan._best(row, out[first + row])
        tokens, logits = np.ascontiguousarray(out["token"]), np.ascontiguousarray(out["logit"])
        return (tokens[0], logits[0]) if one else (tokens, logits)

    def masked(self, hidden: Any, k: int = 64, out: Optional[NDArray[np.float32]] = None) -> NDArray[np.float32]:
        """
        What stands in the place of `hidden @ weights.T` before a sampler: rows of V logits, the k best exact, -inf for all others. Greedy, and every
        sampler whose top-k is at most k, draws what it would draw from the whole product. `out` is filled and returned where it is given.
        """
        given, one = self._rows_of(hidden)
        shape = (given.shape[0], self.weights.vocab_size)
        tokens, logits = self.topk(given, k)
        if out is None:
            out = np.empty(shape, np.float32)
        elif out.shape not in (shape, shape[1:]) or (out.ndim == 1 and not one):
            raise ValueError(f"out has the shape {out.shape}; it must be {shape}")
        elif out.dtype != np.float32:
            raise TypeError(f"out is of {out.dtype}; it must be of float32")
        out.fill(-np.inf)
        np.put_along_axis(out[np.newaxis] if out.ndim == 1 else out, tokens.astype(np.int64), logits, axis=1)
        return out[0] if one and out.ndim == 2 else out

    def logits(self, hidden: Any, tokens: Any) -> NDArray[np.float32]:
        """Logits of named tokens, exactly: (m,) for a row, (n, m) for n rows."""
        given, one = self._rows_of(hidden)
        ids = tokens_of(tokens)
        out = np.empty((given.shape[0], ids.size), np.float32)
        with self._lock:
            for first, scan in self._scans_of(given):
                for row in range(scan.rows):
                    scan._logits(row, ids, out[first + row])
        return out[0] if one else out

    def log_sum(self, hidden: Any, scale: float = 1.0, exact: bool = False) -> Tuple[NDArray[np.float64], NDArray[np.float64]]:
        """
        log Σ exp(scale · logit) over all tokens, between two bounds; exact: both are it, at the price of a whole product. Each a number for a row, (n,)
        for n rows.
        """
        given, one = self._rows_of(hidden)
        out = np.empty((2, given.shape[0]), np.float64)
        with self._lock:
            for first, scan in self._scans_of(given):
                for row in range(scan.rows):
                    out[:, first + row] = scan._log_sum(row, scale, exact)
        return (out[0, 0], out[1, 0]) if one else (out[0], out[1])


class Scan:
    """Hidden rows that a head looked at: questions of them, by row, until the head is asked about others (then ValueError)."""

    def __init__(self, head: Head, rows: int, number: int) -> None:
        self.head, self.rows, self._number = head, rows, number

    def _handle(self, row: int) -> Any:
        handle = self.head._use()
        if self._number != self.head._scans:
            raise ValueError("the head has looked at other rows since: scan again")
        if not 0 <= row < self.rows:
            raise ValueError(f"there is no row {row}; the scan has {self.rows}")
        return handle

    def _best(self, row: int, out: NDArray[Any]) -> int:
        found = ffi.new("int *")
        call(lib.wane_head_best, self._handle(row), row, out.size, pointer(out, "wane_candidate *"), found)
        return int(found[0])

    def _logits(self, row: int, ids: NDArray[np.int32], out: NDArray[np.float32]) -> None:
        call(lib.wane_head_logits, self._handle(row), row, pointer(ids, "int32_t *"), ids.size, pointer(out, "float *"))

    def _log_sum(self, row: int, scale: float, exact: bool) -> Tuple[float, float]:
        low, high = ffi.new("double *"), ffi.new("double *")
        call(lib.wane_head_log_sum, self._handle(row), row, scale, exact, low, high)
        return low[0], high[0]

    def best(self, k: int = 64, row: int = 0, log_sum: bool = True) -> Candidates:
        """The k best, with bounds of the log-sum unless it is not wanted: what Gate, Governor and Table take."""
        if k < 1:
            raise ValueError(f"k is {k}; it must be 1 or more")
        out = np.empty(min(k, self.head.weights.vocab_size), CANDIDATE)
        with self.head._lock:
            found = self._best(row, out)
            low, high = self._log_sum(row, 1.0, False) if log_sum else (float("nan"), float("nan"))
        return Candidates(out[:found], low, high, self.head.weights.vocab_size)

    def logits(self, tokens: Any, row: int = 0) -> NDArray[np.float32]:
        """Logits of named tokens."""
        ids = tokens_of(tokens)
        out = np.empty(ids.size, np.float32)
        with self.head._lock:
            self._logits(row, ids, out)
        return out

    def log_sum(self, scale: float = 1.0, exact: bool = False, row: int = 0) -> Tuple[float, float]:
        """log Σ exp(scale · logit), between two bounds; exact: both are it."""
        with self.head._lock:
            return self._log_sum(row, scale, exact)

    def signals(self, row: int = 0) -> Signals:
        """Entropy, an estimate between bounds, and margin, exactly."""
        made = struct("wane_signals")
        with self.head._lock:
            call(lib.wane_head_signals, self._handle(row), row, made)
        return Signals(made.kurtosis, made.spread, made.entropy, made.margin, made.consistency)
