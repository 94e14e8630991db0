"""
Where the running text was there before: one sequence's tokens, with an index over pairs and fours of them, and the copy that goes on
from there.

    Text     tokens, grown step by step; what it costs is a few integers a token
    Copy     where a copy stands: the place of its next token, how many tokens before it are equal, and of what kind it is

A copy that goes on is followed without a search. Where a long one breaks (a form letter with another name), the place where it would go
on is kept: there the copy is looked for until another long match is found. Nothing here knows of other sequences, of chances, or of vLLM.
"""
from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import List, Optional, Sequence

import numpy as np

#: Equal tokens before a place that are counted.
LENGTH_MOST = 32
#: Places with the same last four tokens that are compared, newest first.
_PLACES = 8
#: A copy this long leaves a way behind when it breaks, and the search for its place goes so far.
_WAY_LEAST, _WAY_REACH = 4, 8
#: Powers of the numbers that spread sums of two and of four multiples most evenly over an interval: the generalised golden ratios.
_TWO, _FOUR, _MASK = (0xc13fa9a9, 0x91e10da5), (0xdb4f0b91, 0xbbe05633, 0xa0f2ec75, 0x89e18285), 0xFFFFFFFF

#: How a copy was found: by equal tokens; on a broken copy's way, where the last token fits; the same, blindly, right behind the break.
MATCH, WAY, BLIND = range(3)


@dataclass
class Copy:
    """The next token is that at `place`; `length` tokens before it are equal."""

    place: int
    length: int
    kind: int = MATCH


