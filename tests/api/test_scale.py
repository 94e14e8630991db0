"""bench/fleet.py: its arithmetic against sums without shortcuts and against made-up days; and that docs/scale.md shows what it prints."""
import importlib.util
import json
import math
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "bench" / "fleet.py"
spec = importlib.util.spec_from_file_location("fleet", PROGRAM)
fleet = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fleet)


def run(*words, code=0):
    done = subprocess.run([sys.executable, str(PROGRAM), *map(str, words)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("s, q, most, tokens, entries", [(1.1, 5, 20000, 20000, 500), (0.8, 0.1, 6000, 30000, 3000), (1.0, 50, 20000, 3000, None),
                                                         (2.5, 0, 20000, 100000, 50)])
def test_sums_without_shortcuts(s, q, most, tokens, entries):
    """Each rank by itself, Poisson's terms by lgamma."""
    weights = [(r + q) ** -s for r in range(1, most + 1)]
    whole = math.fsum(weights)
    shares = [w / whole for w in weights]

    def at_least(mean, k):
        return 1 - math.fsum(math.exp(-mean + i * math.log(mean) - math.lgamma(i + 1)) for i in range(k))
    said = fleet.expected(fleet.Law(s, q, most), tokens, entries)
    assert said["different"] == pytest.approx(math.fsum(1 - math.exp(-tokens * p) for p in shares), rel=1e-3)
    assert said["again"] == pytest.approx(math.fsum(at_least(tokens * p, 2) for p in shares), rel=1e-3)
    cut = said["cut"]
    full, fewer = (math.fsum(at_least(tokens * p, k) for p in shares) for k in (cut, cut - 1))
    assert entries is None or full <= entries * 1.001 and entries <= fewer * 1.001 and said["held"] == entries
    part = 0 if entries is None else (entries - full) / (fewer - full)
    known = math.fsum(p * (at_least(tokens * p, cut) + part * (at_least(tokens * p, cut - 1) - at_least(tokens * p, cut))) for p in shares)
    assert said["known"] == pytest.approx(known, rel=2e-3)


@pytest.mark.parametrize("mean", [1e-9, 0.3, 5, 80, 450, 5000, 1e8])
def test_tail(mean):
    """Falls from 1 to 0 around the mean, also where it is worked out in another way."""
    spread = max(3, 6 * math.sqrt(mean))
    values = [fleet.tail(mean, max(0, round(mean + i * spread / 10))) for i in range(-30, 31)]
    assert values == sorted(values, reverse=True) and values[0] == pytest.approx(1) and values[-1] == pytest.approx(0, abs=1e-6)
    if mean > 400:
        assert fleet.tail(mean, round(mean)) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("words", [["--seed", 2], ["--traffic", "votes", "--seed", 3], ["--samples", 8000, "--seed", 4], ["--shards", 1, "--entries", 100],
                                   ["--traffic", "0.8,0.05,5000", "--entries", 100000]])
def test_made_up_days(words):
    said = json.loads(run("simulate", "--tokens", 30000, "--json", *words))
    assert said["wrong"] == [] and len(said["rows"]) == 6


def test_a_wrong_expectation_is_told(monkeypatch, capsys):
    real = fleet.expected
    monkeypatch.setattr(fleet, "expected", lambda *words: {**real(*words), "again": real(*words)["again"] * 1.2})
    monkeypatch.setattr(sys, "argv", ["fleet.py", "simulate", "--tokens", "30000"])
    assert fleet.main() == 1
    assert "further off than chance: seen twice" in capsys.readouterr().out


def test_fit_finds_the_law(tmp_path):
    """Traces drawn by a law, 40 requests of 50 tokens, a tenant's keys apart from another's; a vote's other answers do not count."""
    traffic, lines = fleet.Traffic(fleet.Law(1.1, 5, 1e6), 7), []
    for request in range(40):
        lines.append({"type": "request", "id": f"r{request}"})
        for rank in (traffic.draw() for _ in range(50)):
            lines.append({"type": "token", "id": f"r{request}", "tenant": f"{rank % 2}", "last": [9, rank // 50000, rank // 200 % 250, rank % 200]})
    lines.append({"type": "request", "id": "other", "vote": {"of": "r1", "answer": 1}})
    lines += [{"type": "token", "id": "other", "tenant": "0", "last": [1, 2, 3]}] * 500
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = json.loads(run("fit", tmp_path, "--ranks", "1e6", "--json"))
    assert said["recorded"]["records"] == 2000
    assert said["s"] == pytest.approx(1.1, abs=0.15)
    for (_, different, _), (_, expected, _) in zip(said["recorded"]["points"], said["law"]["points"]):
        assert expected == pytest.approx(different, rel=0.1)
    assert said["law"]["known"] == pytest.approx(said["recorded"]["known"], abs=0.03)


@pytest.mark.parametrize("words, match", [(["fit"], "fit takes traces"), (["simulate", "x"], "the others none"), (["arithmetic", "--traffic", "nobody"], "is none of"),
                                          (["arithmetic", "--traffic", "0,1,5"], "s must be above 0"), (["simulate", "--tokens", "1"], "at least 100")])
def test_what_is_refused(words, match):
    done = subprocess.run([sys.executable, str(PROGRAM), *words], capture_output=True, text=True)
    assert done.returncode != 0 and match in done.stderr


def test_the_page_shows_what_is_printed():
    blocks = re.findall(r"(?ms)^```\n\$ (bench/fleet\.py [^\n]*)\n(.*?)^```", (ROOT / "docs/scale.md").read_text())
    assert len([command for command, _ in blocks if " arithmetic" in command]) == 2 and len(blocks) >= 3
    for command, shown in blocks:
        if " fit" not in command:  # its traces are not here
            assert shown.strip() == run(*command.split()[1:]).strip(), command
