"""The package itself: its declarations are the headers', its structs lie as C lays them out, its hints are whole, its documents and examples run."""
import importlib.util
import inspect
import os
import pathlib
import re
import shutil
import subprocess
import sys
import typing

import numpy as np
import pytest

import wane
from conftest import ROOT, record
from wane import _core, shards

HERE = pathlib.Path(wane.__file__).resolve().parent


def declarations():
    spec = importlib.util.spec_from_file_location("declarations", ROOT / "python" / "backend" / "declarations.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_declarations_are_the_headers(tmp_path):
    declarations().write_module(ROOT / "include", tmp_path / "_ffi.py")
    assert (tmp_path / "_ffi.py").read_bytes() == (HERE / "_ffi.py").read_bytes(), "the headers changed: install the package again"


def test_version():
    assert _core.version() == wane.__version__


def test_what_is_used_is_there():
    for file in HERE.glob("*.py"):
        for name in set(re.findall(r"lib\.(wane_\w+)", file.read_text(encoding="utf-8"))):
            assert getattr(_core.lib, name), name


def test_structs_lie_as_c_lays_them_out(tmp_path):
    cc = shutil.which("cc")
    if cc is None:
        pytest.skip("no C compiler")
    text = declarations().declarations(ROOT / "include")
    names = re.findall(r"^} (wane_\w+);", text, re.M) + re.findall(r"^struct (wane_\w+) {", text, re.M)
    names = sorted(name for name in set(names) if _core.ffi.typeof(name).kind == "struct")
    assert len(names) > 30
    lines, said = [], {}
    for name in names:
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        said[name] = _core.ffi.sizeof(name)
        for field, _ in _core.ffi.typeof(name).fields:
            lines.append(f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));')
            said[f"{name}.{field}"] = _core.ffi.offsetof(name, field)
    source = tmp_path / "sizes.c"
    source.write_text("#include <stdio.h>\n#include <stddef.h>\n#include <wane.h>\nint main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n")
    subprocess.run([cc, "-std=c17", "-I", str(ROOT / "include"), str(source), "-o", str(tmp_path / "sizes")], check=True)
    printed = subprocess.run([str(tmp_path / "sizes")], capture_output=True, text=True, check=True).stdout
    assert {word: int(number) for word, number in map(str.split, printed.splitlines())} == said


def test_settings_are_the_structs():
    for kind, name in ((wane.Quality, "wane_quality"), (wane.Profile, "wane_profile")):
        fields = [field for field, _ in _core.ffi.typeof(name).fields if field != "size"]
        assert list(kind.__annotations__) == fields


def test_hints_are_whole():
    assert (HERE / "py.typed").exists()
    missing = []
    for module in (wane, shards):
        for name in module.__all__:
            thing = getattr(module, name)
            if name in ("KEYS", "SSPError", "ssp", "with_ssp"):
                continue
            if inspect.isclass(thing):
                members = {f"{name}.{key}": value for key, value in vars(thing).items() if not key.startswith("_") or key == "__init__"}
            else:
                members = {name: thing}
            assert inspect.getdoc(thing), f"{name} says nothing of itself"
            for where, member in members.items():
                member = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
                if not inspect.isfunction(member) or member.__module__ not in sys.modules or not member.__module__.startswith("wane"):
                    continue
                hints = typing.get_type_hints(member, vars(sys.modules[member.__module__]))
                wanted = [p for p in inspect.signature(member).parameters if p not in ("self", "cls")]
                missing += [f"{where}: {p}" for p in [*wanted, "return"] if p not in hints]
                if not where.endswith("__init__") and "<string>" not in member.__code__.co_filename and not inspect.getdoc(member):
                    missing.append(f"{where} has no document")
    assert not missing, missing


def test_names():
    assert set(wane.__all__) <= set(dir(wane))
    with pytest.raises(AttributeError, match="nothing"):
        wane.nothing
    # The clients' part needs neither NumPy nor the library.
    code = "import sys, wane; wane.with_ssp(domain='legal'); assert 'numpy' not in sys.modules and 'wane._core' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_errors():
    assert issubclass(wane.NotFound, FileNotFoundError) and issubclass(wane.InvalidArgument, ValueError)
    try:
        wane.Table("nowhere.slmt")
    except wane.WaneError as why:
        assert why.name == "WANE_ENOENT" and why.code < 0 and "nowhere.slmt" in str(why)
    numbers = {name: getattr(_core.lib, name) for name in ("WANE_EINVAL", "WANE_EAUTH", "WANE_EINTERNAL")}
    for name, number in numbers.items():
        assert _core.text(_core.lib.wane_strerror(number)) == name


def blocks(document):
    return re.findall(r"^```python\n(.*?)^```", document, re.S | re.M)


def test_the_document_runs(tmp_path, monkeypatch):
    """docs/python.md from top to bottom, in a folder with the files that it names; the clients' part is tests/api/test_ssp.py's."""
    monkeypatch.chdir(tmp_path)
    record("traces")
    wane.Table.build(["traces"], "prompts.slmt")
    from test_weights import gguf, make
    gguf(tmp_path / "model.gguf", {"output.weight": (8, (64, 3000), make("q8_0", 3000, 64).tobytes())})
    ran, names = 0, {"__name__": "document"}
    for block in blocks((ROOT / "docs" / "python.md").read_text(encoding="utf-8")):
        if "import anthropic" in block:
            continue
        exec(compile(block, f"docs/python.md, block {ran}", "exec"), names)
        ran += 1
    assert ran >= 8


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "python" / "examples").glob("*.py")))
def test_the_examples_run(name, tmp_path):
    done = subprocess.run([sys.executable, str(ROOT / "python" / "examples" / name), "--small"], cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, "MPLBACKEND": "agg"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert np.all([path.stat().st_size > 1000 for path in tmp_path.glob("*.svg")])


def test_others_may_search_all_modules():
    """As programs do that replace functions wherever they are named."""
    import wane._core
    for module in [module for name, module in sys.modules.items() if name.split(".")[0] in ("wane", "wane_vllm")]:
        for value in list(vars(module).values()):
            hasattr(value, "__dict__"), hasattr(value, "kernel")
    assert callable(wane._core.lib.wane_version) and not hasattr(wane._core.lib, "__wrapped__")
