# Standard input alone, after -p, and what is not UTF-8.
. "$CLI_TESTS/lib.sh"
need_model
need python3
count() { "$WANE" run "$@" -n 1 --temperature 0 --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["prompt_tokens"])'; }
a=$(printf 'one two three' | count)
b=$(count -p 'one two three')
c=$(printf 'two three' | count -p 'one')
[ "$a" = "$b" ] && [ "$c" -gt "$a" ] && echo fine
printf 'a\377' | "$WANE" run; code
printf '' | "$WANE" run; code
