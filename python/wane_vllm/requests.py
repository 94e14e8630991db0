"""
What one request asks of wane, in vLLM's extra arguments (`vllm_xargs` of its APIs, `SamplingParams.extra_args`): wane_mode, wane_domain, wane_ssp,
wane_tenant, wane_kind, wane_request. Refuses, with a sentence that vLLM answers with status 400, what is not known or not allowed.
"""
from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional

import wane
from wane.quality import instruction_of
from wane.table import KINDS

from .settings import MODES, Settings

NAMES = ("wane_mode", "wane_domain", "wane_ssp", "wane_tenant", "wane_kind", "wane_request")
NAME_MOST = 64


class Refused(ValueError):
    """A request that cannot be answered as it asks."""


@dataclass(frozen=True)
class Wish:
    """What it asks for, carried out on the settings. `policy`: what is said of it in the audit."""

    quality: wane.Quality
    mode: str
    tenant: str = ""
    kind: str = "single"
    request: Optional[str] = None
    policy: Optional[Dict[str, Any]] = None


def _text(given: Mapping[str, Any], name: str) -> Optional[str]:
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= 1000:
        raise Refused(f"{name} must be a text of 1 to 1000 characters")
    return value


def _one_of(name: str, value: str, known: Any) -> str:
    if value in known:
        return value
    near = difflib.get_close_matches(value, list(known), 1)
    raise Refused(f'{name}: "{value}" is not allowed; it must be {", ".join(known) or "left out"}{f" (did you mean {near[0]}?)" if near else ""}')


def _with_ssp(settings: Settings, quality: wane.Quality, line: str, named: bool) -> Any:
    """The settings with an instruction carried out, and the instruction. A section of the settings stands for the domain's row of the table."""
    text = line if line.lstrip().upper().startswith("SSP") else f"SSP:{line}"
    try:
        said = instruction_of(text)
    except wane.InvalidArgument as why:
        raise Refused(f"wane_ssp: {why}") from None
    if said is None:
        raise Refused(f'wane_ssp: "{line[:80]}" is no instruction; it looks like domain=legal;confidence=high')
    own = said.get("domain") in settings.domains and not named
    rest = ";".join(f"{key}={value}" for key, value in said.items() if not (key == "domain" and own))
    if own:
        quality = settings.domains[said["domain"]]
    if rest:
        quality, _ = quality.with_instruction(f"SSP:{rest}")
    return quality, {**said, "settings": "server" if own else "table"}


def _mode(settings: Settings, given: Mapping[str, Any], base: wane.Quality, instructed: bool) -> str:
    asked = _text(given, "wane_mode")
    if asked is not None:
        _one_of("wane_mode", asked, MODES)
    if instructed and asked not in (None, "wane"):
        raise Refused(f"wane_ssp: an instruction runs in mode wane, and the request asks for {asked}")
    wanted = "wane" if instructed else asked
    if wanted is None or wanted == base.mode:
        return base.mode
    if wanted not in settings.request_modes:
        raise Refused(f"a request may not ask for mode {wanted} here; request_modes of the server's settings says which it may")
    return wanted


def _name(given: Mapping[str, Any], name: str) -> Optional[str]:
    value = _text(given, name)
    if value is not None and (len(value) > NAME_MOST or not value.isascii() or not value.isprintable() or " " in value):
        raise Refused(f"{name} must have 1 to {NAME_MOST} printable ASCII characters without blanks")
    return value


def read(extra: Optional[Mapping[str, Any]], settings: Settings) -> Wish:
    """What a request with these extra arguments asks for; Refused says what is wrong. What does not begin with wane_ is not wane's."""
    given = {name: value for name, value in (extra or {}).items() if isinstance(name, str) and name.startswith("wane_")}
    for name in given:
        if name not in NAMES:
            _one_of("an extra argument", name, NAMES)
    domain, line = _text(given, "wane_domain"), _text(given, "wane_ssp")
    base = settings.quality if domain is None else settings.domains[_one_of("wane_domain", domain, tuple(settings.domains))]
    quality, policy = base, {}
    if domain is not None:
        policy["domain"] = domain
    if line is not None:
        quality, policy["ssp"] = _with_ssp(settings, base, line, domain is not None)
    mode = _mode(settings, given, base, line is not None)
    if quality.mode != mode:
        quality = quality.copy()
        quality.mode = mode
    if "wane_tenant" in given and settings.tenants == "one":
        raise Refused("wane_tenant: all requests are of one tenant here; tenants of the server's settings says so")
    return Wish(quality, mode, _text(given, "wane_tenant") or "", _one_of("wane_kind", _text(given, "wane_kind") or "single", KINDS),
                _name(given, "wane_request"), policy or None)
