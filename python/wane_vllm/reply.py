"""
One request under way in vLLM: its sampler, its trace and its audit record. Owns what is known of the reply; refuses to know of batches.

vLLM samples behind the logits, so a draw is handed on as a row in which one token is left. Whether vLLM kept it is seen in the request's list of tokens when
the next row comes: a prompt that is read in pieces has rows whose tokens nobody keeps, and so has a request that was put off and begins again.
"""
from __future__ import annotations

import time
from typing import Any, Dict, List, Optional, Sequence

import numpy as np
from numpy.typing import NDArray

import wane

from .metrics import Counters
from .parts import Parts
from .requests import Wish

#: vLLM draws greedily below it.
GREEDY = 1e-5


def penalised(row: NDArray[np.float32], params: Any, prompt: Sequence[int], output: Sequence[int]) -> NDArray[np.float32]:
    """The row after vLLM's penalties, which come behind logits processors there: repetition over prompt and reply, the others over the reply."""
    if params.repetition_penalty == 1 and not params.presence_penalty and not params.frequency_penalty:
        return row
    row, said = row.copy(), np.asarray([token for token in output if token >= 0], np.int64)
    if params.repetition_penalty != 1:
        seen = np.unique(np.concatenate([np.asarray(prompt, np.int64), said]))
        row[seen] = np.where(row[seen] > 0, row[seen] / params.repetition_penalty, row[seen] * params.repetition_penalty)
    tokens, counts = np.unique(said, return_counts=True)
    row[tokens] -= (params.frequency_penalty * counts + params.presence_penalty).astype(np.float32)
    return row


