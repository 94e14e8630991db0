. "$CLI_TESTS/lib.sh"
need_model
need python3
"$WANE" serve --port 0 --ready-file ready --json --context 512 2>log &
server=$!
trap 'kill -9 $server 2>/dev/null' EXIT
wait_for ready || { cat log; exit 1; }
kill -INT $server 2>/dev/null || :
kill -TERM $server
wait $server; code
python3 - <<'END'
import json
lines = [json.loads(line) for line in open("log")]
ready = [line for line in lines if line.get("event") == "ready"]
print(len(ready), sorted(ready[0]), ready[0]["url"].startswith("http://127.0.0.1:"), ready[0]["port"] > 0)
print(all({"time", "level", "message"} <= set(line) for line in lines))
END
