"""Servers for the tests. Each scripted one must end with status 0: a sanitizer's finding fails its test."""
import os

import pytest

from support import SCRIPT_SERVER, start_real, start_scripted, stop_real


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
    options = os.environ.get("WANE_TEST_SERVE", "--slots 4 --context 2048 --threads 1 --batch-threads 2").split()
    server = start_real(tmp_path_factory.mktemp("real"), *options)
    yield server
    stop_real(server)


@pytest.fixture(scope="module")
def real_with(tmp_path_factory):
    """A function that starts one with options of its own; they end with the module."""
    servers = []

    def start(*more):
        options = ["--context", "1024", "--threads", "1", "--batch-threads", "2", "--draft-practice", "0", *more]
        servers.append(start_real(tmp_path_factory.mktemp("own"), *options))
        return servers[-1]

    yield start
    for server in servers:
        stop_real(server)
