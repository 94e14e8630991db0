"""`pip install ./python` as a user runs it: a wheel is built without the network, and what is installed works beside the clients."""
import os
import pathlib
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "python"

USE = """
import pathlib, sys, wane
assert pathlib.Path(wane.__file__).is_relative_to(sys.argv[1]), wane.__file__
print(wane.__version__, wane.ssp(domain="legal", confidence="high"))
try:
    wane.ssp(domain="legl")
except ValueError as why:
    print(type(why).__name__)
"""


def test_pip_installs_it(tmp_path):
    # Beside the sources pip would leave what it built.
    tree, place = tmp_path / "python", tmp_path / "place"
    shutil.copytree(SOURCE, tree, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    done = subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-build-isolation", "--no-deps", "--target", str(place), str(tree)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    names = sorted(p.name for p in place.iterdir())
    assert names == ["wane", "wane-0.1.0.dist-info", "wane_ray"], names
    for package in ("wane", "wane_ray"):
        assert sorted(p.name for p in (place / package).glob("*.py")) == sorted(p.name for p in (SOURCE / package).glob("*.py"))
    environment = {**os.environ, "PYTHONPATH": str(place)}
    used = subprocess.run([sys.executable, "-c", USE, str(place)], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert used.stdout.split("\n")[:2] == ["0.1.0 SSP:domain=legal;confidence=high", "SSPError"], used.stderr
