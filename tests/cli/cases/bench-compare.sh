# Two made-up results side by side; and what cannot be compared.
. "$CLI_TESTS/lib.sh"
need python3
python3 - <<'END'
import json
def result(name, ttft, tpot, **more):
    noise = [(i * 37 % 101) / 101 for i in range(400)]
    json.dump({"bench": "protocol", "mode": "off", "model": "m", "streams": 4, **more,
               "environment": {"machine": {"cpus": 2}, "checks": [{"level": more.get("level", "PASSED")}]},
               "samples": {"ttft_ms": [ttft + 10 * x for x in noise], "tpot_ms": [tpot + x for x in noise[::-1]]}}, open(name, "w"))
result("a.json", 100, 10)
result("b.json", 100, 10.5, mode="wane", level="WARNING")
END
"$WANE" bench compare a.json a.json; code
"$WANE" bench compare a.json b.json; code
"$WANE" bench compare a.json b.json --json >report; code
python3 - <<'END'
import json
report = json.load(open("report"))
print(sorted(report), report["not_the_same"], report["warnings_b"])
for m in report["metrics"]:
    print(m["metric"], m["real"], m["low"] <= m["difference"] <= m["high"], m["ratio_low"] <= m["ratio"] <= m["ratio_high"])
END
"$WANE" bench compare a.json; code
"$WANE" bench compare a.json missing.json; code
echo '{"bench": "layer"}' >layer.json && "$WANE" bench compare layer.json a.json; code
"$WANE" bench race; code
