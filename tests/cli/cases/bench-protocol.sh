# The acceptance run, small: stopped and gone on, a bar that is kept and one that is not, and a state of another run.
. "$CLI_TESTS/lib.sh"
need_model
need python3
run() { "$WANE" bench protocol --threads 1 --prompt-tokens 16 --tokens 4 --streams 2 "$@" 2>err; }
echo '{"ttft_p50_ms": 1e6, "tokens_per_second": 0.001}' >easy.json
echo '{"ttft_p50_ms": 0.000001}' >hard.json
run --requests 6 --output r.json --bar easy.json --json >printed; code
python3 - <<'END'
import json
result, printed = json.load(open("r.json")), json.load(open("printed"))
print(sorted(result))
print(sorted(set(result) - set(printed)), len(result["samples"]["ttft_ms"]), result["done"], result["legs"], result["kept"])
print(sorted(result["environment"]), [c["check"] for c in result["environment"]["checks"]])
print([(v["figure"], v["is"], v["kept"]) for v in result["verdict"]])
# A state as a run leaves it that was stopped after two requests, in the middle of a line.
head = {k: result[k] for k in ("protocol", "wane", "engine", "digest", "mode", "head", "draft", "threads", "requests", "streams", "prompt_tokens", "tokens")}
line = {"leg": 1, "ttft_ms": 5.0, "tpot_ms": 1.0, "whole_ms": 8.0, "tokens": 4, "cpu_seconds": 1.0, "engine_seconds": 1.0}
with open("s", "w") as f:
    f.write(json.dumps(head) + "\n" + json.dumps({"n": 4, "seconds": 100.0, **line}) + "\n" + json.dumps({"n": 1, "seconds": 1000.0, **line}) + "\n" + '{"n": 2, "le')
END
run --requests 6 --state s --bar hard.json >text; code
grep -c . s
grep -e 'BROKEN' text | cut -c1-20
sed -n 's/^wane: \(s: .*\)/\1/p' err
run --requests 6 --bar s; code
tail -n 1 err
echo "no table" >t.slmt
run --requests 2 --table t.slmt; code
cat err
run --streams many; code
cat err
ls
