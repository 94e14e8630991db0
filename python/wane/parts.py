"""Whose something is, and what a context is called: digests, contexts."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, Optional

import numpy as np
from numpy.typing import NDArray

from ._core import Path, call, digest_of, ffi, lib, path_of, pointer, string_of, struct, text, tokens_of


@dataclass(frozen=True)
class Origin:
    """Which model and which tokenizer; "" and 0: any, or not said."""

    model: str = ""
    tokenizer: str = ""
    vocab_size: int = 0

    def _c(self) -> Any:
        made = struct("wane_origin")
        made.model = digest_of(self.model, "model")
        made.tokenizer = digest_of(self.tokenizer, "tokenizer")
        made.vocab_size = self.vocab_size
        return made


def file_digest(path: Path) -> str:
    """Digest of a file, 32 hex digits; of a model's file it is what tables, gates and profiles name the model by. Reads all of it."""
    out = ffi.new("char[33]")
    call(lib.wane_file_digest, path_of(path), out)
    return text(out)


def tokenizer_digest(vocabulary: Iterable[Optional[bytes]]) -> str:
    """
    Digest of a vocabulary: the bytes of each token, in order; control tokens by their names, such as b"<|im_end|>"; None or b"": it has no text. As
    `wane_model_tokenizer` gives it for a GGUF file.
    """
    pieces = [piece or b"" for piece in vocabulary]
    sizes = np.array([len(piece) for piece in pieces], np.int32)
    raw, out = b"".join(pieces), ffi.new("char[33]")
    call(lib.wane_tokenizer_digest, ffi.from_buffer(raw), pointer(sizes, "int32_t *"), len(pieces), out)
    return text(out)


class Context:
    """
    All tokens so far, by name, token by token: what tables look up and traces record. Nothing that was recorded for one tenant is found for another. Cheap
    to copy. Threads: one at a time.
    """

    def __init__(self, tokens: Any = (), tenant: str = "") -> None:
        self.tenant = tenant
        self._c = struct("wane_context")
        lib.wane_context_begin(self._c, string_of(tenant, "tenant"))
        self.add(tokens)

    def add(self, tokens: Any) -> None:
        """One token, or a list of them, joins."""
        ids = tokens_of([tokens] if isinstance(tokens, (int, np.integer)) else tokens)
        if ids.size and int(ids.min()) < 0:
            raise ValueError(f"a context has no token {int(ids.min())}")
        lib.wane_context_add(self._c, pointer(ids, "int32_t *"), ids.size)

    def copy(self) -> "Context":
        """To go on in two ways."""
        made = object.__new__(Context)
        made.tenant = self.tenant
        made._c = struct("wane_context")
        made._c[0] = self._c[0]
        return made

    def __len__(self) -> int:
        return int(self._c.count)

    @property
    def name(self) -> str:
        """128 bits of all tokens and the tenant, as 32 hex digits: what a trace's "before" says."""
        return f"{self._c.high:016x}{self._c.low:016x}"

    @property
    def last(self) -> NDArray[np.int32]:
        """The last ten tokens at most, the nearest one last."""
        return np.array(list(self._c.last)[:min(10, len(self))], np.int32)


def context_of(tokens: Any, tenant: str) -> Context:
    """What was given as a context, or one of these tokens."""
    if isinstance(tokens, Context):
        if tenant:
            raise ValueError("a Context has its tenant already")
        return tokens
    return Context(tokens, tenant)

