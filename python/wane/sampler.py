"""One reply's sampler over rows of logits: all that wane does to a token behind the head, as its own replies have it. docs/python.md has an example."""
from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional, Sequence

import numpy as np

from ._core import CANDIDATE, Handle, Path, call, ffi, lib, path_of, pointer, shipped, struct, texts_of, tokens_of
from .errors import NotFound
from .gate import Gate, Verdict, verdict_of
from .governor import Profile, Steer, steer_of
from .quality import Quality
from .rows import Candidates, Signals, row_of, signals_of


class Rules(Handle):
    """
    Rules that hold words down, compiled for a tokenizer (docs/correction.md): a file, or one that ships by its name, such as "prohibitions". `tokenize` gives a
    word's tokens, `token_bytes` a token's text as bytes or None. FormatError names the rule. Threads: one at a time, with every sampler that uses them.
    """

    def __init__(self, path: Path, *, vocab_size: int, tokenize: Callable[[str], Sequence[int]],
                 token_bytes: Callable[[int], Optional[bytes]]) -> None:
        name = os.fspath(path)
        if "/" not in name and "." not in name:
            found = shipped(f"rules/{name}.json")
            if found is None:
                raise NotFound(f"No set of rules named {name} ships with wane; give the path of a file, with a slash or a dot in it.")
            name = found

        def words(user: Any, raw: Any, size: int, out: Any, capacity: int) -> int:
            ids = list(tokenize(bytes(ffi.buffer(raw, size)).decode("utf-8", "replace")))
            for at, token in enumerate(ids[:capacity]):
                out[at] = token
            return len(ids)

        self._calls = (ffi.callback("int(void *, char const *, size_t, int32_t *, int)", words, error=-1),
                       ffi.callback("int(void *, int32_t, char *, size_t)", texts_of(token_bytes), error=-1))
        made = ffi.new("wane_rules **")
        call(lib.wane_rules_open, path_of(name), vocab_size, *self._calls, ffi.NULL, made)
        super().__init__(made[0], lib.wane_rules_free)
        self.path = name

    def __len__(self) -> int:
        return int(lib.wane_rules_get_count(self._use(), ffi.NULL))


@dataclass(frozen=True)
class Drawn:
    """
    A token, and what was done for it. `changed`: a correction had a hand in it, `held`: a rule. `again`: it was in doubt, and drawn by votes over votes.
    `signals`: of the row, NaN what nobody asked for.
    """

    token: int
    changed: bool
    held: bool
    again: bool
    steer: Steer
    verdict: Verdict
    signals: Signals


