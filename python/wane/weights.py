"""Weights as files and programs hold them: arrays of floats, packed rows, and the tensors of a GGUF file, mapped."""
from __future__ import annotations

import hashlib
import math
import mmap
import os
import struct as bytes_of
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
from numpy.typing import NDArray

from ._core import Path, as_numpy, lib
from .errors import FormatError, NotFound, Unsupported

#: Types of packed weights by name, in the order of the library's numbers.
TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k")
#: GGUF's numbers of them.
_GGUF_TYPES = {0: "f32", 1: "f16", 30: "bf16", 8: "q8_0", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 12: "q4_k", 13: "q5_k", 14: "q6_k"}


@dataclass(frozen=True)
class Weights:
    """V rows of d weights of one type, row by row, as bytes that nobody copies."""

    data: NDArray[np.uint8]
    type: str
    vocab_size: int
    d: int
    #: What `data` stands in: kept as long as the weights are.
    owner: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise ValueError(f'there is no type "{self.type}" of weights; the types are {", ".join(TYPES)}')
        row = lib.wane_weights_row_bytes(TYPES.index(self.type), self.d)
        if row == 0:
            raise ValueError(f"rows of {self.d} weights are not whole blocks of {self.type}")
        if self.vocab_size < 1 or self.data.nbytes != row * self.vocab_size:
            raise ValueError(f"{self.vocab_size} rows of {self.d} weights of {self.type} are {row * self.vocab_size} bytes, not {self.data.nbytes}")
        if not self.data.flags.c_contiguous:
            raise ValueError("packed weights must lie row by row, without gaps")

    @classmethod
    def of(cls, weights: Any) -> "Weights":
        """
        Of an array (V, d): float32, float16 and bfloat16 (of ml_dtypes) as they are, where they lie row by row; other numbers, and other orders,
        are copied into float32. Of Weights: the same.
        """
        if isinstance(weights, Weights):
            return weights
        array = as_numpy(weights)
        if array.ndim != 2 or array.size == 0:
            raise ValueError(f"weights have the shape {array.shape}; it must be (V, d)")
        kind = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}.get(array.dtype.name)
        if kind is None:
            if array.dtype.kind not in "fiu":
                raise TypeError(f"weights are of {array.dtype}; they must be of numbers")
            kind, array = "f32", array.astype(np.float32)
        array = np.ascontiguousarray(array)
        flat: NDArray[np.uint8] = array.reshape(-1).view(np.uint8)
        return cls(flat, kind, int(array.shape[0]), int(array.shape[1]), array)

    @classmethod
    def packed(cls, data: Any, type: str, vocab_size: int, d: int) -> "Weights":
        """Of anything that lends its bytes (bytes, mmap, an array): rows of a type that GGUF files have, such as "q8_0" or "q6_k"."""
        if isinstance(data, np.ndarray):
            if not data.flags.c_contiguous:
                raise ValueError("packed weights must lie row by row, without gaps")
            raw: NDArray[np.uint8] = data.reshape(-1).view(np.uint8)
        else:
            raw = np.frombuffer(data, np.uint8)
        return cls(raw, type.lower(), vocab_size, d, data)

    def digest(self) -> str:
        """A name of what they are: BLAKE2b of type, shape and bytes, 32 hex digits. Reads all of them."""
        hashed = hashlib.blake2b(f"{self.type} {self.vocab_size} {self.d} ".encode(), digest_size=16)
        hashed.update(self.data.data)
        return hashed.hexdigest()


class _Reader:
    """A cursor over a file's head that never leaves it."""

    def __init__(self, data: Any, path: str) -> None:
        self.data, self.at, self.path = data, 0, path

    def bad(self, what: str) -> FormatError:
        return FormatError(f"{self.path} is no GGUF file that can be read: {what}")

    def take(self, size: int) -> bytes:
        if size < 0 or size > len(self.data) - self.at:
            raise self.bad("it is cut short")
        taken = bytes(self.data[self.at:self.at + size])
        self.at += size
        return taken

    def skip(self, size: int) -> None:
        if size < 0 or size > len(self.data) - self.at:
            raise self.bad("it is cut short")
        self.at += size

    def number(self, form: str) -> Any:
        return bytes_of.unpack("<" + form, self.take(bytes_of.calcsize("<" + form)))[0]

    def string(self, most: int = 1 << 16) -> str:
        size = self.number("Q")
        if size > most:
            raise self.bad(f"a name has {size} bytes")
        return self.take(size).decode("utf-8", "replace")


