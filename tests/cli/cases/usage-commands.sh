. "$CLI_TESTS/lib.sh"
"$WANE" rnu; code
"$WANE" somethingelse; code
"$WANE" help srve; code
"$WANE" help run serve; code
"$WANE" model; code
"$WANE" model lsit; code
"$WANE" model get; code
"$WANE" model list more; code
"$WANE" bench; code
"$WANE" bench encode; code
"$WANE" serve smollm2-135m; code
"$WANE" version now; code
