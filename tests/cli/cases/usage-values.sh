. "$CLI_TESTS/lib.sh"
"$WANE" run --temperature hot; code
"$WANE" run --temperature -0.1; code
"$WANE" run --temperature nan; code
"$WANE" run --temperature=1e99; code
"$WANE" run --top-k 1.5; code
"$WANE" run --top-k ""; code
"$WANE" run --seed -1; code
"$WANE" run --seed 18446744073709551616; code
"$WANE" run --kv-type-k q3; code
"$WANE" run --mlock=maybe; code
"$WANE" run --model ""; code
"$WANE" run --stop ""; code
"$WANE" serve --port 65536; code
"$WANE" serve --max-body 8T; code
WANE_THREADS=many "$WANE" run -p x; code
