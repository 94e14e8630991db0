# A repetition changes no token; the report has its keys.
. "$CLI_TESTS/lib.sh"
need_model
need python3
"$WANE" bench memo --tokens 4 --rounds 1 --sampler default --json >report 2>/dev/null; code
python3 - <<'END'
import json
report = json.load(open("report"))
print(sorted(report))
print(report["divergent"], report["rounds"], report["sampler"], report["hits"], report["misses"], report["evictions"])
END
"$WANE" bench memo --memo 0; code
"$WANE" bench memo --memo 12 --tokens 4 2>&1 | grep -v busy
