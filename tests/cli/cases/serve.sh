# Starts, says so, answers the curl command that it prints, refuses a port that is taken, stops on SIGTERM.
. "$CLI_TESTS/lib.sh"
need_model
need curl
"$WANE" serve --port 0 --ready-file ready --default-max-tokens 4 --context 512 2>log &
server=$!
trap 'kill -9 $server 2>/dev/null' EXIT
wait_for ready || { cat log; exit 1; }
port=$(cat ready)
sed -n '/^  curl/,/^$/p' log >curl.sh
sh curl.sh 2>/dev/null | grep -o '"object":"chat.completion"'
"$WANE" serve --port "$port" --log-level error; code
kill -TERM $server
wait $server; code
[ ! -e ready ] && echo "the ready file is gone"
sed "s/$port/PORT/g" log
