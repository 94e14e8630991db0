# A short tuning: what the profile, the report and the plot hold; then labels by spans.
. "$CLI_TESTS/lib.sh"
need python3
need_model
sed -n '1,8p;14,16p' "$CLI_ROOT/share/tune/mixed.jsonl" >text.jsonl
"$WANE" tune --threads 1 --data text.jsonl --domain tech --seed 3 --output a.json --plot a.svg --json >a.report; code
python3 - <<'END'
import json, xml.dom.minidom
profile, report = json.load(open("a.json")), json.load(open("a.report"))
print(profile["signal"], profile["layer"], profile["sign"], profile["domain"], profile["low_kurtosis"] < profile["peak_kurtosis"])
print(profile["evidence"]["command"])
print(sorted({row["signal"] for row in report["signals"]}), len(report["signals"]), report["profile"]["signal"])
best = next(row for row in report["signals"] if row["signal"] == "entropy")
print(best["auc"]["low"] < best["auc"]["value"] < best["auc"]["high"] < 0.5 < best["held_out"]["low"])
print(report["own"]["bits"]["low"] > 0, report["better"]["low"] > 0)
svg = xml.dom.minidom.parse("a.svg")
print(svg.documentElement.tagName, "http" in open("a.svg").read().replace("http://www.w3.org/2000/svg", ""))
END
# Labels by spans: short words are called right, long ones wrong.
python3 - <<'END'
import json
with open("spans.jsonl", "w") as file:
    for line in open("text.jsonl"):
        text = json.loads(line)["text"].encode()
        spans, at = [], 0
        for word in text.split(b" "):
            if word:
                spans.append({"from": at, "to": at + len(word), "right": len(word) < 5})
            at += len(word) + 1
        file.write(json.dumps({"text": text.decode(), "spans": spans}) + "\n")
END
"$WANE" tune --threads 1 --data spans.jsonl; code