class Sampler(Handle):
    """
    Draws a reply: `draw` from a row of V logits, `take` the token, again. The same prompt, settings, seed and logits give the tokens of `wane serve`.

    Settings of the sampling as a request has them (docs/api.md): temperature, top_k, top_p, min_p (both taken at temperature 1, as llama.cpp does),
    penalties over the last `penalty_window` tokens of prompt and reply, `bias` by token. `quality` None: nothing is corrected, judged or steered.
    `text`: the prompt's, in which the gate counts documents. Threads: one at a time; others wait.
    """

    def __init__(self, prompt: Any, vocab_size: int, *, temperature: float = 0.8, top_k: int = 40, top_p: float = 0.95, min_p: float = 0.05,
                 repeat_penalty: float = 1.0, presence_penalty: float = 0.0, frequency_penalty: float = 0.0, penalty_window: int = 64,
                 seed: Optional[int] = None, bias: Optional[Mapping[int, float]] = None, quality: Optional[Quality] = None,
                 gate: Optional[Gate] = None, profile: Optional[Profile] = None, rules: Optional[Rules] = None, text: Optional[str] = None) -> None:
        o, ids, raw = struct("wane_sampler_options", lib.wane_sampler_options_init), tokens_of(prompt, "prompt"), (text or "").encode()
        biases = ffi.new("wane_bias[]", [{"token": token, "bias": value} for token, value in (bias or {}).items()])
        s = o.sampling
        s.temperature, s.top_k, s.top_p, s.min_p = temperature, top_k, top_p, min_p
        s.repeat_penalty, s.presence_penalty, s.frequency_penalty, s.penalty_window = repeat_penalty, presence_penalty, frequency_penalty, penalty_window
        s.bias, s.bias_count, s.seeded, s.seed = biases, len(bias or {}), seed is not None, seed or 0
        o.vocab_size, o.prompt, o.prompt_count = vocab_size, pointer(ids, "int32_t *"), ids.size
        o.text, o.text_size = ffi.from_buffer(raw), len(raw)
        o.quality, o.profile = (ffi.NULL if part is None else part._c for part in (quality, profile))
        o.gate, o.rules = (ffi.NULL if part is None else part._use() for part in (gate, rules))
        made = ffi.new("wane_sampler **")
        call(lib.wane_sampler_new, o, made)
        super().__init__(made[0], lib.wane_sampler_free)
        self.vocab_size = vocab_size
        self._parts = (gate, rules)  # they outlive it
        self._row: Any = None

    def draw(self, row: Any, *, in_table: bool = False, signals: Optional[Signals] = None) -> Drawn:
        """
        The next token, from V logits of which nothing is changed. It has not happened until it is taken: drawing from another row takes this draw back.
        `in_table`: a table knows the context, and the gate passes it. `signals`: the attention's, from elsewhere. BadRow: it holds NaN, or nothing to draw.
        """
        logits = row_of(row)
        if logits.size != self.vocab_size:
            raise ValueError(f"a row has {logits.size} logits; the vocabulary has {self.vocab_size} tokens")
        known, made = ffi.NULL, struct("wane_drawn")
        if signals is not None:
            known = signals._c()
        with self._lock:
            self._row = logits  # `best` looks at it again
            call(lib.wane_sampler_draw, self._use(), pointer(logits, "float *"), in_table, known, made)
        return Drawn(made.token, made.changed, made.held, made.again, steer_of(made.steer), verdict_of(made.gate),
                     signals_of(made.signals))

    def best(self, count: int = 64) -> Candidates:
        """After bias and penalties, the best `count`, 64 at most, of the row that was drawn from last, with its log-sum; before the token is taken."""
        array, found, log_sum = np.empty(max(count, 1), CANDIDATE), ffi.new("int *"), ffi.new("double *")
        with self._lock:
            call(lib.wane_sampler_best, self._use(), count, pointer(array, "wane_candidate *"), found, log_sum)
        return Candidates(array[:found[0]], log_sum[0], log_sum[0], self.vocab_size)

    def take(self, token: int) -> bool:
        """A token joins the reply: the drawn one, or another that somebody else chose. True: the fuse ends the reply behind it."""
        with self._lock:
            self._row = None
            return bool(lib.wane_sampler_take(self._use(), token))

    def __len__(self) -> int:
        """Tokens that were taken."""
        return int(lib.wane_sampler_get_count(self._use()))

    @property
    def seed(self) -> int:
        """The one in use: given, or made up."""
        return int(lib.wane_sampler_get_seed(self._use()))

    @property
    def rejects(self) -> int:
        """Tokens that the gate rejected so far."""
        return self._doubt()[0]

    @property
    def woke_at(self) -> Optional[int]:
        """The token at which the doubt budget was spent; None: it was not."""
        at = self._doubt()[2]
        return None if at < 0 else at

    def _doubt(self) -> Sequence[int]:
        out = [ffi.new("int *") for _ in range(3)]
        with self._lock:
            lib.wane_sampler_get_doubt(self._use(), *out)
        return [number[0] for number in out]

    def fallback(self, begun: bool = True) -> str:
        """What the reader gets behind what the reply has said, where the fuse ended it; "" where the settings' fallback says nothing."""
        room = ffi.new("char[300]")
        with self._lock:
            size = lib.wane_sampler_fallback(self._use(), begun, room)
        return bytes(ffi.buffer(room, size)).decode()
