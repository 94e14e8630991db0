"""A real Prometheus with what deploy/prometheus ships, but for the targets and for how often it looks: for an incident and for tests."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import free_port  # noqa: E402

SHIPPED = pathlib.Path(__file__).resolve().parent.parent / "deploy" / "prometheus"


class Prometheus:
    """`program` in an empty folder; `every`: how often it looks and evaluates, as its configuration writes durations."""

    def __init__(self, program, folder, targets, every="1s"):
        self.folder, self.port = pathlib.Path(folder), free_port()
        (self.folder / "targets").mkdir(parents=True, exist_ok=True)
        shutil.copy(SHIPPED / "wane.rules.yml", self.folder)
        listed = (SHIPPED / "targets" / "wane.yml").read_text()
        if "[127.0.0.1:8080]" not in listed:
            raise ValueError("deploy/prometheus/targets/wane.yml lists other targets than expected")
        (self.folder / "targets" / "wane.yml").write_text(listed.replace("[127.0.0.1:8080]", json.dumps(list(targets))))
        config, changed = re.subn(r"(_interval: 15s|timeout: 10s)", lambda m: f"{m[0].split(':')[0]}: {every}", (SHIPPED / "prometheus.yml").read_text())
        if changed != 3:
            raise ValueError("deploy/prometheus/prometheus.yml has other intervals than expected")
        (self.folder / "prometheus.yml").write_text(config)
        with open(self.folder / "log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([program, f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                                             f"--web.listen-address=127.0.0.1:{self.port}"], stdout=log, stderr=log)

    def get(self, path, **query):
        """An answer of its API; its own words as `status` where it refuses."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            said = refused.read().decode()
            return json.loads(said) if said.startswith("{") else {"status": said, "data": {}}
        except OSError:
            return {"status": "unreachable", "data": {}}

    def query(self, expression):
        """What it has for this now; nothing while it cannot be asked. ValueError: it is no expression."""
        answer = self.get("query", query=expression)
        if answer["status"] == "error":
            raise ValueError(f"{expression}: {answer}")
        return answer["data"].get("result", [])

    def firing(self):
        return {r["metric"]["alertname"] for r in self.query('ALERTS{alertstate="firing"}')}

    def stop(self, timeout=30):
        """Its exit status."""
        self.process.terminate()
        return self.process.wait(timeout)
