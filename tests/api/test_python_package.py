"""`pip install ./python` as a user runs it: a wheel with its library is built without the network, and what is installed passes its own tests."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "python"
BUILD = pathlib.Path(os.environ.get("WANE_BUILD", ROOT / "build"))

USE = """
import pathlib, sys, wane
assert pathlib.Path(wane.__file__).is_relative_to(sys.argv[1]), wane.__file__
print(wane.__version__, wane.ssp(domain="legal", confidence="high"))
try:
    wane.ssp(domain="legl")
except ValueError as why:
    print(type(why).__name__)
print(wane.Head(__import__("numpy").eye(64)).topk([0] * 9 + [1] + [0] * 54)[0].tolist())
"""


def install(tree, place, **more):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    return subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-build-isolation", "--no-deps", "--target", str(place), str(tree)],
                          capture_output=True, text=True, env={**os.environ, **more})


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    if not (BUILD / "build.ninja").exists():
        pytest.skip(f"no {BUILD}: build first")
    # Beside the sources pip would leave what it built.
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(SOURCE, folder / "python", ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info", "_ffi.py", "share", "*.so"))
    done = install(folder / "python", folder / "place", WANE_SOURCE=str(ROOT), WANE_BUILD=str(BUILD))
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "place"


def test_pip_installs_it(place, tmp_path):
    packages = [p.parent.name for p in SOURCE.glob("*/__init__.py")]
    assert sorted(p.name for p in place.iterdir()) == sorted([*packages, "wane-0.1.0.dist-info"])
    assert sorted(p.name for p in (place / "wane").glob("*.py")) == sorted([*(p.name for p in (SOURCE / "wane").glob("*.py") if p.name != "_ffi.py"), "_ffi.py"])
    assert {p.name for p in (place / "wane" / "share" / "gates").iterdir()} == {p.name for p in (ROOT / "share" / "gates").glob("*.gate")}
    tags = (place / "wane-0.1.0.dist-info" / "WHEEL").read_text()
    assert "Tag: py3-none-" in tags and "py3-none-any" not in tags
    used = subprocess.run([sys.executable, "-c", USE, str(place)], capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(place)})
    assert used.stdout.split("\n")[:3] == ["0.1.0 SSP:domain=legal;confidence=high", "SSPError", "[9]"], used.stderr


def test_its_own_tests(place):
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", str(SOURCE / "tests")], capture_output=True, text=True, cwd=ROOT,
                          env={**os.environ, "PYTHONPATH": str(place)})
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_without_the_sources_it_says_so(tmp_path):
    tree = tmp_path / "python"
    shutil.copytree(SOURCE, tree, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info", "_ffi.py", "share", "*.so"))
    done = install(tree, tmp_path / "place", WANE_SOURCE="")
    assert done.returncode != 0 and "set WANE_SOURCE" in done.stderr + done.stdout, done.stderr[-2000:]
