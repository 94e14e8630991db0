# wane exec: what belongs to the program, programs that are not there, a libllama of a version that nobody knows, a program
# without one. Then the program on the real engine: the same tokens with wane under it, whatever it chooses by.
. "$CLI_TESTS/lib.sh"
need python3
tests=$(dirname "$WANE")/tests
[ -x "$tests/exec_host" ] || { echo "the tests' programs are not built" >&2; exit 77; }
run() { "$@"; echo "exit $?"; }
run "$WANE" exec
run "$WANE" exec -- no-such-program-here
touch plain && run "$WANE" exec ./plain
run "$WANE" exec sh -c 'echo "$0 $1"; exit 5' -q --head
run "$WANE" exec --share 2 -- true
echo "an unknown version"
run "$WANE" exec --stats other.json -- "$tests/exec_other_host"
run "$WANE" exec -q -- "$tests/exec_other_host"
run "$WANE" exec -- sh -c "'$tests/exec_other_host'; exit \$?"
[ -e other.json ] || echo "no statistics"

need_model
model=$WANE_CACHE/models/smollm2-135m.gguf
modes=greedy,top-k,min-p,penalties,bias,own,server,node,logprobs,grammar,sigma,streams,rows,callback,behind,embeddings,fork
"$tests/exec_host" "$model" $modes 6 >plain.txt
"$WANE" exec --head always --shadow 0.1 --stats many.json -- "$tests/exec_host" "$model" $modes 6 >under.txt 2>said.txt
echo "exit $?"
cmp plain.txt under.txt && sed 's/[0-9][0-9.,]*/N/g; s/; head.*dense (/ (/; s/, avx[^;]*;/, KERNEL;/; s/, neon;/, KERNEL;/; s/, plain;/, KERNEL;/' said.txt
python3 - <<'END'
import json
s = json.load(open("many.json"))
print("divergent", s["divergent"], "open", s["contexts_open"], "checked", s["checked"] > 0, "known", s["known"], s["llama"] != "")
print("certified", s["certified"] > 0, {why: s["dense"][why] > 0 for why in ("off", "learn", "whole", "again", "rows", "failed")})
END
echo "200 requests"
"$WANE" exec --stats requests.json -- "$tests/exec_host" "$model" contexts 20 >requests.txt 2>said.txt
tail -n 1 requests.txt
grep -o '"contexts[_a-z]*": [0-9]*' requests.json
