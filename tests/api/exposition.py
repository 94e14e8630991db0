"""Prometheus' text format, read strictly: what a lenient scraper would pass over fails here. And the tools of that trade."""
import math
import os
import re
import shutil

import pytest

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
TYPES = {"counter", "gauge", "histogram", "summary"}
ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))


def tool(name):
    """The path of a program that scripts/deps brings."""
    cache = os.environ.get("WANE_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "wane")
    found = shutil.which(name) or shutil.which(name, path=os.path.join(cache, "tools"))
    if not found:
        pytest.fail(f"there is no {name}: scripts/deps test brings it")
    return found


class Family:
    def __init__(self, name, text):
        self.name, self.help, self.type, self.samples = name, text, None, {}

    def labels(self):
        """All labels' names, but those of the format itself."""
        return {key for _, labels in self.samples for key, _ in labels} - {"le", "quantile"}


def read_labels(text):
    labels = []
    while text:
        found = LABEL.match(text)
        assert found, f"labels: {text!r}"
        labels.append((found[1], found[2]))
        text = text[found.end():]
        assert text or found[3] == "", "a comma at the end"
    names = [name for name, _ in labels]
    assert len(set(names)) == len(names), f"a label twice: {names}"
    return tuple(labels)


def read_sample(line, family):
    found = re.fullmatch(r"([^{ ]+)(?:\{(.*)\})? (\S+)", line)
    assert found, f"not a sample: {line!r}"
    name, value = found[1], float(found[3])
    allowed = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}.get(family.type, ("",))
    assert name in {family.name + end for end in allowed}, f"{name} stands below {family.name}"
    assert math.isfinite(value), line
    key = (name, read_labels(found[2] or ""))
    assert key not in family.samples, f"twice: {line}"
    family.samples[key] = value


def check_histogram(family):
    rows = {}
    for (name, labels), value in family.samples.items():
        rest = tuple(pair for pair in labels if pair[0] != "le")
        row = rows.setdefault(rest, {"buckets": []})
        if name.endswith("_bucket"):
            row["buckets"].append((float(dict(labels)["le"]), value))
        else:
            row[name[len(family.name):]] = value
    for row in rows.values():
        bounds, counts = zip(*row["buckets"])
        assert list(bounds) == sorted(set(bounds)) and bounds[-1] == math.inf, bounds
        assert list(counts) == sorted(counts) and counts[-1] == row["_count"], counts
        assert row["_sum"] >= 0


def parse(text):
    """The families by name. Each has HELP, then TYPE, then its samples, all together and once."""
    assert text.endswith("\n") and "\r" not in text
    families, family = {}, None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            _, _, name, words = line.split(" ", 3)
            assert NAME.fullmatch(name) and name not in families, line
            assert words.strip() == words != "", line
            family = families[name] = Family(name, words)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert family and name == family.name and family.type is None and not family.samples, line
            assert kind in TYPES, line
            family.type = kind
        else:
            assert family and family.type, line
            read_sample(line, family)
    for family in families.values():
        assert family.type, family.name
        if family.type == "histogram":
            check_histogram(family)
        if family.type in ("counter", "histogram"):
            assert all(value >= 0 for value in family.samples.values()), family.name
    return families


def scrape(server, headers=None):
    reply = server.get("/metrics", headers=headers)
    assert reply.status == 200, reply.body
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parse(reply.body.decode("utf-8", "strict"))


def series(families, kinds=("counter",)):
    """Every series of these types; of histograms and summaries all but what may fall."""
    return {key: value for family in families.values() if family.type in kinds for key, value in family.samples.items()
            if not any(label == "quantile" for label, _ in key[1])}


def documented():
    """docs/metrics.md: name -> (type, unit, labels, meaning)."""
    with open(os.path.join(ROOT, "docs", "metrics.md"), encoding="utf-8") as file:
        text = file.read()
    table = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")] if line.startswith("| `") else []
        if len(cells) == 4:  # no label: the cell is empty
            cells = [cell.strip() for cell in re.split(r"\|", line.strip().strip("|"), maxsplit=4)]
        if len(cells) != 5 or not re.fullmatch(r"`[a-z0-9_]+`", cells[0]):
            continue
        name = cells[0].strip("`")
        assert name not in table, f"docs/metrics.md has {name} twice"
        table[name] = (cells[1], cells[2], set(re.findall(r"`(\w+)`", cells[3])), cells[4])
    assert len(table) > 100
    return table
