. "$CLI_TESTS/lib.sh"
need_model
need python3
"$WANE" bench decode --json --tokens 3 --rounds 1 --streams 1,2 >out.json 2>err || cat err
python3 - <<'END'
import json
all = json.load(open("out.json"))
print(sorted(all))
print(all["bench"], all["model"], all["tokens"], all["rounds"], all["identical"], all["first_difference"])
print(abs(all["ratio"] - all["wane_ms"] / all["engine_ms"]) < 0.01, len(all["engine_rounds_ms"]), len(all["wane_rounds_ms"]))
for one in all["streams"]:
    print(one["streams"], sorted(one), one["engine_ms"] > 0, one["wane_ms"] > 0)
END
