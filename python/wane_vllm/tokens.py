"""
What wane must know of a Hugging Face tokenizer: the bytes of each token, and with them the digest that tables and traces name a
tokenizer by. It is the one that wane computes of a GGUF file of the same model, so that what `wane serve` recorded is good in vLLM, and
the other way round.

Takes any object with `get_vocab()`; `added_tokens_decoder` says which tokens were added. Byte-level vocabularies (GPT-2, Llama 3, Qwen,
SmolLM) and those in the style of SentencePiece (Llama 2, Mistral, Gemma) are known; any other is refused, since its digest would be none
that wane computes.
"""
from __future__ import annotations

import functools
import os
import re
from typing import Any, Dict, List, Optional

import wane

_HEX = re.compile(r"[0-9a-f]{32}")
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
#: Added tokens that count as control tokens although nobody calls them special, as the makers of GGUF files take them.
_CONTROL = re.compile(r"<pad>|<mask>|<2mass>|\[@BOS@\]|<\|.*\|>|<｜.*｜>|<unused\d+>", re.DOTALL)
_SPACE = "\u2581"


@functools.lru_cache(maxsize=1)
def _byte_of() -> Dict[str, int]:
    """The 256 characters that stand for bytes: printable ones for themselves, the others from U+0100 on, in order."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printable)
    return {**{chr(byte): byte for byte in printable}, **{chr(0x100 + i): byte for i, byte in enumerate(others)}}


def _byte_level(name: str) -> bytes:
    """A character that stands for no byte is kept as it is: few vocabularies have such tokens, and no text gives them."""
    known = _byte_of()
    return b"".join(bytes([known[c]]) if c in known else c.encode() for c in name)


def _sentence_piece(name: str) -> bytes:
    byte = _BYTE.fullmatch(name)
    return bytes([int(byte[1], 16)]) if byte else name.replace(_SPACE, " ").encode()


def _added(name: str, special: bool) -> bytes:
    return (name if special or _CONTROL.fullmatch(name) else name.replace(_SPACE, " ")).encode()


def _style_of(plain: Dict[str, int]) -> Any:
    """Byte-level vocabularies write a blank as U+0120, and U+2581 as three characters; those of SentencePiece write a blank as U+2581."""
    if any(name.startswith(_SPACE) for name in plain):
        return _sentence_piece
    if any(name.startswith("\u0120") for name in plain):
        return _byte_level
    raise ValueError("the tokenizer's vocabulary is neither byte-level nor in the style of SentencePiece")


def _special(tokenizer: Any) -> Dict[int, Optional[bool]]:
    """Ids of added tokens, and whether they are special."""
    added = getattr(tokenizer, "added_tokens_decoder", None) or {}
    return {int(i): bool(getattr(token, "special", True)) for i, token in added.items()}


def token_bytes(tokenizer: Any, vocab_size: int = 0) -> List[bytes]:
    """
    The bytes of each token by id; added and control tokens by their names; b"" for ids without a token. `vocab_size`: the model's; there
    are exactly so many entries. Models' matrices are often padded: the ids behind the tokenizer's are b"", and so are those that a
    tokenizer read from a GGUF file calls [PAD151665]; tokens that the model has no row for are left out. 0: as many as the tokenizer has.
    ValueError: a kind of vocabulary that is not known here.
    """
    vocabulary, special = tokenizer.get_vocab(), _special(tokenizer)
    style = _style_of({name: i for name, i in vocabulary.items() if i not in special})
    count = vocab_size or 1 + max(vocabulary.values())
    out = [b""] * count
    for name, i in vocabulary.items():
        if 0 <= i < count and name != f"[PAD{i}]":
            out[i] = _added(name, special[i]) if i in special else style(name)
    return out


def _model_of(model: str) -> str:
    if not model or _HEX.fullmatch(model):
        return model
    return wane.file_digest(model) if os.path.isfile(model) else wane.tokenizer_digest([model.encode()])


def origin_of(tokenizer: Any, model: str = "", vocab_size: int = 0) -> wane.Origin:
    """
    Whose a table or a trace is. `model`: its digest, 32 hex digits; or a file, whose digest is taken; or else its name, which is digested;
    "": any model of this tokenizer. `vocab_size`: rows of the model's head (vLLM: `model_config.get_vocab_size()`); 0: as many as the
    tokenizer has.
    """
    pieces = token_bytes(tokenizer, vocab_size)
    return wane.Origin(_model_of(model), wane.tokenizer_digest(pieces), len(pieces))
