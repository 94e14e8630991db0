"""
What is on in vLLM: the settings that WANE_VLLM names, read once in each process. Owns their names and what is wrong with them. Refuses to guess: a name that
is not known ends the start.

WANE_VLLM is the path of a JSON file, or the JSON itself. Without it nothing is on.
"""
from __future__ import annotations

import difflib
import functools
import json
import os
import re
from dataclasses import dataclass, field, fields
from typing import Any, Dict, Optional, Tuple

import wane

VARIABLE = "WANE_VLLM"
MODES = ("off", "legacy", "wane")


class SettingsError(ValueError):
    """WANE_VLLM cannot be used; the sentence says why."""


@dataclass(frozen=True)
class Record:
    """Traces, as `wane serve --record` writes them: folder, plain JSON lines, how many files are kept, patterns of what must not be recorded."""

    folder: str
    plain: bool = False
    files: int = 0
    redact: Optional[str] = None


@dataclass(frozen=True)
class Audit:
    """The audit log, as `wane serve --audit` writes it."""

    path: str
    key_file: Optional[str] = None
    failure: str = "serve"


@dataclass(frozen=True)
class Settings:
    """All of them. `mode` is that of a request that names none, `request_modes` those that one may name."""

    mode: str = "off"
    request_modes: Tuple[str, ...] = ()
    quality: wane.Quality = field(default_factory=lambda: wane.Quality(mode="off"))
    domains: Dict[str, wane.Quality] = field(default_factory=dict)
    model: str = ""
    gate: Optional[str] = None
    profile: Optional[str] = None
    rules: Optional[str] = None
    table: Optional[str] = None
    table_key: Optional[str] = None
    tenants: str = "one"
    record: Optional[Record] = None
    audit: Optional[Audit] = None
    draft: Dict[str, Any] = field(default_factory=dict)
    head: Dict[str, Any] = field(default_factory=dict)

    @property
    def idle(self) -> bool:
        """Is there nothing to do for any request?"""
        return self.mode == "off" and not self.request_modes and self.record is None and self.audit is None


def _refuse(what: str, name: str, known: Any) -> SettingsError:
    near = difflib.get_close_matches(name, list(known), 1)
    return SettingsError(f'{VARIABLE}: {what} "{name}" is not known; there are {", ".join(sorted(known))}{f" (did you mean {near[0]}?)" if near else ""}')


def group(kind: Any, what: str, given: Any, others: Optional[Dict[str, Any]] = None, hidden: Tuple[str, ...] = ()) -> Any:
    """A `kind` of the settings `given` under the name `what`, and `others` where these say nothing; `hidden` ones are not to be given."""
    known = {one.name for one in fields(kind)} - set(hidden)
    if not isinstance(given, dict):
        raise SettingsError(f"{VARIABLE}: {what} must be an object with {', '.join(sorted(known))}")
    for name in given:
        if name not in known:
            raise _refuse(f"{what}:", name, known)
    try:
        return kind(**{**(others or {}), **given})
    except TypeError as why:
        raise SettingsError(f"{VARIABLE}: {what}: {str(why).replace('__init__()', 'it')}") from None


def _quality(what: str, mode: str, given: Any, base: Optional[wane.Quality] = None) -> wane.Quality:
    made = base.copy() if base is not None else wane.Quality(mode=mode)
    if not isinstance(given, dict):
        raise SettingsError(f"{VARIABLE}: {what} must be an object with settings by name")
    for name, value in given.items():
        if name not in wane.Quality.__annotations__ or name == "profile":
            raise _refuse(f"{what}:", name, wane.Quality.__annotations__)
        try:
            setattr(made, name, value)
        except (ValueError, TypeError, OverflowError) as why:
            raise SettingsError(f"{VARIABLE}: {what}: {name}: {why}") from None
    return made


def parse(given: Any) -> Settings:
    """Settings of an object as JSON has it; SettingsError says what is wrong."""
    known = {one.name for one in fields(Settings)}
    if not isinstance(given, dict):
        raise SettingsError(f"{VARIABLE} must be an object")
    for name in given:
        if name not in known:
            raise _refuse("", name, known)
    made = dict(given)
    for mode in (made.setdefault("mode", "off"), *made.get("request_modes", ())):
        if mode not in MODES:
            raise _refuse("the mode", str(mode), MODES)
    made["request_modes"] = tuple(made.get("request_modes", ()))
    made["quality"] = _quality("quality", made["mode"], made.get("quality", {}))
    made["domains"] = {name: _quality(f"domains: {name}", made["mode"], values, made["quality"]) for name, values in made.get("domains", {}).items()}
    for name, kind in (("record", Record), ("audit", Audit)):
        if made.get(name) is not None:
            made[name] = group(kind, name, made[name])
    if made.get("model") and not re.fullmatch(r"[0-9a-f]{32}", made["model"]):
        raise SettingsError(f'{VARIABLE}: model is "{made["model"]}"; it must be the model\'s digest, 32 of 0-9 a-f, as wane model info prints it')
    for name in ("draft", "head"):
        if not isinstance(made.get(name, {}), dict):
            raise SettingsError(f"{VARIABLE}: {name} must be an object of settings")
    if made.get("tenants", "one") not in ("one", "key", "request"):
        raise _refuse("tenants:", str(made["tenants"]), ("one", "key", "request"))
    return Settings(**made)


def read(text: Optional[str]) -> Settings:
    """Settings of what WANE_VLLM holds: a path, or JSON."""
    if text is None or not text.strip():
        return Settings()
    where = VARIABLE
    try:
        if not text.lstrip().startswith("{"):
            where = text
            with open(text, encoding="utf-8") as file:
                text = file.read()
        return parse(json.loads(text))
    except OSError as why:
        raise SettingsError(f"{VARIABLE} names {where}, which cannot be read: {why.strerror}") from None
    except json.JSONDecodeError as why:
        raise SettingsError(f"{where} is no JSON: {why}") from None


@functools.lru_cache(maxsize=1)
def current() -> Settings:
    """Those of this process."""
    return read(os.environ.get(VARIABLE))
