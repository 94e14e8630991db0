"""What may change an answer: the settings that requests, domains and SSPs set. docs/correction.md, docs/gate.md and docs/governor.md explain them."""
from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from ._core import call, ffi, fields, lib, string_of, struct, text

_NAMED: Dict[str, Tuple[str, str]] = {
    "mode": ("wane_mode_from", "wane_mode_name"),
    "fuse": ("wane_fuse_from", "wane_fuse_name"),
    "fallback": ("wane_fallback_from", "wane_fallback_name"),
}


class Quality:
    """
    All settings, each an attribute that is checked when it is set; `Quality()` has the defaults, in mode "wane". Names stand where C has numbers:
    mode "off", "legacy" or "wane"; fuse "off", "loop" or "plain"; fallback "conservative", "transparent" or "none".
    """

    mode: str
    clamp: int
    dialogue_slope: float
    dialogue_scale: int
    dialogue_floor: float
    token_vote: bool
    rules: bool
    hold: float
    answers: int
    final_value: Optional[str]
    odds_base: float
    odds_entropy: float
    odds_documents: float
    documents: int
    doubt_budget: int
    doubt_allowance: float
    doubt_votes: int
    revival_after: int
    revival_top: float
    forced_above: float
    forced_every: int
    breaker_wakes: int
    breaker_seconds: int
    breaker_temperature: float
    governor: bool
    profile: int
    stability: float
    fuse: str
    fuse_window: int
    fuse_limit: float
    entropies: bool
    fallback: str
    consistency: float

    def __init__(self, **settings: Any) -> None:
        object.__setattr__(self, "_c", struct("wane_quality", lib.wane_quality_init))
        object.__setattr__(self, "_final", ffi.NULL)
        for name, value in {"mode": "wane", **settings}.items():
            setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "size" or name not in Quality.__annotations__:
            raise AttributeError(f"there is no setting {name}")
        value = getattr(self._c, name)
        if name in _NAMED:
            return text(getattr(lib, _NAMED[name][1])(value))
        return (text(value) or None) if name == "final_value" else value

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in Quality.__annotations__:
            raise AttributeError(f"there is no setting {name}; they are {', '.join(Quality.__annotations__)}")
        tried = struct("wane_quality")
        tried[0] = self._c[0]
        kept = self._final
        if name in _NAMED and isinstance(value, str):
            number = getattr(lib, _NAMED[name][0])(string_of(value, name))
            if number < 0:
                raise ValueError(f'{name} is "{value}", which is none of its names')
            value = number
        if name == "final_value":
            value = kept = string_of(value, name)
        setattr(tried, name, value)
        call(lib.wane_quality_check, tried)
        self._c[0] = tried[0]
        object.__setattr__(self, "_final", kept)

    def as_dict(self) -> Dict[str, Any]:
        """All settings by name."""
        return {name: getattr(self, name) for name in Quality.__annotations__}

    def copy(self) -> "Quality":
        """One of its own."""
        return Quality(**self.as_dict())

    def __repr__(self) -> str:
        plain = Quality()
        said = [f"{name}={value!r}" for name, value in self.as_dict().items() if getattr(plain, name) != value]
        return f"Quality({', '.join(said)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quality) and self.as_dict() == other.as_dict()

    __hash__ = None  # type: ignore[assignment]

    def with_instruction(self, system: str) -> Tuple["Quality", str]:
        """
        The SSP at the beginning of a system text, carried out as the server does it (docs/ssp.md): the settings that follow, and the text without it.
        Without one: a copy, and the text as it is. InvalidArgument says what is wrong with it.
        """
        raw = system.encode()
        instruction, rest = struct("wane_ssp"), ffi.new("size_t *")
        call(lib.wane_ssp_read, ffi.from_buffer(raw), len(raw), instruction, rest)
        made = self.copy()
        if instruction.given:
            lib.wane_ssp_apply(instruction, made._c)
        return made, raw[rest[0]:].decode()

    def dialogue_temperature(self, temperature: float, context: int) -> float:
        """The temperature of a dialogue of `context` tokens, as dialogue_slope, dialogue_scale and dialogue_floor say."""
        if context < 0:
            raise ValueError(f"context is {context}; it must be 0 or more")
        return float(lib.wane_dialogue_temperature(self._c, temperature, min(context, 2**31 - 1)))


def instruction_of(system: str) -> Optional[Dict[str, str]]:
    """The SSP of a system text by key; None: there is none."""
    raw = system.encode()
    instruction, rest = struct("wane_ssp"), ffi.new("size_t *")
    call(lib.wane_ssp_read, ffi.from_buffer(raw), len(raw), instruction, rest)
    if not instruction.given:
        return None
    values = fields(instruction)["value"]
    return {text(lib.wane_ssp_key_name(key)): text(lib.wane_ssp_value_name(key, value)) for key, value in enumerate(values) if value}
