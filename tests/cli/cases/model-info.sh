. "$CLI_TESTS/lib.sh"
need_model
need python3
"$WANE" model info smollm2-135m
"$WANE" model info "$WANE_CACHE/models/smollm2-135m.gguf" --json | python3 -c '
import json, sys
all = json.load(sys.stdin)
print(sorted(all), sorted(all["head"]))'
