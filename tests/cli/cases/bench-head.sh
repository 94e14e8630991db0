# Both heads give the same tokens; the report has its keys.
. "$CLI_TESTS/lib.sh"
need_model
need python3
"$WANE" bench head --tokens 4 --rounds 1 --sampler default --rows 2 --json >report 2>/dev/null; code
python3 - <<'END'
import json
report = json.load(open("report"))
print(sorted(report))
print(report["divergent"], report["tokens"], report["rows"], report["sampler"])
END
