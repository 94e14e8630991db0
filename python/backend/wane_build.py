"""The package's build backend: setuptools, and CMake and Ninja from pip where the machine has none."""
import shutil

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F401,F403  the hooks that stay as they are


def _tools():
    return [name for name in ("cmake", "ninja") if shutil.which(name) is None]


def get_requires_for_build_wheel(config_settings=None):
    return build_meta.get_requires_for_build_wheel(config_settings) + _tools()


def get_requires_for_build_editable(config_settings=None):
    return build_meta.get_requires_for_build_editable(config_settings) + _tools()
