# Two sides of a real model: a table that took a token, and one with a wrong entry beside another head and cache; and what is refused.
. "$CLI_TESTS/lib.sh"
need_model
need python3
ask() { "$WANE" diagnose --threads 1 "$@" -n 4 "Name three colours."; code; }
for i in 1 2 3; do echo '{"prompt": "Name three colours.", "temperature": 0, "max_tokens": 4}'; done >prompts
"$WANE" record --threads 1 --prompts prompts --out traces --no-compress >/dev/null 2>&1
"$WANE" table build --log-file traces --output right.slmt >/dev/null 2>&1
ask --b "--table right.slmt --table-meaning argmax" --temperature 3 --top-k 0 --min-p 0 --seed 1 | grep -e '^first' -e '^cause' -e 'right.slmt' | tail -n 3
# A wrong entry: the second token's first candidate is another one than the model's. Beside it, other cells of the cache.
python3 - <<'END'
import glob, json
for path in glob.glob("traces/*.jsonl"):
    lines = [json.loads(line) for line in open(path)]
    for one in lines:
        if one.get("type") == "token" and one["index"] == 1:
            one["top"][0][0] = 20000
    open(path, "w").write("".join(json.dumps(one) + "\n" for one in lines))
END
"$WANE" table build --log-file traces --output wrong.slmt >/dev/null 2>&1
ask --a "--head dense --kv-type-k q8_0" --b "--table wrong.slmt --table-meaning argmax" --json >json
python3 - <<'END'
import json
text = open("json").read()
report = json.loads(text[:text.rindex("}") + 1])
print(sorted(report), sorted(report["layers"]), report["first"], report["layers"]["kv"]["types"])
print(sorted(report["layers"]["logits"]), report["layers"]["logits"]["largest"] > 0)
print(sorted(report["a"]), report["a"]["wrong_entries"], report["b"]["wrong_entries"])
[entry] = report["b"]["entries"]
print(sorted(entry), entry["hit"], entry["position"], entry["took"], entry["stored"][0]["token"], entry["model"][0]["text"])
END
tail -n 1 json
"$WANE" diagnose "no sides"; code
"$WANE" diagnose --b "--colour red" x; code
"$WANE" diagnose --b "'open" x; code
"$WANE" diagnose --b "words" x; code
"$WANE" diagnose --a "--model missing.gguf" x; code
