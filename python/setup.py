"""What setuptools does not know: the library, its declarations, and the files that ship with it.

The library is libwane-parts, built by CMake from the repository that this folder stands in; it needs no engine. Environment:

    WANE_LIBRARY   a built one, taken as it is
    WANE_BUILD     a configured CMake folder that it is built in (else: build/python of the repository, kept for the next time)
    WANE_SOURCE    the repository, where this folder was copied out of it
"""
import atexit
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

#: Not beside the sources, where an old one would go into the next wheel.
BASE = tempfile.mkdtemp(prefix="wane-setup-")
atexit.register(shutil.rmtree, BASE, True)
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "backend"))
import declarations  # noqa: E402

LIBRARY = "libwane-parts.dylib" if sys.platform == "darwin" else "libwane-parts.so"
#: Of the repository: what a source distribution carries, under csrc/.
SOURCES = ("CMakeLists.txt", "cmake", "include", "src/core", "src/head", "src/sample", "src/table", "src/correct", "src/gate", "src/governor", "src/ops")
SHARED = (("gates", "*.gate"), ("profiles", "*.json"), ("rules", "*.json"))


def find_source():
    for place in (os.environ.get("WANE_SOURCE"), HERE / "csrc", HERE.parent):
        if place and (pathlib.Path(place) / "include" / "wane" / "parts.h").exists():
            return pathlib.Path(place).resolve()
    sys.exit("wane: the C sources are not here. Install from the repository (pip install ./python), or set WANE_SOURCE to it.")


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.stderr.write(done.stdout[-6000:])
        sys.exit("wane: CMake could not build the library; its words are above. It needs a C compiler, CMake, Ninja, pkg-config, jansson, ICU, "
                 "libsodium, sqlite3, xxhash and zstd: scripts/deps build installs them.")


def build_folder(source):
    """One that lasts where the repository can be written to, so that the next installation compiles what changed."""
    if (source / ".git").exists() and os.access(source, os.W_OK):
        return source / "build" / "python"
    return pathlib.Path(BASE) / "cmake"


def build_library(source):
    given = os.environ.get("WANE_LIBRARY")
    if given:
        return pathlib.Path(given)
    folder = os.environ.get("WANE_BUILD")
    if not folder:
        folder = build_folder(source)
        run("cmake", "-S", source, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DWANE_PARTS_ONLY=ON", "-DWANE_WERROR=OFF")
    run("cmake", "--build", folder, "--target", "wane_parts")
    return pathlib.Path(folder) / LIBRARY


class Build(build_py):
    def run(self):
        super().run()
        place = HERE / "wane" if self.editable_mode else pathlib.Path(self.build_lib) / "wane"
        source = find_source()
        place.mkdir(parents=True, exist_ok=True)
        declarations.write_module(source / "include", place / "_ffi.py")
        shutil.copy2(build_library(source), place / LIBRARY)
        share = place / "share"
        for folder, pattern in SHARED:
            (share / folder).mkdir(parents=True, exist_ok=True)
            for file in sorted((source / "share" / folder).glob(pattern)):
                shutil.copy2(file, share / folder / file.name)


class Wheel(bdist_wheel):
    """Any Python 3, this system: the library is opened at run time, not linked to an interpreter."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class Sources(sdist):
    """Carries the C sources, so that a wheel can be made of it anywhere."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        source, csrc = find_source(), pathlib.Path(base_dir) / "csrc"
        for name in SOURCES:
            (csrc / name).parent.mkdir(parents=True, exist_ok=True)
            if (source / name).is_dir():
                shutil.copytree(source / name, csrc / name)
            else:
                shutil.copy2(source / name, csrc / name)
        for file in (*source.glob("src/*.c"), *source.glob("src/*.h"), *source.glob("src/engine/*.h")):
            (csrc / file.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, csrc / file.relative_to(source))
        for folder, pattern in SHARED:
            (csrc / "share" / folder).mkdir(parents=True, exist_ok=True)
            for file in (source / "share" / folder).glob(pattern):
                shutil.copy2(file, csrc / "share" / folder / file.name)


class Binary(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": Build, "bdist_wheel": Wheel, "sdist": Sources}, distclass=Binary, options={"build": {"build_base": BASE}})
