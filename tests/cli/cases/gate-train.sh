# A gate of made-up votes: the same bytes each time, and what it says of itself.
. "$CLI_TESTS/lib.sh"
need python3
python3 "$CLI_TESTS/votes.py" traces 300
"$WANE" train gate --trace traces --note "made up" --output a.gate; code
"$WANE" train gate --trace traces/0.jsonl --trace traces/1.jsonl --seed 1 --note "made up" --output b.gate --json >b.json; code
cmp a.gate b.gate && echo same
"$WANE" train gate --trace traces --seed 2 --output c.gate >/dev/null; code
cmp -s a.gate c.gate || echo another
"$WANE" gate info a.gate; code
"$WANE" gate info a.gate --json >a.json; code
python3 - <<'END'
import json
a, b = json.load(open("a.json")), json.load(open("b.json"))
print([a[name] == b[name] for name in ("auc", "ece", "coverage", "positions", "kept", "patterns", "bytes")], a["note"])
print(a["auc"] > 0.7, a["ece"] < 0.1, a["coverage"] > 0.9)
END
