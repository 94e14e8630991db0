"""The structured system instruction (SSP): checked as the server checks it, and put where the server reads it.

    @with_ssp(domain="legal", confidence="high")
    def ask(question, **request):
        return client.messages.create(model="default", max_tokens=200, messages=[…], **request)

    create = with_ssp(tolerance="strict")(openai_client.chat.completions.create)

No dependency: the clients are yours, and their types are not looked at.
"""
from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: What may be set, and to what; docs/ssp.md says what each does.
KEYS = {
    "domain": ("legal", "medical", "finance", "tech", "creative"),
    "confidence": ("high", "medium", "low"),
    "tolerance": ("strict", "balanced", "lenient"),
    "fallback": ("conservative", "transparent", "none"),
}


class SSPError(ValueError):
    """What is wrong with an instruction, in the server's words."""


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " or " + names[-1]


def _show(value: object) -> str:
    raw = str(value).encode()
    if len(raw) <= 60:
        return str(value)
    return raw[:60].decode(errors="ignore") + "…"


def _distance(a: bytes, b: bytes) -> int:
    """Letters to put in, leave out, exchange or swap with their neighbour."""
    rows = [list(range(len(b) + 1))]
    for i, x in enumerate(a, 1):
        rows.append([i])
        for j, y in enumerate(b, 1):
            least = min(rows[i - 1][j - 1] + (x != y), rows[i - 1][j] + 1, rows[i][j - 1] + 1)
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                least = min(least, rows[i - 2][j - 2] + 1)
            rows[i].append(least)
    return rows[-1][-1]


def _suggest(word: str, names: Iterable[str]) -> str:
    """` (did you mean legal?)`, or nothing. As the server does it: letters are bytes, and upper case counts as lower."""
    letters = word.encode()
    if not 0 < len(letters) <= 24:
        return ""
    letters = bytes(c + 32 if 65 <= c <= 90 else c for c in letters)
    best, nearest = "", 3
    for name in names:
        known = name.encode()
        begins = 3 <= len(letters) < len(known) and known.startswith(letters)
        far = 1 if begins else _distance(letters, known)
        if far <= (2 if len(known) > 4 else 1) and far < nearest:
            best, nearest = name, far
    return f" (did you mean {best}?)" if best else ""


def _hint(key: str, value: str) -> str:
    if value and value[0] in "\"'`":
        return " (write it without quotes)"
    hint = _suggest(value, KEYS[key])
    if hint or not value:
        return hint
    for other, values in KEYS.items():
        if other != key and value.lower() in values:
            return f" (that is a value of {other})"
    return ""


def ssp(**values: Optional[str]) -> str:
    """The instruction as text: `ssp(domain="legal")` is "SSP:domain=legal". None counts as not given."""
    pairs = []
    for key in (*KEYS, *(key for key in values if key not in KEYS)):
        value = values.get(key)
        if value is None:
            continue
        if key not in KEYS:
            raise SSPError(f'SSP: "{_show(key)}" (with the value "{_show(value)}") is not a key; it must be '
                           f"{_list(tuple(KEYS))}{_suggest(key, KEYS)}")
        text = value.strip(" \t\r\u3000\u00a0") if isinstance(value, str) else str(value)
        if text.lower() not in KEYS[key]:
            raise SSPError(f'SSP: {key}: "{_show(text)}" is not allowed; it must be {_list(KEYS[key])}'
                           f"{_hint(key, text)}")
        pairs.append(f"{key}={text.lower()}")
    if not pairs:
        raise SSPError(f"SSP: it is empty; behind SSP: must stand key=value;key=value, with the keys {_list(tuple(KEYS))}")
    return "SSP:" + ";".join(pairs)


def _has_one(text: object) -> bool:
    return isinstance(text, str) and text.lstrip(" \t\r\n\u3000\u00a0\ufeff")[:4].lower() in ("ssp:", "ssp：")


def _refuse_second(text: object) -> None:
    if _has_one(text):
        raise SSPError("SSP: this is the second one; a request has one")


def _join(instruction: str, content: Any) -> Any:
    """The instruction before a text, or before a list of blocks or parts as one of its own."""
    if isinstance(content, str):
        _refuse_second(content)
        return f"{instruction}\n{content}" if content else instruction
    if isinstance(content, (list, tuple)):
        for block in content:
            _refuse_second(block.get("text") if isinstance(block, dict) else getattr(block, "text", None))
        return [{"type": "text", "text": instruction}, *content]
    return instruction  # None, and what the clients have for "not given"


def _into_messages(instruction: str, messages: Any) -> List[Any]:
    if not isinstance(messages, (list, tuple)):
        messages = list(messages)
    for i, message in enumerate(messages):
        if isinstance(message, dict) and message.get("role") in ("system", "developer"):
            joined = {**message, "content": _join(instruction, message.get("content"))}
            return [*messages[:i], joined, *messages[i + 1:]]
    return [{"role": "system", "content": instruction}, *messages]


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def _has_system(function: Callable[..., Any], request: Mapping[str, Any]) -> bool:
    """Does the request have a system field, as Anthropic's has? Else its system text is a message, as OpenAI's is."""
    if "system" in request or "system" in _parameters(function):
        return True
    owner = type(getattr(function, "__self__", None)).__module__
    return owner.split(".")[0] == "anthropic"


def with_ssp(*, api: Optional[str] = None, **values: Optional[str]) -> Callable[[_Function], _Function]:
    """A decorator for a function that makes a request, plain or async: its `system` or `messages` gets the instruction.

    `api` is "anthropic" (the field system) or "openai" (a system message), for functions that only hand on what they get
    (`**request`); otherwise it is seen by itself: a function that has, or is called with, `system` gets it there, any
    other one in `messages`. What was passed in is not changed. SSPError says what is wrong with the values, at once.
    """
    instruction = ssp(**values)
    if api not in (None, "anthropic", "openai"):
        raise ValueError(f'with_ssp: api: "{api}" is not allowed; it must be anthropic or openai')

    def decorate(function: _Function) -> _Function:
        def prepared(request: Dict[str, Any]) -> Dict[str, Any]:
            if api == "anthropic" or (api is None and _has_system(function, request)):
                return {**request, "system": _join(instruction, request.get("system"))}
            if "messages" not in request:
                raise TypeError(f"with_ssp: {getattr(function, '__name__', 'the function')} was called without system= or "
                                'messages=; pass one of them by name, or say api="anthropic"')
            return {**request, "messages": _into_messages(instruction, request["messages"])}

        if inspect.iscoroutinefunction(function):
            @functools.wraps(function)
            async def later(*args: Any, **request: Any) -> Any:
                return await function(*args, **prepared(request))
            return later  # type: ignore[return-value]

        @functools.wraps(function)
        def now(*args: Any, **request: Any) -> Any:
            return function(*args, **prepared(request))
        return now  # type: ignore[return-value]

    return decorate
