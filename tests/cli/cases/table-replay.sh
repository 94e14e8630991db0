# Recorded requests run again without the table and with it: the same tokens, hits by kind, drafts.
. "$CLI_TESTS/lib.sh"
need_model
need python3
cat >prompts.txt <<'END'
{"prompt": "Name three colours.", "kind": "single"}
{"prompt": "Please name three colours.", "kind": "single"}
{"prompt": "Name three colours.", "kind": "code"}
{"prompt": "Name three colours.", "kind": "multi", "temperature": 0.9, "seed": 3}
{"prompt": "Name three colours.", "kind": "summary", "tenant": "lab"}
END
"$WANE" record --prompts prompts.txt --temperature 0 -n 16 --threads 1 >/dev/null
"$WANE" table build --log-file traces --model smollm2-135m --output T.slmt >/dev/null
"$WANE" table replay --log-file traces --table T.slmt --threads 1; code
"$WANE" table replay traces --table T.slmt --threads 1 --tenant lab --requests 5 --draft off --json >replay.json; code
python3 - <<'END'
import json
r = json.load(open("replay.json"))
print(sorted(r))
print(r["agreement"], r["requests"], r["divergent"], r["left_out"], r["tokens"] == r["equal"])
hits = r["hit_rate"]
print(sorted(hits), [abs(sum(h[k] for k in ("strict", "rank", "miss", "absent")) - 1) < 1e-9 for h in hits.values()])
print(hits["code"]["strict"] > 0.9, {name: d["proposed"] for name, d in r["drafts"].items()})
END
"$WANE" table replay traces; code
"$WANE" table replay --table T.slmt; code
"$WANE" table replay traces --table missing.slmt; code
"$WANE" table replay missing --table T.slmt; code
