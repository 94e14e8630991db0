# A rollout in its file: planned by settings and by a plan, stepped by hand, kept by another plan; and what is refused.
. "$CLI_TESTS/lib.sh"
need python3
dates() { sed 's/since 20[-0-9T:]*Z/since DATE/'; }
"$WANE" rollout plan --rollout r.json --rollout-features table,gate --rollout-users 0.1,0.5 --rollout-lines sales,support --rollout-hold 60 --rollout-requests 5; code
"$WANE" rollout start table --rollout r.json | dates
"$WANE" rollout advance --rollout r.json | dates
WANE_ROLLOUT=r.json "$WANE" rollout back table | dates | head -n 2
"$WANE" rollout abort gate --rollout r.json --json | python3 -c 'import json, sys; r = json.load(sys.stdin); print(r["revision"], {k: (f["phase"], f["stage"], f["why"]) for k, f in r["features"].items()})'
"$WANE" rollout start gate --rollout r.json >/dev/null
# The table's part of the plan stays the same, the gate's does not.
printf '{"hold":60,"requests":5,"auto":false,"features":{"table":{"stages":[{"share":0.01},{"users":0.1},{"users":0.5},{"lines":["sales","support"]},{"all":true}]},"gate":{"bars":{"hit_rate":null}}}}' >plan.json
"$WANE" rollout plan --rollout r.json plan.json | dates
"$WANE" rollout plan --rollout r.json plan.json --anew --json | python3 -c 'import json, sys; r = json.load(sys.stdin); print(r["auto"], [(k, f["phase"]) for k, f in r["features"].items()])'
printf '[rollout]\nfile = c.json\nfeatures = head\nhold = 5\nauto = off\n' >wane.conf
"$WANE" rollout plan --config wane.conf --json | python3 -c 'import json, sys; r = json.load(sys.stdin); print(r["auto"], list(r["features"]))'
"$WANE" rollout status --config wane.conf; code
ls
"$WANE" rollout; code
"$WANE" rollout jump --rollout r.json; code
"$WANE" rollout start; code
"$WANE" rollout plan; code
"$WANE" rollout plan --rollout n.json; code
"$WANE" rollout plan --rollout n.json --url http://127.0.0.1:1; code
"$WANE" rollout status --rollout n.json; code
"$WANE" rollout start heap --rollout r.json; code
"$WANE" rollout start table gate --rollout r.json; code
"$WANE" rollout advance --rollout r.json; code
"$WANE" rollout back head --rollout r.json; code
"$WANE" rollout plan --rollout n.json --rollout-features heap; code
"$WANE" rollout plan --rollout n.json --rollout-features head --rollout-users 0.5,0.2; code
"$WANE" rollout plan --rollout n.json --rollout-features head --rollout-users 1,; code
echo '{"features":{"head":{"bar":{}}}}' >plan.json
"$WANE" rollout plan --rollout n.json plan.json; code
echo '{' >r.json
"$WANE" rollout abort --rollout r.json; code
cat r.json
# Said before a model is loaded.
"$WANE" serve --rollout r.json; code
"$WANE" serve --rollout n.json; code
"$WANE" serve --rollout n.json --rollout-features head --rollout-lines a,; code
"$WANE" rollout status --url http://127.0.0.1:1; code
"$WANE" rollout status --url https://127.0.0.1; code
