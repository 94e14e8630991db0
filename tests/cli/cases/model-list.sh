. "$CLI_TESTS/lib.sh"
need python3
mkdir models
printf x >models/mine.gguf
export WANE_CACHE="$PWD"
"$WANE" model list
"$WANE" model list --json | python3 -c '
import json, sys
for one in json.load(sys.stdin): print(one["name"], one["state"], one["default"], one["path"] is not None)'
"$WANE" model path mine | sed "s|$PWD|HERE|"
"$WANE" model get mine | sed "s|$PWD|HERE|"
