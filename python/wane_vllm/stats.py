"""The class that vLLM makes where /metrics is answered (entry point vllm.stat_logger_plugins). It brings wane's numbers into the registry, and logs nothing."""
from __future__ import annotations

from vllm.v1.metrics.loggers import StatLoggerBase

from . import metrics


class Stats(StatLoggerBase):
    """wane's numbers beside vLLM's."""

    def __init__(self, vllm_config: object, engine_index: int = 0) -> None:
        metrics.register()

    def record(self, *_: object, **__: object) -> None:
        """Nothing: the counters are read when they are asked for."""

    def log_engine_initialized(self) -> None:
        """Nothing to say."""
