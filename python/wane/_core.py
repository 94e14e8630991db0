"""The library, opened; and what every class does with it: errors, handles, arrays, progress. Not public."""
from __future__ import annotations

import os
import pathlib
import sys
import threading
from typing import Any, Callable, Dict, Optional, Tuple, Type, TypeVar, Union

import numpy as np

from . import errors

try:
    from ._ffi import ffi as _ffi
except ImportError as why:
    raise ImportError("wane is not installed: this is its source. Run: pip install ./python") from why

ffi: Any = _ffi
PLACE = pathlib.Path(__file__).resolve().parent


def _open() -> Any:
    """
    The library's functions, each looked up when it is first used. cffi's own object looks all of them up as soon as somebody asks what it has, as programs do
    that search all modules, and fails on what the headers say of the whole library; this one does not. The library stays until the process ends: what is freed
    with the last reference may be freed behind every module.
    """
    opened = ffi.dlopen(str(PLACE / ("libwane-parts.dylib" if sys.platform == "darwin" else "libwane-parts.so")), ffi.RTLD_NOW | ffi.RTLD_NODELETE)

    class Library:
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            value = getattr(opened, name)
            self.__dict__[name] = value
            return value
    return Library()


lib: Any = _open()

Path = Union[str, "os.PathLike[str]"]
Progress = Callable[[str, float], Optional[bool]]
#: Laid out as a wane_candidate.
CANDIDATE = np.dtype([("token", np.int32), ("logit", np.float32)], align=True)


def text(cdata: Any) -> str:
    """A C string, or an array of characters, as a string."""
    if cdata == ffi.NULL:
        return ""
    raw: bytes = ffi.string(cdata)
    return raw.decode("utf-8", "replace")


def check(code: int, error: Any) -> None:
    """Raise what a function's code and error say."""
    if code != 0:
        raise errors.make(code, text(lib.wane_strerror(code)), text(error.text))


def call(function: Any, *arguments: Any) -> None:
    """Call a function whose last parameter is a wane_error. The interpreter's lock is not held meanwhile."""
    error = ffi.new("wane_error *")
    check(function(*arguments, error), error)


def path_of(path: Optional[Path]) -> Any:
    """A path as C wants it; NULL for None."""
    return ffi.NULL if path is None else ffi.new("char[]", os.fsencode(path))


def string_of(value: Optional[str], what: str) -> Any:
    """UTF-8 with a zero behind it; NULL for None."""
    if value is None:
        return ffi.NULL
    raw = value.encode()
    if b"\0" in raw:
        raise ValueError(f"{what} holds a zero character")
    return ffi.new("char[]", raw)


def digest_of(value: str, what: str) -> bytes:
    """32 hex digits, or nothing."""
    if value and (len(value) != 32 or value.strip("0123456789abcdef")):
        raise ValueError(f'{what} is "{value}"; a digest is 32 hex digits in small letters, or "" for any')
    return value.encode()


Self = TypeVar("Self", bound="Handle")


class Handle:
    """An object of the library's: freed by close, by the end of a with statement, or with the last reference. One thread at a time is in it."""

    _handle: Any = None

    def __init__(self, handle: Any, free: Any) -> None:
        self._lock = threading.RLock()
        self._handle = ffi.gc(handle, free)

    def _use(self) -> Any:
        """The C object; call it with the lock held."""
        if self._handle is None:
            raise ValueError(f"this {type(self).__name__} is closed")
        return self._handle

    def close(self) -> None:
        """Free it: now, or when calls that are under way in other threads are done. Twice is fine; whatever is used afterwards raises ValueError."""
        with self._lock:
            self._handle = None  # a call that is under way has a reference of its own

    @property
    def closed(self) -> bool:
        """Was it closed?"""
        return self._handle is None

    def __enter__(self: Self) -> Self:
        with self._lock:
            self._use()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Any) -> None:
        self.close()


