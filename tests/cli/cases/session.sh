# A conversation in a file: saved, looked at, gone on with; what is refused says why, and nothing is written over.
. "$CLI_TESTS/lib.sh"
need_model
need python3
say() { "$WANE" "$@" --temperature 0 --max-tokens 8 --threads 1; }
say session save one.session -p "Name three colours." >first; code
"$WANE" session info one.session
"$WANE" session info one.session --json >info.json; code
python3 - first <<'END'
import json, sys
r = json.load(open("info.json"))
print([m["role"] for m in r["messages"]], r["messages"][1]["content"] == open(sys.argv[1]).read().strip())
print(r["tokens"] - r["held"], r["sfcl_flags"], r["flags"], r["tau"], r["version"], r["bytes"] > r["state_bytes"] > 0)
END
cp one.session before
say session load one.session -p "And three more." --json >loaded.json; code
cmp one.session before && echo "load leaves the file alone"
# The same two turns by wane run, which saves what it loads.
say run --session two.session -p "Name three colours." | cmp - first && echo same
say run --session two.session -p "And three more." --json >run.json; code
"$WANE" session info two.session --json | python3 -c '
import json, sys
r = json.load(sys.stdin)
a, b = json.load(open("loaded.json")), json.load(open("run.json"))
print(len(r["messages"]), r["flags"], a["tokens"] == b["tokens"], a["reused_tokens"] == b["reused_tokens"] > 30)'
echo '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name a tree."}]' >talk.json
say session save --prefill --conversation talk.json three.session; code
say session load three.session -p "Or a flower." --json | python3 -c '
import json, sys
r = json.load(sys.stdin); print(r["reused_tokens"] > 10)'
say session load missing.session -p Hi; code
echo text >bad.session
say session load bad.session -p Hi; code
say run --session bad.session -p Hi; code
cat bad.session
say session load one.session --kv-type-k q8_0 -p Hi; code
python3 - <<'END'
d = bytearray(open("one.session", "rb").read()); d[16] ^= 1; open("old.session", "wb").write(d)
d = bytearray(open("one.session", "rb").read()); d[-9] ^= 1; open("cut.session", "wb").write(d)
END
"$WANE" session info old.session; code
"$WANE" session info cut.session; code
"$WANE" session; code
"$WANE" session load; code
"$WANE" session keep x; code
"$WANE" session info one.session two.session; code
"$WANE" session load one.session --prefill -p Hi; code
