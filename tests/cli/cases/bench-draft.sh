# Drafts change no token; the report has its keys.
. "$CLI_TESTS/lib.sh"
need_model
need python3
"$WANE" bench draft --tokens 4 --rounds 1 --json >report 2>/dev/null; code
python3 - <<'END'
import json
report = json.load(open("report"))
print(sorted(report))
print(report["divergent"], report["rounds"], report["sampler"], [one["kind"] for one in report["by_prompt"]])
END
"$WANE" bench draft --draft off; code
