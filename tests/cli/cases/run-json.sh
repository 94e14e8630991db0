. "$CLI_TESTS/lib.sh"
need_model
need python3
"$WANE" run -p "Say hello." --temperature 0 --max-tokens 6 --json >out.json
echo "Say hello." | "$WANE" run --temperature 0 -n 6 --json-stream >stream.jsonl
"$WANE" run Say hello. --temperature 0 -n 6 >out.txt
python3 - <<'END'
import json
one = json.load(open("out.json"))
print(sorted(one), sorted(one["timings"]))
print(one["model"], one["finish"], one["stop"], one["reply_tokens"], len(one["tokens"]), one["reused_tokens"])
print(one["prompt_tokens"] > 5, all(value > 0 for value in one["timings"].values()))
lines = [json.loads(line) for line in open("stream.jsonl")]
print([line["event"] for line in lines], sorted(lines[0]), sorted(lines[-1]))
same = json.load(open("out.json"))["text"]
print(open("out.txt").read() == same + "\n")
END