class Text:
    """One sequence's tokens so far."""

    def __init__(self, tokens: Sequence[int] | np.ndarray = ()) -> None:
        self.tokens = array("i")
        self.copy: Optional[Copy] = None
        self._way: Optional[int] = None
        self._since = 0
        self._begin(np.ascontiguousarray(tokens, np.int32))

    def __len__(self) -> int:
        return len(self.tokens)

    def equals(self, row: np.ndarray) -> bool:
        """Whether a row of token ids is this text, all of it."""
        return len(row) == len(self.tokens) and (len(row) == 0 or np.array_equal(np.frombuffer(self.tokens, np.int32), row))

    def ends(self, row: np.ndarray, most: int = 64) -> bool:
        """Whether the last `most` tokens stand at the same places of a row: enough for a row whose name is known already."""
        end = len(self.tokens)
        start = max(0, end - most)
        return end <= len(row) and self.tokens[start:].tolist() == row[start:end].tolist()

    # ------------------------------------------------------------------ the index

    def _begin(self, tokens: np.ndarray) -> None:
        """
        Index all at once. `_two[h]` and `_four[h]` are the newest places behind an n-gram with this hash, `_before[place]` the one before
        it with the same four; 0: none. The n-gram at the very end has no place yet: nothing came after it.
        """
        self.tokens = array("i")
        self.tokens.frombytes(tokens.tobytes())
        bits = max(8, int(2 * len(tokens) + 64).bit_length())
        self._shift, self._room = 32 - bits, 1 << (bits - 1)
        self._two, self._four = array("i", bytes(4 << bits)), array("i", bytes(4 << bits))
        self._before = array("i", bytes(4 * len(tokens)))
        count, t = len(tokens), tokens.astype(np.uint64)
        if count > 2:
            np.frombuffer(self._two, np.int32)[_slots(t, _TWO, self._shift)] = np.arange(2, count)
        if count > 4:
            slots, places = _slots(t, _FOUR, self._shift), np.arange(4, count)
            np.frombuffer(self._four, np.int32)[slots] = places
            order = np.argsort(slots, kind="stable")
            same = slots[order[1:]] == slots[order[:-1]]
            np.frombuffer(self._before, np.int32)[places[order[1:]][same]] = places[order[:-1]][same]

    def _two_at(self, end: int) -> int:
        t = self.tokens
        return (t[end - 2] * _TWO[0] + t[end - 1] * _TWO[1] & _MASK) >> self._shift

    def _four_at(self, end: int) -> int:
        t = self.tokens
        return (t[end - 4] * _FOUR[0] + t[end - 3] * _FOUR[1] + t[end - 2] * _FOUR[2] + t[end - 1] * _FOUR[3] & _MASK) >> self._shift

    def _join(self, token: int) -> None:
        place = len(self.tokens)
        before = 0
        if place >= 2:
            self._two[self._two_at(place)] = place
        if place >= 4:
            slot = self._four_at(place)
            before, self._four[slot] = self._four[slot], place
        self._before.append(before)
        self.tokens.append(token)

    def add(self, tokens: Sequence[int]) -> None:
        """Tokens join; the copy goes on, or breaks."""
        for token in tokens:
            self._since += 1
            if self.copy is not None:
                self._follow(token)
            self._join(token)
        if len(self.tokens) > self._room:
            self._begin(np.array(self.tokens, np.int32))

    def _follow(self, token: int) -> None:
        copy = self.copy
        assert copy is not None
        if self.tokens[copy.place] == token:
            copy.place += 1
            copy.length = min(copy.length + 1, LENGTH_MOST)
            return
        if copy.length >= _WAY_LEAST and copy.kind == MATCH:
            self._way, self._since = copy.place + 1, 0
        self.copy = None

    # ------------------------------------------------------------------ the search

    def equal_before(self, place: int, most: int = LENGTH_MOST) -> int:
        """How many tokens before a place are those at the end, up to `most`."""
        t, end, length = self.tokens, len(self.tokens), 0
        while length < most and length < place and t[place - 1 - length] == t[end - 1 - length]:
            length += 1
        return length

    def find(self) -> Optional[Copy]:
        """Where the end was there before: the copy that goes on, else the longest match, else a broken copy's way; None: nowhere."""
        if self.copy is not None and self.copy.length >= _WAY_LEAST:
            if self.copy.kind != MATCH:
                self.copy.kind = MATCH
            return self.copy
        found = self._longest()
        if found is None or found.length < _WAY_LEAST:
            found = self.copy or self._on_the_way() or found
        self.copy = found
        return found

    def _longest(self) -> Optional[Copy]:
        end, best = len(self.tokens), None
        if end < 3:
            return None
        place = self._four[self._four_at(end)] if end >= 5 else 0
        for _ in range(_PLACES):
            if not place:
                break
            length = self.equal_before(place)
            if length >= 4 and (best is None or length > best.length):
                best = Copy(place, length)
                if length == LENGTH_MOST:
                    break
            place = self._before[place]
        if best is None:
            place = self._two[self._two_at(end)]
            length = self.equal_before(place) if place else 0
            best = Copy(place, length) if length >= 2 else None
        return best

    def _on_the_way(self) -> Optional[Copy]:
        """The nearest place behind the break whose token is the last one; else, right after the break, the place behind it."""
        if self._way is None:
            return None
        if self._since > _WAY_REACH:
            self._way = None
            return None
        last, end = self.tokens[-1], len(self.tokens)
        for place in range(self._way, min(self._way + _WAY_REACH, end - 1)):
            if self.tokens[place] == last:
                return Copy(place + 1, 1, WAY)
        return Copy(self._way, 0, BLIND) if self._since == 0 and self._way < end else None

    def ahead(self, copy: Copy, most: int) -> List[int]:
        """What a copy goes on with; a copy that runs into what it writes itself repeats."""
        t, end = self.tokens, len(self.tokens)
        period = end - copy.place
        if period >= most:
            return t[copy.place:copy.place + most].tolist()
        run = t[copy.place:end].tolist()
        return (run * (most // period + 1))[:most] if period else []


def _slots(tokens: np.ndarray, factors: Sequence[int], shift: int) -> np.ndarray:
    """Of each n-gram but the last, which has no place behind it yet."""
    count = len(tokens) - len(factors)
    hashes = np.zeros(count, np.uint64)
    for i, factor in enumerate(factors):
        hashes += tokens[i:i + count] * np.uint64(factor)
    return ((hashes & np.uint64(_MASK)) >> np.uint64(shift)).astype(np.int64)
