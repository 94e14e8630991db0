# Two sides get the same questions; a run goes on where it was stopped; a judge says what is right; another kind of run is refused.
. "$CLI_TESTS/lib.sh"
need_model
need python3
printf '{"prompt": "Say yes.", "right": true}\n{"prompt": "Say no.", "right": false}\n' >tasks.jsonl
cat >judge <<'END'
#!/usr/bin/env python3
import json, sys
job = json.load(sys.stdin)
open("asked", "a").write(f"{type(job['reply']).__name__} {job['task']['prompt']}\n")
sys.exit(0 if job["task"]["right"] else 1)
END
bench() {
    "$WANE" bench governor --threads 1 --items 2 --replies 2 --tokens 4 --tasks tasks.jsonl --judge "python3 judge" "$@"
}
bench --output replies.jsonl --json >report; code
python3 - <<'END'
import json
report = json.load(open("report"))
print(sorted(report), report["sides"])
print(report["diversity"]["prompts"], report["diversity"]["replies"], sorted(report["diversity"]["self-BLEU"]))
print(report["tasks"]["items"], report["tasks"]["on"]["value"], report["tasks"]["off"]["value"], report["tasks"]["difference"]["value"])
print(report["loops"]["items"], report["questions"]["items"])
lines = [json.loads(line) for line in open("replies.jsonl")]
print(len(lines), lines[0]["bench"], sorted(lines[1]))
END
sort asked
# The last line is cut, and one is asked again.
python3 -c 'text = open("replies.jsonl").read(); open("replies.jsonl", "w").write(text[:-20])'
bench --output replies.jsonl --json >again 2>/dev/null; code
python3 - <<'END'
import json
print(json.load(open("again")) == json.load(open("report")), sum(1 for line in open("replies.jsonl")))
END
bench --output replies.jsonl --temperature 0.5; code
bench --judge 'exit 7' --prompts none --questions none; code
"$WANE" bench governor --sides on; code
"$WANE" bench governor --sides on,legal; code
"$WANE" bench governor --tasks tasks.jsonl; code
"$WANE" bench governor --prompts none --questions none; code
printf 'What is it?\n' >bad.tsv
"$WANE" bench governor --prompts none --questions bad.tsv; code
# Sides may be domains of the settings file; one that is steered has a profile of its own.
profile=$(grep -l 'smollm2-135m' "$CLI_ROOT"/share/profiles/*.json)
printf '[domain.plain]\nmode = wane\n[domain.own]\nmode = wane\nprofile = %s\n' "$profile" >sides.conf
"$WANE" bench governor -c sides.conf --threads 1 --sides plain,own --prompts none --items 1 --tokens 4 --output sides.jsonl --json >report 2>err; code
python3 - <<'END'
import json
print(json.load(open("report"))["sides"])
print([(side["governor"], side["profile"].endswith(".json")) for side in json.loads(open("sides.jsonl").readline())["sides"]])
END
