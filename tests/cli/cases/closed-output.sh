# A reader that leaves ends the program quietly; a closed or full output is an error.
. "$CLI_TESTS/lib.sh"
need_model
{ "$WANE" run -p "Tell me a long story." -n 500; echo "exit code $?" >code; } | head -c 1 >first
cat code; wc -c <first
"$WANE" version >&-; code
[ ! -e /dev/full ] || "$WANE" version >/dev/full; code
"$WANE" help --table | head -n 1; 
