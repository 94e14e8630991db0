"""
vLLM's own server with wane's middleware and processor: an instruction changes what it must, a wrong one is a 400, replies are recorded and audited under the
id that the client got, and /metrics has wane's numbers beside vLLM's.
"""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

import wane
from wane import audit, trace

MODEL = os.environ["WANE_VLLM_MODEL"]
SETTINGS = {"mode": "off", "request_modes": ["wane"], "quality": {"fuse": "loop"}, "domains": {"finance": {"clamp": 17, "fallback": "none"}}, "tenants": "key"}


class Server:
    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.traces, self.audit = folder / "traces", folder / "audit.db"
        settings = {**SETTINGS, "record": {"folder": str(self.traces), "plain": True}, "audit": {"path": str(self.audit)}}
        self.log = open(folder / "log", "w")
        env = {name: value for name, value in os.environ.items() if name != "VLLM_ENABLE_V1_MULTIPROCESSING"}
        self.process = subprocess.Popen([sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", MODEL, "--served-model-name", "m", "--port", str(self.port), "--host", "127.0.0.1",
                                         "--enforce-eager", "--max-model-len", "1024", "--max-num-seqs", "4",
                                         "--middleware", "wane_vllm.system_text.SystemText"],
                                        env={**env, "WANE_VLLM": json.dumps(settings)}, stdout=self.log, stderr=subprocess.STDOUT,
                                        start_new_session=True)

    def wait(self, seconds=240):
        end = time.time() + seconds
        while time.time() < end:
            assert self.process.poll() is None, pathlib.Path(self.log.name).read_text()[-3000:]
            try:
                self.get("/health")
                return self
            except OSError:
                time.sleep(1)
        raise AssertionError("vLLM did not begin to answer")

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            return answer.read().decode()

    def ask(self, path="/v1/chat/completions", headers=(), **body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps({"model": "m", "max_tokens": 12, **body}).encode(),
                                         {"content-type": "application/json", **dict(headers)})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            return refused.code, json.loads(refused.read())

    def close(self):
        if self.process.poll() is not None:
            return
        os.killpg(self.process.pid, signal.SIGINT)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)
        self.log.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = Server(tmp_path_factory.mktemp("server"))
    try:
        yield made.wait()
    finally:
        made.close()


USER = {"role": "user", "content": "Name three colours."}


def record_of(server, reply):
    """The audit record of a reply, by the id that its client got."""
    name = reply["id"].split("-", 1)[1]
    server.ask(messages=[USER], max_tokens=1)  # an end is seen when the next step begins
    for _ in range(50):
        found = [record for record in audit.read(server.audit, event="request") if record["request"] == name]
        if found:
            return found[0]
        time.sleep(0.2)
    raise AssertionError(f"no record of {name}")


def test_an_instruction_changes_what_it_must(server):
    ssp = {"role": "system", "content": "SSP:domain=legal;confidence=high;fallback=transparent\nYou are a lawyer."}
    status, plain = server.ask(messages=[{"role": "system", "content": "You are a lawyer."}, USER], temperature=0)
    assert status == 200
    status, reply = server.ask(messages=[ssp, USER], temperature=0)
    assert status == 200 and reply["usage"]["prompt_tokens"] == plain["usage"]["prompt_tokens"]  # the line is no part of the prompt
    record = record_of(server, reply)
    assert record["mode"] == "wane" and record["status"] == 200 and record["reply_tokens"] == reply["usage"]["completion_tokens"]
    assert record["policy"] == {"ssp": {"domain": "legal", "confidence": "high", "fallback": "transparent", "settings": "table"}}
    assert record_of(server, plain)["mode"] == "off"
    status, reply = server.ask(messages=[USER], vllm_xargs={"wane_ssp": "domain=finance"})
    assert status == 200 and record_of(server, reply)["policy"]["ssp"]["settings"] == "server"
    status, reply = server.ask("/v1/completions", prompt="Once upon a time", vllm_xargs={"wane_mode": "wane"}, seed=3)
    assert status == 200 and record_of(server, reply)["mode"] == "wane" if "-0" not in reply["id"] else status == 200


@pytest.mark.parametrize("body, word", [
    ({"messages": [{"role": "system", "content": "SSP:domain=legl"}, USER]}, "did you mean legal"),
    ({"messages": [USER], "vllm_xargs": {"wane_ssp": "confidence=enormous"}}, "confidence"),
    ({"messages": [USER], "vllm_xargs": {"wane_mode": "legacy"}}, "may not ask"),
    ({"messages": [USER], "vllm_xargs": {"wane_tenant": "anna"}}, "key"),
])
def test_a_wrong_one_is_a_400(server, body, word):
    status, answer = server.ask(**body)
    assert status == 400 and word in answer["error"]["message"]


def test_vllm_itself_refuses_it(server):
    """Past the middleware: a path that it does not look at, with the same check in vLLM."""
    status, answer = server.ask("/v1/responses", input="Name three colours.", vllm_xargs={"wane_ssp": "domain=legl"})
    assert status == 400 and "did you mean legal" in json.dumps(answer)


def test_numbers_beside_those_of_vllm(server):
    status, _ = server.ask(messages=[USER], vllm_xargs={"wane_mode": "wane"}, headers={"authorization": "Bearer a"}.items())
    assert status == 200
    server.ask(messages=[USER], max_tokens=1)
    page = server.get("/metrics")
    assert "vllm:num_requests_running" in page
    values = {name: float(value) for name, value in re.findall(r'^(wane_[a-z_]+(?:\{[^}]*\})?|sfcl_[a-z_{}="]+) ([0-9.e+]+)$', page, re.M)}
    assert values['wane_mode_requests_total{mode="wane"}'] >= 3 and values["wane_corrected_tokens_total"] > 20 and values["wane_ssp_requests_total"] >= 2


def test_traces_are_those_of_wane(server):
    server.close()
    counted = trace.count(server.traces, strictly=True)
    assert counted["requests"] > 5 and counted["tokens"] > 50
    origins = {record["tokenizer"] for record in trace.records(server.traces) if "tokenizer" in record}
    gguf = os.environ.get("WANE_VLLM_GGUF")
    assert len(origins) == 1
    assert audit.verify(server.audit).fault == "whole"
    if gguf:  # a table of these traces is one that wane serve can use, where the model is named as its own
        report = wane.Table.build([server.traces], server.traces.parent / "t.slmt", min_seen=1, min_stability=0.5)
        assert report.records > 50