_SIZES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class Tensor:
    """What a GGUF file says of one of its tensors."""

    name: str
    shape: Tuple[int, ...]
    type: str
    offset: int


class GGUF:
    """
    The head of a GGUF file, read and checked, and its tensors mapped: single values (`values`), `tensors` by name, and `weights` of one that the
    library can take. The mapping lasts as long as anything made of it: do not cut the file meanwhile.
    """

    def __init__(self, path: Path) -> None:
        self.path = os.fspath(path)
        try:
            with open(self.path, "rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError as why:
            raise NotFound(f"There is no file {self.path}.") from why
        except (ValueError, OSError) as why:
            raise FormatError(f"{self.path} cannot be mapped: {why}") from why
        self.values: Dict[str, Any] = {}
        self.tensors: Dict[str, Tensor] = {}
        self._read()

    def _read(self) -> None:
        r = _Reader(self._map, self.path)
        if r.take(4) != b"GGUF":
            raise r.bad("it does not begin with GGUF")
        version, tensors, values = r.number("I"), r.number("Q"), r.number("Q")
        if version not in (2, 3):
            raise r.bad(f"its version is {version}")
        for _ in range(values):
            name, kind = r.string(), r.number("I")
            value = self._value(r, kind)
            if value is not None:
                self.values[name] = value
        found: List[Tuple[str, Tuple[int, ...], int, int]] = []
        for _ in range(tensors):
            name, dims = r.string(), r.number("I")
            if dims > 8:
                raise r.bad(f"{name} has {dims} dimensions")
            shape = tuple(r.number("Q") for _ in range(dims))
            found.append((name, shape, r.number("I"), r.number("Q")))
        alignment = self.values.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise r.bad(f"its alignment is {alignment}")
        start = (r.at + alignment - 1) // alignment * alignment
        for name, shape, number, offset in found:
            if offset > len(self._map):
                raise r.bad(f"{name} begins behind its end")
            self.tensors[name] = Tensor(name, shape, _GGUF_TYPES.get(number, f"type {number}"), start + offset)

    def _value(self, r: _Reader, kind: int) -> Any:
        """A number, flag or string; None for lists, which are passed over."""
        if kind in _SIZES:
            return r.number(_SIZES[kind])
        if kind == _STRING:
            return r.string(1 << 24)
        if kind != _ARRAY:
            raise r.bad(f"a value is of kind {kind}")
        inner, count = r.number("I"), r.number("Q")
        if inner in _SIZES:
            r.skip(bytes_of.calcsize("<" + _SIZES[inner]) * count)
        elif inner == _STRING:
            for _ in range(count):
                r.skip(r.number("Q"))
        else:
            raise r.bad(f"a list is of kind {inner}")
        return None

    def weights(self, name: Optional[str] = None) -> Weights:
        """A matrix of the file; None: that of the head, "output.weight", or "token_embd.weight" where both are one."""
        if name is None:
            name = "output.weight" if "output.weight" in self.tensors else "token_embd.weight"
        if name not in self.tensors:
            raise NotFound(f"{self.path} has no tensor {name}.")
        tensor = self.tensors[name]
        if len(tensor.shape) != 2 or math.prod(tensor.shape) == 0 or max(tensor.shape) >= 1 << 31:
            raise Unsupported(f"{name} in {self.path} has the shape {tensor.shape}: it is no head.")
        if tensor.type not in TYPES:
            raise Unsupported(f"{name} in {self.path} is of {tensor.type}; the library takes {', '.join(TYPES)}.")
        d, vocab_size = tensor.shape
        size = lib.wane_weights_row_bytes(TYPES.index(tensor.type), d) * vocab_size
        if size == 0 or size > len(self._map) - tensor.offset:
            raise FormatError(f"{self.path} is no GGUF file that can be read: {name} goes beyond its end")
        if tensor.type == "f32" and tensor.offset % 4 != 0:
            raise FormatError(f"{self.path} is no GGUF file that can be read: {name} is not aligned")
        data = np.frombuffer(self._map, np.uint8, size, tensor.offset)
        return Weights(data, tensor.type, vocab_size, d, self._map)
