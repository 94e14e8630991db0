"""The driver: from traces to shards, from shards to parts on a cluster, from parts to a table here.

It owns the order of tasks, what is done again, and what people see meanwhile. It knows of Ray five functions and its errors (`Cluster`),
so that tests put threads in its place. The last merge is `wane table merge` on this machine, with the caller's own options: what it
writes and prints is what a single build writes and prints.
"""
import collections
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from . import places, work
from .places import PlaceError, list_traces, place_of

# Without --samples a merge hands on all it gets, so that merging in levels only reads everything once more; up to this many parts are
# merged at once then. With it, a part never grows beyond the samples that a table of all would use, and levels pay.
FAN_IN, FAN_IN_SAMPLED = 256, 16


class RayBuildError(Exception):
    """A build that cannot be finished: a sentence for people."""


class Options:
    """Of a build on Ray. `settings` are wane's own options by name, without dashes: window, samples, and what the last merge takes."""

    def __init__(self, traces, work_place, wane, settings=None, merge_words=(), shard=1 << 30, tasks=0, fan_in=0, tries=4,
                 memory=512 << 20, temporary=None):
        self.traces, self.work, self.wane = list(traces), work_place, wane
        self.settings, self.merge_words = dict(settings or {}), list(merge_words)
        self.shard, self.tasks, self.tries, self.memory, self.temporary = shard, tasks, tries, memory, temporary
        self.fan_in = fan_in or (FAN_IN_SAMPLED if self.settings.get("samples") else FAN_IN)
        if self.fan_in < 2:
            raise RayBuildError("a merge takes at least two parts; --ray-fan-in is 2 or more")


def make_shards(traces, most):
    """Groups of traces, in their order, of `most` bytes or one trace. Traces that are added behind leave all shards but the last as
    they are."""
    shards, room = [], 0
    for path, size in traces:
        if not shards or room + size > most:
            shards.append([])
            room = 0
        shards[-1].append(path)
        room += size
    return shards


class Cluster:
    """What the driver asks of Ray."""

    def __init__(self, address, quiet=True):
        try:
            import ray
        except ImportError as why:
            raise RayBuildError("building on Ray needs the Python package ray: pip install ray") from why
        self.ray, self.own = ray, not ray.is_initialized()
        # Nothing about a user's cluster goes anywhere by our doing.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        if self.own:
            self.knock(address)
            try:
                ray.init(address=address, log_to_driver=not quiet, logging_level="ERROR", include_dashboard=False if address == "local" else None)
            except (ConnectionError, ValueError, RuntimeError) as why:
                raise RayBuildError(f"cannot reach the Ray cluster at {address}: {str(why).splitlines()[0]}") from why
        # The nodes need nothing of this package: its functions travel with the tasks.
        from ray import cloudpickle
        cloudpickle.register_pickle_by_value(places)
        cloudpickle.register_pickle_by_value(work)
        # A task that is lost is done again by the driver, which counts.
        self.function = {name: ray.remote(num_cpus=1, max_retries=0)(getattr(work, name)) for name in ("build_part", "merge_parts")}

    @staticmethod
    def knock(address):
        """Ray itself tries for minutes to reach a port where nobody listens."""
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if not (host and port.isdigit()):
            return
        try:
            socket.create_connection((host.strip("[]"), int(port)), 10).close()
        except (OSError, OverflowError) as why:
            raise RayBuildError(f"there is no Ray cluster at {address}: {why}; ray start --head begins one") from why

    def start(self, what, *arguments):
        return self.function[what].remote(*arguments)

    def wait(self, tasks, seconds):
        """Those of `tasks` that have ended; one at least, unless the time is over."""
        try:
            return self.ray.wait(tasks, num_returns=1, timeout=seconds)[0]
        except (self.ray.exceptions.RayError, ConnectionError) as why:
            raise RayBuildError(f"the Ray cluster is gone: {str(why).strip().splitlines()[0]}; the parts that are done stay") from why

    def result(self, task):
        """(result, None), or (None, why) when the task was lost with its worker or node."""
        errors = self.ray.exceptions
        try:
            return self.ray.get(task), None
        except errors.RayTaskError as why:
            raise RayBuildError(f"a task failed in Python: {str(why).strip().splitlines()[-1]}") from why
        except errors.RayError as why:
            return None, type(why).__name__

    def places(self):
        """Tasks that run at once."""
        return int(self.ray.cluster_resources().get("CPU", 0))

    def cancel(self, task):
        self.ray.cancel(task, force=True)

    def end(self):
        if self.own:
            self.ray.shutdown()


class Task:
    def __init__(self, what, inputs, place):
        self.what, self.inputs, self.place = what, inputs, place
        self.tries, self.result = 0, None


