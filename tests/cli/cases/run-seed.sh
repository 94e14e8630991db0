# A seed makes a reply repeatable; statistics go to standard error.
. "$CLI_TESTS/lib.sh"
need_model
"$WANE" run -p "Tell me a story." --seed 5 -n 12 --stats >a
"$WANE" run -p "Tell me a story." --seed 5 -n 12 >b
cmp a b && [ -s a ] && echo same
