"""Servers for the tests. Each scripted one must end with status 0: a sanitizer's finding fails its test."""
import os

import pytest

from support import SCRIPT_SERVER, start_real, start_scripted, stop_real


def pytest_configure(config):
    """One of several workers keeps to one processor, and so do its servers: threads that spin on both slow each other."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is not None and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})


def threads():
    """For a real server: replies as one thread computes them; prompts by two, where this may use two processors."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ["--threads", "1", "--batch-threads", str(min(2, cores))]


@pytest.fixture
def scripted(tmp_path):
    """A function that starts a server on the scripted engine with the given fields; see script_server.c."""
    if not os.path.exists(SCRIPT_SERVER):
        pytest.skip(f"no {SCRIPT_SERVER}: build first")
    servers = []

    def start(**setup):
        server = start_scripted(str(tmp_path), f"server{len(servers)}", **setup)
        servers.append(server)
        return server

    yield start
    for server in servers:
        status = server.terminate()
        server.process.stdout.close()
        assert status == 0, open(server.log).read()[-4000:]


@pytest.fixture(scope="session")
def real(tmp_path_factory):
    """`wane serve` with the default model and nothing that changes answers."""
    given = os.environ.get("WANE_TEST_SERVE")
    options = given.split() if given else ["--slots", "4", "--context", "2048", *threads()]
    server = start_real(tmp_path_factory.mktemp("real"), *options)
    yield server
    stop_real(server)


@pytest.fixture(scope="module")
def real_with(tmp_path_factory):
    """A function that starts one with options of its own; they end with the module."""
    servers = []

    def start(*more):
        options = ["--context", "1024", *threads(), "--draft-practice", "0", *more]
        servers.append(start_real(tmp_path_factory.mktemp("own"), *options))
        return servers[-1]

    yield start
    for server in servers:
        stop_real(server)
