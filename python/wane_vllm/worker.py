"""
vLLM's worker, which hands the proposer the runner whose rows it sees, so that a row's request and tenant are known:

    vllm serve … --worker-cls wane_vllm.worker.Worker

`Worker` is a subclass of the worker that the platform has, made when vLLM asks for it. It owns nothing, and changes nothing else.
"""
from __future__ import annotations

import functools
from typing import Any


def bound(base: type) -> type:
    """A subclass of a worker class: once the model is loaded, its proposer gets the runner, if it wants one."""

    class Worker(base):  # type: ignore[misc, valid-type]
        def load_model(self, *args: Any, **kwargs: Any) -> Any:
            made = super().load_model(*args, **kwargs)
            bind = getattr(getattr(self.model_runner, "drafter", None), "bind", None)
            if bind is not None:
                bind(self.model_runner)
            return made

    Worker.__module__, Worker.__qualname__, Worker.__doc__ = __name__, "Worker", base.__doc__
    return Worker


def _base() -> type:
    """As each platform sets it where `worker_cls` is "auto"."""
    from vllm.platforms import current_platform
    if current_platform.is_cpu():
        from vllm.v1.worker.cpu_worker import CPUWorker
        return CPUWorker
    if current_platform.is_xpu():
        from vllm.v1.worker.xpu_worker import XPUWorker
        return XPUWorker
    if current_platform.is_cuda_alike():
        from vllm.v1.worker.gpu_worker import Worker
        return Worker
    raise RuntimeError(f"wane knows no worker for {current_platform.device_name}; without --worker-cls rows have no tenants")


@functools.lru_cache(maxsize=1)
def _worker() -> type:
    return bound(_base())


def __getattr__(name: str) -> Any:
    if name == "Worker":
        return _worker()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
