"""
What all requests of an engine share: gate, profile, rules, table, tokenizer, recorder and audit log, opened once as the settings say. Owns them; refuses to
start where one of them is wrong or of another model.
"""
from __future__ import annotations

import itertools
import pathlib
import secrets
from typing import Any, List, Optional, Sequence

import wane

from .metrics import Counters
from .requests import Wish
from .settings import Settings
from .tokens import origin_of, token_bytes


def model_digest(settings: Settings, folder: str) -> str:
    """The model's digest: the settings' one, or, so that traces of different weights never meet, that of its files' digests."""
    if settings.model:
        return settings.model
    files = sorted(pathlib.Path(folder).glob("*.safetensors")) if pathlib.Path(folder).is_dir() else []
    if not files:
        raise wane.InvalidArgument('vLLM\'s model is no folder with safetensors: say "model" in WANE_VLLM, a digest of 32 hex digits that tells models apart')
    if len(files) == 1:
        return wane.file_digest(files[0])
    return wane.tokenizer_digest([wane.file_digest(file).encode() for file in files])


class Parts:
    """All of them. `tokenizer`: the model's, of Hugging Face."""

    def __init__(self, settings: Settings, tokenizer: Any, model: str, vocab_size: int, counters: Counters) -> None:
        self.settings, self.vocab_size, self.counters = settings, vocab_size, counters
        self._tokenizer = tokenizer
        self._bytes = token_bytes(tokenizer)
        self.end_token = int(tokenizer.eos_token_id if tokenizer.eos_token_id is not None else 0)
        self.gate = self._gate()
        self.profile = wane.Profile.load(settings.profile) if settings.profile else None
        self.rules = self._rules()
        self.origin: Optional[wane.Origin] = None
        if settings.record is not None or settings.table is not None:
            self.origin = origin_of(tokenizer, model_digest(settings, model), vocab_size)
        self.table = wane.TableWatch(settings.table, of=self.origin, key=settings.table_key) if settings.table else None
        if self.table is not None and self.table.table is None:
            raise wane.InvalidArgument(f"the table cannot be used: {self.table.reason}")
        self._tracer = self._open_tracer()
        self._auditor = self._open_auditor()
        self._nonce, self._number = secrets.token_hex(6), itertools.count(1)

    def _gate(self) -> Optional[wane.Gate]:
        name = self.settings.gate
        if not name:
            return None
        return wane.Gate(name) if "/" in name or "." in name else wane.Gate.shipped(name)

    def _rules(self) -> Optional[wane.Rules]:
        if not self.settings.rules:
            return None
        return wane.Rules(self.settings.rules, vocab_size=self.vocab_size, tokenize=self.tokens_of, token_bytes=self.bytes_of)

    def _open_tracer(self) -> Optional[wane.Tracer]:
        r = self.settings.record
        if r is None or self.origin is None:
            return None
        pathlib.Path(r.folder).mkdir(parents=True, exist_ok=True)
        return wane.Tracer(r.folder, self.origin, plain=r.plain, files=r.files, redact=r.redact, token_bytes=self.bytes_of if r.redact else None)

    def _open_auditor(self) -> Optional[wane.Auditor]:
        a = self.settings.audit
        if a is None:
            return None
        return wane.Auditor(a.path, key_file=a.key_file, failure=a.failure, start={"engine": "vllm", "mode": self.settings.mode})

    # ------------------------------------------------------------------ texts

    def bytes_of(self, token: int) -> Optional[bytes]:
        """A token's text."""
        return self._bytes[token] if 0 <= token < len(self._bytes) else None

    def tokens_of(self, text: str) -> List[int]:
        """A text's tokens, none added."""
        return list(self._tokenizer.encode(text, add_special_tokens=False)) if text else []

    def text_of(self, tokens: Sequence[int]) -> str:
        """Tokens as text."""
        return b"".join(self.bytes_of(token) or b"" for token in tokens).decode("utf-8", "replace")

    # ------------------------------------------------------------------ what is written

    def trace(self, wish: Wish, params: Any, prompt: Sequence[int], seed: int) -> Optional[wane.trace.Traced]:
        """Begin a request's trace; None: nothing is recorded, or it was dropped."""
        if self._tracer is None:
            return None
        try:
            return self._tracer.request(prompt, id=wish.request, kind=wish.kind, tenant=wish.tenant, temperature=params.temperature,
                                        top_k=max(params.top_k, 0), top_p=params.top_p, min_p=params.min_p, repeat_penalty=params.repetition_penalty,
                                        presence_penalty=params.presence_penalty, frequency_penalty=params.frequency_penalty, penalty_window=-1,
                                        seed=seed, max_tokens=params.max_tokens or 0, ignore_end=params.ignore_eos,
                                        stops=[stop for stop in (params.stop or []) if stop][:16])
        except wane.WaneError:
            self.counters.add("wane_record_dropped")
            return None

    def admit(self) -> bool:
        """Promise a record of the audit log. False: there is none, or it takes none; the request has begun all the same, and is counted."""
        if self._auditor is None:
            return False
        try:
            self._auditor.admit()
            return True
        except wane.WaneError:
            self.counters.add("wane_audit_dropped")
            return False

    def put(self, reply: Any, finish: str, ms: float) -> None:
        """The audit record of a reply that is over."""
        wish, log = reply.wish, self._auditor
        if log is None:
            return
        table = self.table.table if self.table is not None else None
        try:
            log.put(request=wish.request or f"{self._nonce}-{next(self._number)}", mode=wish.mode, tenant=wish.tenant, policy=wish.policy,
                    finish=finish, status=200, prompt_tokens=len(reply.prompt), reply_tokens=reply.taken, ms=round(ms),
                    slmt_table=table.facts.digest if table is not None else None, slmt_used=reply.slmt_used if table is not None else None,
                    wakes=reply.wakes or None, states=reply.states or None,
                    fuse=reply.wish.quality.fuse if reply.fused else None, fallback=reply.wish.quality.fallback if reply.fused else None)
        except wane.WaneError:
            self.counters.add("wane_audit_dropped")

    def close(self) -> None:
        """Write what waits."""
        for part in (self._tracer, self._auditor):
            if part is not None:
                part.close()