class Told:
    """A progress function for C. What it raises stops the work, and is raised behind it."""

    def __init__(self, progress: Optional[Progress]) -> None:
        self.raised: Optional[BaseException] = None
        self.callback = ffi.NULL
        if progress is not None:
            self.callback = ffi.callback("bool(void *, char const *, double)", self._tell)
        self._progress = progress

    def _tell(self, user: Any, what: Any, share: float) -> bool:
        try:
            assert self._progress is not None
            return self._progress(text(what), share) is not False
        except BaseException as why:  # noqa: B036  it is raised again, where Python can
            self.raised = why
            return False

    def call(self, function: Any, *arguments: Any) -> None:
        """As `call`, and what the progress function raised goes first."""
        try:
            call(function, *arguments)
        except errors.WaneError:
            if self.raised is not None:
                raise self.raised
            raise


def as_numpy(array: Any) -> "np.ndarray[Any, Any]":
    """Whatever lies in host memory and says so, without a copy where that is possible."""
    if isinstance(array, np.ndarray):
        return array
    detach = getattr(array, "detach", None)  # a tensor that knows gradients
    return np.asarray(detach() if callable(detach) else array)


def floats(array: Any, what: str) -> "np.ndarray[Any, np.dtype[np.float32]]":
    """float32, row by row; copied only where it is not that already."""
    given = as_numpy(array)
    if given.dtype.kind not in "fiu" and given.dtype.name != "bfloat16":
        raise TypeError(f"{what} is of {given.dtype}; it must be of numbers")
    if given.ndim == 0:
        raise ValueError(f"{what} has the shape (); it must have a dimension at least")
    return np.ascontiguousarray(given, dtype=np.float32)


def tokens_of(tokens: Any, what: str = "tokens") -> "np.ndarray[Any, np.dtype[np.int32]]":
    """Token ids as int32, in one dimension."""
    given = as_numpy(tokens)
    if given.size == 0:
        return np.zeros(0, np.int32)
    if given.dtype.kind not in "iu":
        raise TypeError(f"{what} is of {given.dtype}; it must be of integers")
    if given.ndim != 1:
        raise ValueError(f"{what} has {given.ndim} dimensions; it must have one")
    if given.dtype != np.int32 and (int(given.min()) < -2**31 or int(given.max()) >= 2**31):
        raise ValueError(f"{what} holds a number beyond 32 bits")
    return np.ascontiguousarray(given, dtype=np.int32)


def pointer(array: "np.ndarray[Any, Any]", ctype: str) -> Any:
    """Into a contiguous array, which must outlive it."""
    return ffi.cast(ctype, array.ctypes.data)


def struct(name: str, initialise: Any = None) -> Any:
    """A new struct, set up by its _init."""
    made = ffi.new(f"{name} *")
    if initialise is not None:
        initialise(made)
    return made


def fields(cdata: Any, leave_out: Tuple[str, ...] = ()) -> Dict[str, Any]:
    """A struct's numbers, flags and strings by name."""
    kind = ffi.typeof(cdata)
    kind = kind.item if kind.kind == "pointer" else kind
    found: Dict[str, Any] = {}
    for name, field in kind.fields:
        if name in leave_out:
            continue
        value = getattr(cdata, name)
        if field.type.kind == "primitive":
            found[name] = value
        elif field.type.cname in ("char *", "char const *") or field.type.cname.startswith("char["):
            found[name] = text(value)
        elif field.type.kind == "array" and field.type.item.kind == "primitive":
            found[name] = list(value)
    return found


def texts_of(token_bytes: Callable[[int], Optional[bytes]]) -> Callable[[Any, int, Any, int], int]:
    """A function that gives a token's text, as C asks for it: at most `capacity` bytes into `room`; how many there are."""
    def copy(user: Any, token: int, room: Any, capacity: int) -> int:
        raw = token_bytes(token) or b""
        ffi.memmove(room, raw[:capacity], min(len(raw), capacity))
        return len(raw)
    return copy


def version() -> str:
    """The library's."""
    return text(lib.wane_version())


def shipped(name: str) -> Optional[str]:
    """The path of a file that ships with wane, such as "gates/….gate"; None: there is none."""
    room = ffi.new("char[4096]")
    found = lib.wane_shipped_file(string_of(name, "name"), room, 4096)
    return os.fsdecode(ffi.string(room)) if found else None
