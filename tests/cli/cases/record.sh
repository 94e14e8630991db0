# Prompts of a file, recorded with the default model: a greedy token is the best candidate.
. "$CLI_TESTS/lib.sh"
need_model
need python3
cat >prompts.txt <<'END'
Name three colours.
{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "So?"}], "max_tokens": 5}
{"prompt": "Say cafe\u0301 in one word", "kind": "code", "temperature": 1.2, "seed": 7, "stop": ["zzz"], "tenant": "lab"}
END
"$WANE" record --prompts prompts.txt --temperature 0 -n 8 --no-compress; code
"$WANE" record --prompts prompts.txt --temperature 0 -n 8 --out more --json >summary.json; code
"$WANE" trace stats more; code
python3 - <<'END'
import glob, json
records = [json.loads(line) for line in open(glob.glob("traces/*.jsonl")[0])]
requests = {r["id"]: r for r in records if r["type"] == "request"}
print([(r["kind"], r["max_tokens"], r["sampling"]["temperature"], r["stops"]) for r in requests.values()])
tokens = [r for r in records if r["type"] == "token"]
greedy = [r for r in tokens if requests[r["id"]]["sampling"]["temperature"] == 0]
print(all(r["top"][0][0] == r["token"] and len(r["top"]) == 64 for r in greedy), len(greedy))
for id, request in requests.items():
    context = list(request["prompt"])
    for r in (r for r in tokens if r["id"] == id):
        assert r["last"] == context[-10:] and r["position"] == len(context)
        context.append(r["token"])
print(len({r["tenant"] for r in requests.values()}), {k: v for k, v in json.load(open("summary.json")).items() if k in ("prompts", "requests", "dropped_tokens", "left_out")})
END
