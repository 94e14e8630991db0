"""What vLLM calls in each of its processes (entry point vllm.general_plugins)."""
from __future__ import annotations

from . import head, metrics, settings


def register() -> None:
    """
    Read the settings, so that what is wrong with them ends the start and no request; make room for the counters; put the head in its place, where it is on. May
    be called again.
    """
    settings.current()
    metrics.prepare()
    head.register()
