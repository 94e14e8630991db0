"""
What belongs to each row of vLLM's batch, as the batch changes. Owns the order of a change (removed, then added, then moved); refuses to know what it keeps.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, Generic, List, Optional, TypeVar

Thing = TypeVar("Thing")
Make = Callable[[Any, Optional[List[int]], List[int]], Optional[Thing]]


class Rows(Generic[Thing]):
    """`of`: what each row has; a row may have nothing."""

    def __init__(self) -> None:
        self.of: Dict[int, Thing] = {}

    def update(self, change: Any, make: Make[Thing], leave: Callable[[Thing], Any] = lambda thing: None) -> None:
        """A BatchUpdate of vLLM's: `make` is asked for each new row, with its params, prompt and output; `leave` is told what goes."""
        for row in change.removed:
            self._drop(row, leave)
        for row, params, prompt, output in change.added:
            self._drop(row, leave)
            made = make(params, prompt, output)
            if made is not None:
                self.of[row] = made
        for source, target, how in change.moved:
            moved, other = self.of.pop(source, None), self.of.pop(target, None)
            if moved is not None:
                self.of[target] = moved
            if other is not None and how.name == "SWAP":
                self.of[source] = other
            elif other is not None:
                leave(other)

    def _drop(self, row: int, leave: Callable[[Thing], Any]) -> None:
        gone = self.of.pop(row, None)
        if gone is not None:
            leave(gone)