class Reply:
    """A request's reply as it grows."""

    def __init__(self, parts: Parts, wish: Wish, params: Any, prompt: Sequence[int], output: List[int], counters: Counters, room: int) -> None:
        self.parts, self.wish, self.params, self.output, self.counters = parts, wish, params, output, counters
        self.prompt, self.room = list(prompt), room
        self.draws = wish.mode != "off"
        self.taken = 0
        self.fused = False
        self.forced: List[int] = []
        self.states: Dict[str, int] = {}
        self.wakes: Dict[str, int] = {}
        self.slmt_used = 0
        self._drawn: Optional[wane.Drawn] = None
        self._best: Optional[wane.Candidates] = None
        self._used = False
        self._begun = time.monotonic()
        self.sampler = self._make_sampler()
        self.context = wane.Context(self.prompt, wish.tenant)
        self.traced = parts.trace(wish, params, self.prompt, self.sampler.seed)
        self.audited = parts.admit()
        counters.add("wane_mode_requests", wish.mode)
        if wish.policy is not None and "ssp" in wish.policy:
            counters.add("wane_ssp_requests")

    def _make_sampler(self) -> wane.Sampler:
        p, quality, parts = self.params, self.wish.quality, self.parts
        text = parts.text_of(self.prompt) if self.draws and parts.gate is not None else None
        return wane.Sampler(self.prompt, parts.vocab_size, temperature=0 if p.temperature < GREEDY else p.temperature, top_k=max(p.top_k, 0),
                            top_p=p.top_p, min_p=p.min_p, seed=None if p.seed is None else p.seed & 2**64 - 1,
                            quality=quality if self.draws else None, gate=parts.gate if self.draws else None, profile=parts.profile,
                            rules=parts.rules if self.draws else None, text=text)

    # ------------------------------------------------------------------ tokens that vLLM kept

    def settle(self) -> None:
        """Take what vLLM added to the reply since the last row."""
        for token in self.output[self.taken:]:
            if token < 0:  # not there yet: vLLM is a step ahead of its tokens
                if self._drawn is None:
                    return
                token = self._drawn.token
            self._take(token)
        self._drawn = self._best = None

    def _take(self, token: int) -> None:
        drawn, self._drawn = self._drawn, None
        self.taken += 1
        if self.traced is not None:
            self._record(token, drawn)
        self._best = None
        self.context.add(token)
        if drawn is not None:
            self._count(drawn)
        if self.forced:
            self.forced = self.forced[1:]
            return
        if token in self.params.all_stop_token_ids:
            return
        ends = self.sampler.take(token) and self.draws
        if ends and not self.fused and not self.params.ignore_eos:
            self._fuse()

    def _count(self, drawn: wane.Drawn) -> None:
        verdict, add = drawn.verdict, self.counters.add
        add("wane_corrected_tokens")
        if drawn.changed:
            add("wane_changed_tokens")
        if drawn.again:
            add("wane_gate_revoted")
        if verdict.table:
            add("wane_gate_table_passed")
        if verdict.judged:
            add("wane_gate_judged")
        if verdict.lut:
            add("wane_gate_hits")
        if verdict.reject:
            add("wane_gate_rejects", verdict.reason)
        if verdict.woke:
            self.wakes[verdict.reason] = self.wakes.get(verdict.reason, 0) + 1
            add("sfcl_fallback", verdict.reason)
        if drawn.steer.steered:
            self.states[drawn.steer.state] = self.states.get(drawn.steer.state, 0) + 1
            add("wane_governor_tokens", drawn.steer.state)
        if self._used:
            self.slmt_used += 1
            add("slmt_hit")

    def _fuse(self) -> None:
        """What its reader gets, and the end: tokens that vLLM is made to draw."""
        self.fused = True
        self.counters.add("wane_fuse", self.wish.quality.fuse)
        self.forced = [*self.parts.tokens_of(self.sampler.fallback(self.taken > 0)), self.end_token()]

    def end_token(self) -> int:
        """One that ends this request."""
        own = self.params.eos_token_id
        return int(own) if own is not None else int(min(self.params.all_stop_token_ids, default=self.parts.end_token))

    # ------------------------------------------------------------------ the next row

    def draw(self, row: NDArray[np.float32]) -> Optional[int]:
        """The token that vLLM is to draw from this row; None: its own draw stands."""
        self.settle()
        if self.forced:
            return self.forced[0]
        if not self.draws and self.traced is None:
            return None
        row = penalised(row, self.params, self.prompt, self.output)
        try:
            self._used = self._look_up(row) if self.parts.table is not None else False
            if not self.draws:  # only to be recorded: vLLM draws
                self._best = wane.best(row)
                return None
            self._drawn = self.sampler.draw(row, in_table=self._used)
            if self.traced is not None:
                self._best = self.sampler.best()
        except wane.BadRow:
            self.counters.add("wane_row_failures")
            self._drawn = self._best = None
            return None
        return self._drawn.token

    def _look_up(self, row: NDArray[np.float32]) -> bool:
        table = self.parts.table.table if self.parts.table is not None else None
        answer = table.lookup(self.context, self.taken) if table is not None else None
        return answer is not None and answer.grade(row) != "miss"

    # ------------------------------------------------------------------ what is written

    def _record(self, token: int, drawn: Optional[wane.Drawn]) -> None:
        if self._best is None or self.traced is None:
            return
        try:
            self.traced.token(token, self._best, changed=bool(self.forced) or (drawn is not None and drawn.changed),
                              state=drawn.steer.state if drawn is not None and drawn.steer.steered else None)
        except wane.WaneError:
            self.counters.add("wane_record_dropped")

    def finish_of(self) -> Optional[str]:
        """Why it ended, as far as its tokens tell; None: by something that they do not, or not at all."""
        if self.fused:
            return "fuse"
        if self.output and self.output[-1] in self.params.all_stop_token_ids and not self.params.ignore_eos:
            return "end"
        if self.params.max_tokens is not None and len(self.output) >= self.params.max_tokens:
            return "length"
        if len(self.prompt) + len(self.output) >= self.room:
            return "context"
        return None

    def end(self, finish: str) -> None:
        """It is over. Once."""
        ms = 1000 * (time.monotonic() - self._begun)
        if self.traced is not None:
            try:
                self.traced.end(finish)
            except wane.WaneError:
                self.counters.add("wane_record_dropped")
        if self.audited:
            self.parts.put(self, finish, ms)
        self.sampler.close()
