"""The public headers as cffi reads them, and the module that cffi makes of them: what Python knows of libwane-parts is what the headers say.

    python backend/declarations.py        print the declarations
"""
import pathlib
import re
import sys

#: In the order in which they need each other.
HEADERS = ("wane.h", "wane/quality.h", "wane/table.h", "wane/trace.h", "wane/gate.h", "wane/governor.h", "wane/prepare.h", "wane/ssp.h",
           "wane/sampler.h", "wane/audit.h", "wane/parts.h")

_NUMBER = re.compile(r"#\s*define\s+(\w+)\s+(-?\d+)\s*$")


def _without_cplusplus(lines):
    """Lines without what stands between `#ifdef __cplusplus` and its `#endif`."""
    inside = 0
    for line in lines:
        word = line.split()
        if inside:
            inside += line.startswith("#if")
            inside -= line.startswith("#endif")
        elif word[:2] == ["#ifdef", "__cplusplus"]:
            inside = 1
        else:
            yield line


def of(text):
    """One header's declarations: no comments, no preprocessor but numbers by name."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    kept = []
    for line in _without_cplusplus(text.splitlines()):
        if line.lstrip().startswith("#"):
            number = _NUMBER.match(line.strip())
            if number:
                kept.append(f"#define {number[1]} {number[2]}")
        elif line.strip():
            kept.append(re.sub(r"\s+", " ", line.replace("WANE_API ", "")).strip())
    return "\n".join(kept)


def declarations(include):
    """All of them; `include` is the folder of the headers."""
    return "\n".join(of((pathlib.Path(include) / name).read_text(encoding="utf-8")) for name in HEADERS) + "\n"


def write_module(include, path):
    """Write the module `wane._ffi`: pure Python, ready to open the library, without a parser at run time."""
    import cffi
    ffi = cffi.FFI()
    ffi.cdef(declarations(include))
    ffi.set_source("wane._ffi", None)
    ffi.emit_python_code(str(path))


if __name__ == "__main__":
    sys.stdout.write(declarations(pathlib.Path(__file__).resolve().parents[2] / "include"))
