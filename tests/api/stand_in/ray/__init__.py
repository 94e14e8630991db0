"""Stands in for Ray: the functions that wane_ray uses, with a thread for each task. What travels is pickled, as it would be.

`before`: called with (name, arguments) as a task begins; an exception that it raises is the task's fate, so that it can be a worker's death.
"""
import concurrent.futures
import pickle
import threading

from . import cloudpickle, exceptions  # noqa: F401

CPUS = 2
before = None
started = []
_pool, _lock = None, threading.Lock()


def is_initialized():
    return _pool is not None


def init(address, **options):
    global _pool
    assert set(options) == {"log_to_driver", "logging_level", "include_dashboard"}
    if address not in ("auto", "local"):
        raise ConnectionError(f"nobody at {address}")
    _pool = concurrent.futures.ThreadPoolExecutor(CPUS)


def shutdown():
    global _pool
    _pool.shutdown()
    _pool = None


def cluster_resources():
    return {"CPU": float(CPUS), "memory": 1e9}


class Remote:
    def __init__(self, function):
        self.function = function

    def remote(self, *arguments):
        return _pool.submit(self.run, pickle.dumps(arguments))

    def run(self, arguments):
        arguments = pickle.loads(arguments)
        with _lock:
            started.append((self.function.__name__, arguments[1]))
        if before is not None:
            before(self.function.__name__, arguments)
        try:
            return pickle.loads(pickle.dumps(self.function(*arguments)))
        except Exception as why:
            raise exceptions.RayTaskError(f"{type(why).__name__}: {why}") from why


def remote(**options):
    assert options == {"num_cpus": 1, "max_retries": 0}
    return Remote


def wait(tasks, num_returns, timeout):
    assert 0 < num_returns <= len(tasks) == len(set(tasks))
    done = concurrent.futures.wait(tasks, timeout, concurrent.futures.FIRST_COMPLETED).done
    ready = [task for task in tasks if task in done][:num_returns]
    return ready, [task for task in tasks if task not in ready]


def get(task):
    return task.result()


def cancel(task, force):
    assert force
    task.cancel()