class Driver:
    def __init__(self, options, cluster, say):
        self.options, self.cluster, self.say = options, cluster, say
        self.store = place_of(options.work)
        self.counts, self.made = collections.Counter(), set()
        self.began = time.time()
        version = subprocess.run([options.wane, "version", "--json"], capture_output=True, text=True)
        if version.returncode != 0:
            raise RayBuildError(f"{options.wane} does not run: {version.stderr.strip() or version.returncode}")
        settings = {key: options.settings.get(key) for key in work.OF_A_PART}
        self.job = {"wane": os.path.abspath(options.wane), "version": json.loads(version.stdout)["wane"], "work": self.work_text(),
                    "settings": settings, "memory": options.memory, "temporary": options.temporary,
                    "of_parts": [f"--{key}={options.settings[key]}" for key in ("window", "samples", "vocab-size") if options.settings.get(key)]}

    def work_text(self):
        return self.options.work if places.is_address(self.options.work) else os.path.abspath(self.options.work)

    def parts(self):
        """Names of the parts that the last merge takes."""
        traces = [trace for named in self.options.traces for trace in list_traces(named)]
        shards = make_shards(traces, self.options.shard)
        self.store.prepare()
        self.counts["shards"] = len(shards)
        level = self.run([Task("build_part", shard, i) for i, shard in enumerate(shards)], "parts")
        while len(level) > self.options.fan_in:
            groups = [level[i:i + self.options.fan_in] for i in range(0, len(level), self.options.fan_in)]
            alone = groups.pop() if len(groups[-1]) == 1 else []
            level = self.run([Task("merge_parts", group, i) for i, group in enumerate(groups)], "merges") + alone
        return level

    def run(self, tasks, what):
        waiting, running = collections.deque(tasks), {}
        told = 0.0
        try:
            while waiting or running:
                # As many as there are places, and as many again, so that none is idle; places come and go.
                most = self.options.tasks or 2 * max(1, self.cluster.places())
                while waiting and len(running) < most:
                    task = waiting.popleft()
                    running[self.cluster.start(task.what, self.job, task.inputs)] = task
                for ended in self.cluster.wait(list(running), 1.0):
                    self.take(running.pop(ended), ended, waiting)
                if time.time() - told > 1 or not (waiting or running):
                    told = time.time()
                    self.tell(what, tasks, running)
        finally:
            for left in running:
                self.cluster.cancel(left)
        return [task.result["part"] for task in tasks]

    def take(self, task, ended, waiting):
        result, lost = self.cluster.result(ended)
        task.tries += 1
        if lost is None and "failed" not in result:
            task.result = result
            self.made.add(result["part"])
            self.counts["kept" if result["kept"] else "made"] += 1
            self.counts["records"] += result.get("records", 0)
            self.counts["bytes"] += result["bytes"]
            return
        why = lost or result["failed"]
        again = lost or result.get("again")
        if not again or task.tries >= self.options.tries:
            raise RayBuildError(why if not again else f"{why}; tried {task.tries} times")
        self.counts["repeated"] += 1
        self.say(f"{'a worker was lost' if lost else 'a task failed'} ({why}); {self.named(task)} is done again", None)
        waiting.appendleft(task)

    @staticmethod
    def named(task):
        return f"shard {task.place + 1}" if task.what == "build_part" else f"merge {task.place + 1}"

    def tell(self, what, tasks, running):
        done = sum(task.result is not None for task in tasks)
        kept = sum(task.result is not None and task.result["kept"] for task in tasks)
        more = [f"{len(running)} at once"] if running else []
        more += ["waiting for a node with a free core"] if running and not self.cluster.places() else []
        more += [f"{kept} kept from before"] if kept else []
        more += [f"{self.counts['repeated']} repeated"] if self.counts["repeated"] else []
        rate = self.counts["records"] / max(1e-3, time.time() - self.began)
        more += [f"{rate:,.0f} records/s"] if self.counts["records"] else []
        self.say(f"{what} {done} of {len(tasks)}" + (f" ({', '.join(more)})" if more else ""), done == len(tasks))

    def finish(self, names):
        """The last merge, here; returns its exit code."""
        scratch = tempfile.mkdtemp(prefix="wane-ray-", dir=self.options.temporary)
        try:
            paths = [self.store.bring(name, scratch) for name in names]
            more = ["--memory", str(self.options.memory)] + (["--temporary", self.options.temporary] if self.options.temporary else [])
            sys.stdout.flush()
            code = subprocess.run([self.options.wane, "table", "merge", *self.options.merge_words, *more, *paths]).returncode
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if code == 0:
            self.store.sweep(self.made)
        return code


def plain_say(text, last):
    """Progress: one line that changes on a terminal, else a line every five seconds. `last` None: something happened."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="\n" if last is None or last else "", file=sys.stderr, flush=True)
        return
    now = time.time()
    if last is None or last or now - plain_say.told > 5:
        plain_say.told = now
        print(f"wane: {text}", file=sys.stderr, flush=True)


plain_say.told = 0.0


def build(options, cluster, say=plain_say):
    """Everything, to the last merge. Returns (exit code of that, what was counted)."""
    try:
        driver = Driver(options, cluster, say)
        names = driver.parts()
        return driver.finish(names), dict(driver.counts)
    except PlaceError as why:
        raise RayBuildError(str(why)) from why
    except OSError as why:
        raise RayBuildError(f"{why.filename or options.work}: {why.strerror or why}") from why
