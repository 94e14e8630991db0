"""The governor: how the next token is to be drawn, by how sure the model is; and the fuse. docs/governor.md has states and formulas."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Dict, Optional, Union

from ._core import Handle, Path, call, ffi, fields, lib, path_of, shipped, struct, text
from .errors import NotFound
from .quality import Quality
from .rows import Row, Signals, signals

STATES = ("normal", "locked", "explore", "protect")


class Profile:
    """
    Thresholds of one model and domain, as `wane tune` finds them: a file of JSON, or values of your own. Attributes as docs/governor.md names them, `signal`
    as a word: "none", "kurtosis", "entropy" or "margin". Checked when it is used.
    """

    model: str
    domain: str
    signal: str
    layer: int
    sign: int
    peak: float
    low: float
    spread: float
    jerk: float
    locked_temperature: float
    explore_temperature: float
    protect_temperature: float
    temp_fallback: float
    locked_tokens: int
    stability: float
    samples: int
    auc: float
    auc_low: float
    auc_high: float
    command: str

    def __init__(self, **values: Any) -> None:
        object.__setattr__(self, "_c", struct("wane_profile", lib.wane_profile_init))
        for name, value in values.items():
            setattr(self, name, value)

    @classmethod
    def load(cls, path: Path) -> "Profile":
        """Read a profile's file; FormatError names the place."""
        made = cls()
        call(lib.wane_profile_load, path_of(path), made._c)
        return made

    @classmethod
    def shipped(cls, model: str) -> "Profile":
        """The one that ships for the model with this digest; NotFound: there is none."""
        path = shipped(f"profiles/{model}.json")
        if path is None:
            raise NotFound(f'No profile ships for the model {model}. "wane tune" makes one from labelled text.')
        return cls.load(path)

    def save(self, path: Path) -> None:
        """Write it so that `load` gives it back bit by bit."""
        call(lib.wane_profile_save, self._c, path_of(path))

    def check(self) -> None:
        """InvalidArgument names the field that is wrong."""
        call(lib.wane_profile_check, self._c)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in Profile.__annotations__:
            raise AttributeError(f"a profile has no {name}")
        value = getattr(self._c, name)
        if name == "signal":
            return text(lib.wane_signal_name(value))
        return text(value) if Profile.__annotations__[name] == "str" else value

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in Profile.__annotations__:
            raise AttributeError(f"a profile has no {name}; it has {', '.join(Profile.__annotations__)}")
        if name == "signal":
            number = lib.wane_signal_from(ffi.new("char[]", str(value).encode()))
            if number < 0:
                raise ValueError(f'signal is "{value}"; it must be none, kurtosis, entropy or margin')
            value = number
        elif Profile.__annotations__[name] == "str":
            value = str(value).encode()
            if len(value) >= ffi.sizeof(getattr(self._c, name)):
                raise ValueError(f"{name} has {len(value)} bytes; at most {ffi.sizeof(getattr(self._c, name)) - 1} are allowed")
        setattr(self._c, name, value)

    def as_dict(self) -> Dict[str, Any]:
        """All of it by name."""
        return {name: getattr(self, name) for name in Profile.__annotations__}

    def __repr__(self) -> str:
        return f"Profile({', '.join(f'{name}={value!r}' for name, value in self.as_dict().items())})"


@dataclass(frozen=True)
class Steer:
    """
    How the next token is to be drawn. `steered` False: as the request says. `temperature` None: the request's own. `known`: the signal was there.
    `wants_entropy`: the fuse may come to need the next row's. `spread`: standard deviation of the last entropies, nats; NaN: not known.
    """

    steered: bool
    state: str
    temperature: Optional[float]
    top_p_off: bool
    known: bool
    wants_entropy: bool
    spread: float


def steer_of(made: Any) -> Steer:
    """A wane_steer of C's."""
    plain = fields(made, ("state", "temperature"))
    return Steer(state=STATES[made.state], temperature=None if math.isnan(made.temperature) else made.temperature, **plain)


class Governor(Handle):
    """
    One reply's: `see` the row, draw, `take` the token; again. Without a profile nothing steers, and the fuse alone is at work. A profile steers where the
    settings' `governor` is on (it is by default here), it has a signal, and the request's temperature is above 0: who asks for the best token gets it.
    Threads: one at a time; others wait.
    """

    def __init__(self, profile: Optional[Profile] = None, quality: Optional[Quality] = None, temperature: float = 0.8) -> None:
        made = ffi.new("wane_governor **")
        if quality is None:
            quality = Quality(governor=True)
        call(lib.wane_governor_new, ffi.NULL if profile is None else profile._c, quality._c, temperature, made)
        super().__init__(made[0], lib.wane_governor_free)
        self.profile = profile

    def see(self, row: Union[Signals, Row, None], vocab_size: Optional[int] = None) -> Steer:
        """
        The row that the next token is drawn from: V logits, Candidates with a log-sum, or Signals that are known from elsewhere; None: the token comes without
        one, from a memo or a table.
        """
        of: Any = ffi.NULL
        if row is not None:
            known = row if isinstance(row, Signals) else signals(row, vocab_size)
            of = known._c()
        made = struct("wane_steer")
        with self._lock:
            lib.wane_governor_see(self._use(), of, made)
        return steer_of(made)

    def take(self, token: int) -> bool:
        """The token that was drawn joins the reply. True: the fuse ends it here."""
        with self._lock:
            return bool(lib.wane_governor_take(self._use(), token))

    def fallback(self, begun: bool = True) -> str:
        """What the reader gets behind what the reply has said, where the fuse ended it; "" where the settings' fallback says nothing."""
        room = ffi.new("char[300]")
        with self._lock:
            size = lib.wane_governor_fallback(self._use(), begun, room)
        return bytes(ffi.buffer(room, size)).decode()

