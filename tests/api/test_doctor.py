"""What the doctor and the reckoning of cost make of a running server: ready, asking for a key, gone."""
import json
import os
import subprocess

from support import WANE, messages

HI = {"match": "hi", "text": "hello"}


def run(*words, key=None):
    # No model is needed to look at a server: the name of one that is not there keeps the look short.
    env = {**os.environ, "WANE_CACHE": "/nonexistent", "WANE_CONFIG": ""}
    env.pop("WANE_KEY", None)
    if key:
        env["WANE_KEY"] = key
    return subprocess.run([WANE, *words], capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL)


def server_line(url, key=None):
    report = json.loads(run("doctor", "--json", "--port", "0", "--url", url, key=key).stdout)
    [line] = [check for check in report["checks"] if check["check"] == "SERVER"]
    return line


def test_ready_and_gone(scripted):
    server = scripted(replies=[HI])
    assert server.post("/v1/messages", messages("hi")).status == 200
    line = server_line(server.url)
    assert line["level"] == "PASSED" and "1 replies" in line["found"] and server.url in line["found"]
    assert server_line(server.url + "/")["level"] == "PASSED"
    assert server.terminate() == 0
    line = server_line(server.url)
    assert line["level"] == "CRITICAL" and line["next"]


def test_key(scripted, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("ada physics secret-key-of-mine-1234\n")
    keys.chmod(0o600)
    server = scripted(replies=[HI], key_file=str(keys))
    line = server_line(server.url)
    assert line["level"] == "CRITICAL" and "key" in line["found"] and "WANE_KEY" in line["next"]
    assert server_line(server.url, key="secret-key-of-mine-1234")["level"] == "PASSED"


def test_cost_of_a_server(scripted, tmp_path):
    server = scripted(replies=[HI])
    nothing = run("cost", "--machine-price", "1", "--url", server.url)
    assert nothing.returncode == 1 and "no tokens yet" in nothing.stderr
    assert server.post("/v1/messages", messages("hi")).status == 200
    live = json.loads(run("cost", "--machine-price", "1", "--json", "--url", server.url).stdout)
    [mode] = live["modes"]
    assert mode["mode"] == "live" and mode["machine"] > 0 and 0 < mode["utilisation"] <= 1
    saved = tmp_path / "metrics"
    saved.write_bytes(server.request("GET", "/metrics").body)
    again = json.loads(run("cost", "--machine-price", "1", "--json", f"saved={saved}").stdout)
    assert again["modes"][0]["mode"] == "saved"
    assert abs(again["modes"][0]["tokens_per_second"] - mode["tokens_per_second"]) < 1e-6 * mode["tokens_per_second"]
