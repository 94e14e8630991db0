#!/usr/bin/env python3
"""governor.py - what states recorded signals lead to, worked out a second time, for tests/unit/test_governor.c.

    tests/vectors/governor.py [RECORDED.tsv] > tests/vectors/governor_states.inc

RECORDED.tsv has a token a line: kurtosis, spread, entropy, margin, with tabs between; bench/fuse.c writes it. Those that are there are of SmolLM2-135M,
layer 29, reading a piece of code and a piece of a contract (bench/clean_texts.py). Without the file, the signals
that stand in the file already are kept. Each profile is walked over each recording; this program knows the rules in its own words, not the library's.
"""
import math
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = HERE / "governor_states.inc"

PROFILES = [  # signal, sign, peak, low, spread, jerk, locked tokens, fallback, stability
    ("kurtosis", 1, 4.2, 2.1, 0.08, 0.15, 3, 0.0, 1.0),  # the original's
    ("kurtosis", -1, -4.5, -9.0, 0.0, 0.0, 3, 0.6, 1.0),
    ("kurtosis", 1, 9.0, 4.5, 0.3, 6.0, 2, 0.0, 1.5),
    ("entropy", -1, -0.2, -2.5, 0.0, 5.0, 3, 0.0, 1.0),
    ("entropy", -1, -0.5, -1.0, 0.0, 0.0, 1, 0.0, 2.0),
    ("margin", 1, 3.0, 0.5, 0.0, 0.0, 4, 0.9, 0.5),
    ("margin", 1, math.inf, 1.0, 0.0, 8.0, 3, 0.0, 2.0),
]
TEMPERATURE = {"L": 0.3, "E": 0.85, "P": 0.5}


def walk(profile, rows):
    """A letter a token: N, L, E, P; f for N with the fallback temperature."""
    signal, sign, peak, low, spread, jerk, hold, fallback, stability = profile
    column = ["kurtosis", "spread", "entropy", "margin"].index(signal)
    if math.isfinite(peak) and math.isfinite(low):
        centre = (peak + low) / 2
        peak, low = centre + stability * (peak - centre), centre + stability * (low - centre)
    elif math.isfinite(low):
        low -= (stability - 1) * abs(low)
    jerk *= stability
    states, history, locked = "", [], 0
    for row in rows:
        value = sign * row[column]
        if math.isnan(value):
            history = []
            if locked > 0:
                locked -= 1
                states += "L"
            else:
                states += "f" if fallback > 0 else "N"
            continue
        history.append(value)
        third = history[-1] - 3 * history[-2] + 3 * history[-3] - history[-4] if len(history) > 3 else 0
        if jerk > 0 and abs(third) > jerk:
            locked = 0
            states += "P"
        elif value > peak and (spread == 0 or row[1] < spread):
            locked = hold - 1
            states += "L"
        elif locked > 0:
            locked -= 1
            states += "L"
        else:
            states += "E" if value < low else "N"
    return states


def made_up():
    """Every sight after every state, holes in between: a walk by a small generator of its own."""
    rows, x = [], 12345
    for i in range(240):
        x = (1103515245 * x + 12345) % 2**31
        u = x / 2**31
        x = (1103515245 * x + 12345) % 2**31
        v = x / 2**31
        hole = i % 37 in (20, 21)
        calm = 60 <= i < 100  # nothing turns
        kurtosis = math.nan if hole else round(3 + (0.02 if calm else 4) * (u - 0.5) + 2.5 * math.sin(i / 9), 3)
        rows.append((kurtosis, round(0.03 + 0.1 * v, 3), round(3 * u * v, 3), round(6 * (1 - u) * v, 3)))
    return rows


def number(text):
    return math.nan if text.strip() == "NAN" else float(text.rstrip("f"))


def recorded(path):
    if path:
        lines = [line.split("\t") for line in Path(path).read_text().splitlines() if line and line[0] != "#"]
        return [tuple(math.nan if c == "nan" else round(float(c), 4) for c in line) for line in lines]
    if not OUT.exists():
        return []
    body = OUT.read_text().split("recorded_signals[] = {")[1].split("};")[0]
    return [tuple(number(c) for c in row.split(",")[:4]) for row in re.findall(r"\{([^{}]*)\}", body)]


def c(value):
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    text = repr(float(value))
    return text + "f"


def main():
    sets = [("made_up", made_up()), ("recorded", recorded(sys.argv[1] if len(sys.argv) > 1 else None))]
    sets = [(name, rows) for name, rows in sets if rows]
    out = ["/*", " * governor_states.inc - signals, token by token, and the states that profiles lead them to. Written by governor.py beside it, which knows",
           " * the rules in its own words. N normal, L locked, E explore, P protect; f: normal, at the fallback temperature.", " */",
           "/* clang-format off */"]
    for name, rows in sets:
        out.append(f"static const wane_signals {name}_signals[] = {{")
        out += [f"    {{{c(k)}, {c(s)}, {c(e)}, {c(m)}, NAN}}," for k, s, e, m in rows]
        out.append("};")
    out.append("static const struct replay replays[] = {")
    for name, rows in sets:
        for p in PROFILES:
            signal, sign, peak, low, spread, jerk, hold, fallback, stability = p
            out.append(f"    {{{name}_signals, {len(rows)}, WANE_SIGNAL_{signal.upper()}, {sign}, {c(peak)}, {c(low)}, {c(spread)}, {c(jerk)}, {hold}, "
                       f"{c(fallback)}, {c(stability)},")
            states = walk(p, rows)
            pieces = [states[i:i + 100] for i in range(0, len(states), 100)]
            out += [f'     "{piece}"' for piece in pieces]
            out[-1] += "},"
    out.append("};")
    print("\n".join(out))


main()
