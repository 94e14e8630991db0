# A table of traces, in one go and in parts: the same bytes; the report for people and for programs.
. "$CLI_TESTS/lib.sh"
need python3
python3 "$CLI_TESTS/traces.py" traces 4 1000
"$WANE" table build --log-file traces --vocab-size 1000 --max-entries 50 --phrases --output T.slmt; code
for i in 0 1 2 3; do "$WANE" table build --log-file traces/$i.jsonl --partial --output $i.part; done
"$WANE" table merge 3.part 1.part 0.part 2.part --max-entries 50 --phrases --output U.slmt --report U.json >/dev/null; code
cmp T.slmt U.slmt && echo same
ln -s "$WANE" slmt_builder
./slmt_builder --log-file traces/3.jsonl traces/1.jsonl --log-file traces/0.jsonl --log-file traces/2.jsonl \
    --max-entries 50 --phrases --output V.slmt --json >V.json; code
cmp T.slmt V.slmt && echo same
python3 - <<'END'
import json
u, v = json.load(open("U.json")), json.load(open("V.json"))
for report in (u, v):
    del report["seconds"], report["spilled"]
print(u == v, v["records"], v["entries"], v["left_out"], len(v["hottest"]))
END
