# What a setting does, for several of its values.
. "$CLI_TESTS/lib.sh"
need python3
python3 "$CLI_TESTS/traces.py" traces 1 1000
for what in window depth stability entries; do "$WANE" table build --log-file traces --sweep $what; code; done
"$WANE" table build traces --sweep window --json | python3 -c '
import json, sys
rows = json.load(sys.stdin)
print([row["window"] for row in rows], all(row["window_hits"] >= row["right"] for row in rows))'
