"""
What vLLM's server does not hand to logits processors, taken from the request before it is read: the instruction (SSP) in a system text, the tenant by key, and
the request's id. An ASGI middleware: vllm serve … --middleware wane_vllm.system_text.SystemText

Owns the body of requests that generate: it adds `vllm_xargs`, takes the instruction out of the text, and answers 400 where it is wrong. Refuses to touch anything
else: what it cannot read as JSON goes on as it came, for vLLM to say what is wrong.
"""
from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any, Awaitable, Callable, Dict, List, Optional, Tuple

import wane
from wane.quality import instruction_of

from .requests import Refused, read
from .settings import current

PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/messages")
SYSTEM = ("system", "developer")
BODY_MOST = 64 << 20

Scope, Message = Dict[str, Any], Dict[str, Any]
Receive, Send = Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]


def _take(text: str, where: str, found: List[str]) -> str:
    """The text without its instruction, which goes to `found`."""
    try:
        said = instruction_of(text)
        if said is None:
            return text
        rest = wane.Quality().with_instruction(text)[1]
    except wane.InvalidArgument as why:
        raise Refused(f"{where}: {why}") from None
    if found:
        raise Refused(f"{where}: SSP: there is one already; a request has one")
    found.append(";".join(f"{key}={value}" for key, value in said.items()))
    return rest


def _blocks(content: Any, where: str, found: List[str]) -> Any:
    """A system text as a string or in blocks. None: nothing is left of it."""
    if isinstance(content, str):
        rest = _take(content, where, found)
        return rest if rest or not content else None
    if not isinstance(content, list):
        return content
    kept = []
    for at, block in enumerate(content):
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            rest = _take(block["text"], f"{where}[{at}].text", found)
            if not rest and block["text"]:
                continue
            block = {**block, "text": rest}
        kept.append(block)
    return kept or None


def take_instruction(body: Dict[str, Any]) -> Tuple[Dict[str, Any], Optional[str]]:
    """A request without its instruction, and that: "domain=legal;…". Refused says where it is wrong."""
    found: List[str] = []
    made = dict(body)
    if "system" in made:
        made["system"] = _blocks(made["system"], "system", found)
        if made["system"] is None:
            del made["system"]
    if isinstance(made.get("messages"), list):
        kept = []
        for at, message in enumerate(made["messages"]):
            if isinstance(message, dict) and message.get("role") in SYSTEM:
                content = _blocks(message.get("content"), f"messages[{at}].content", found)
                if content is None and message.get("content"):
                    continue
                message = {**message, "content": content}
            kept.append(message)
        made["messages"] = kept
    return (made, found[0]) if found else (body, None)


class SystemText:
    """The middleware."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection."""
        if scope["type"] != "http" or scope["method"] != "POST" or not scope["path"].endswith(PATHS):
            return await self.app(scope, receive, send)
        raw, ended = await _body(receive)
        if ended:
            try:
                scope, raw = self._prepare(scope, raw)
            except Refused as why:
                return await _refuse(send, scope["path"], str(why))
        await self.app(scope, _again(raw, ended, receive), send)

    @staticmethod
    def _prepare(scope: Scope, raw: bytes) -> Tuple[Scope, bytes]:
        try:
            body = json.loads(raw)
        except ValueError:
            return scope, raw
        if not isinstance(body, dict) or not isinstance(body.get("vllm_xargs") or {}, dict):
            return scope, raw
        headers = dict(scope["headers"])
        made, line = take_instruction(body)
        extra = dict(made.get("vllm_xargs") or {})
        if line is not None:
            if "wane_ssp" in extra:
                raise Refused("wane_ssp: there is an instruction in the system text already; a request has one")
            extra["wane_ssp"] = line
        if current().tenants == "key":
            if "wane_tenant" in extra:
                raise Refused("wane_tenant: a request's tenant is its key's here")
            tenant = _tenant(headers)
            if tenant:  # who has no key is of the tenant without a name
                extra["wane_tenant"] = tenant
        name = headers.get(b"x-request-id", b"").decode("latin-1") or uuid.uuid4().hex
        if "wane_request" not in extra and 0 < len(name) <= 64 and name.isascii() and name.isprintable() and " " not in name:
            extra["wane_request"] = name
        read(extra, current())  # refused here, with its place, rather than behind the prompt's reading
        raw = json.dumps({**made, "vllm_xargs": extra}, ensure_ascii=False).encode()
        kept = [(key, value) for key, value in scope["headers"] if key not in (b"content-length", b"x-request-id")]
        kept += [(b"content-length", str(len(raw)).encode()), (b"x-request-id", name.encode("latin-1"))]
        return {**scope, "headers": kept}, raw


def _tenant(headers: Dict[bytes, bytes]) -> str:
    """Of the key, never the key: the same for the same key."""
    key = headers.get(b"authorization") or headers.get(b"x-api-key") or b""
    return hashlib.sha256(key).hexdigest()[:16] if key else ""


async def _body(receive: Receive) -> Tuple[bytes, bool]:
    """The whole body; False: it is larger than what is read here, or the client left, and the rest is still to come."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b"".join(parts), False
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if not message.get("more_body"):
            return b"".join(parts), True
        if size > BODY_MOST:
            return b"".join(parts), False


def _again(raw: bytes, ended: bool, receive: Receive) -> Receive:
    """What was read is given out once more, then whatever comes."""
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": raw, "more_body": not ended}
        return await receive()
    return receive_again


async def _refuse(send: Send, path: str, why: str) -> None:
    kind = "invalid_request_error"
    error: Dict[str, Any] = {"error": {"message": why, "type": kind, "param": None, "code": 400}}
    if path.endswith("/messages"):
        error = {"type": "error", "error": {"type": kind, "message": why}}
    raw = json.dumps(error, ensure_ascii=False).encode()
    await send({"type": "http.response.start", "status": 400,
                "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(raw)).encode())]})
    await send({"type": "http.response.body", "body": raw})
