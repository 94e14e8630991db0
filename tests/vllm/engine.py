"""A vLLM in this process, with wane's settings, for the tests; and what wane counted in it."""
import contextlib
import json
import os

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"


@contextlib.contextmanager
def started(settings, **options):
    """An LLM with these settings in WANE_VLLM; options as vLLM has them."""
    from vllm import LLM
    from wane_vllm import plugin
    from wane_vllm import settings as read
    os.environ["WANE_VLLM"] = json.dumps(settings)
    read.current.cache_clear()
    plugin.register()  # vLLM itself calls it for the first engine of a process alone
    made = LLM(model=os.environ["WANE_VLLM_MODEL"], enforce_eager=True, max_model_len=1024, enable_prefix_caching=False,
               **{"max_num_seqs": 4, "max_num_batched_tokens": 1024, **options})
    try:
        yield made
    finally:
        made.llm_engine.engine_core.shutdown()
        del os.environ["WANE_VLLM"]


def counted(name):
    """All of a family, whatever its labels."""
    from wane_vllm import metrics
    return sum(count for (family, _), count in metrics.totals().items() if family == name)
