# A reply is running: the first signal waits for it, the second does not.
. "$CLI_TESTS/lib.sh"
need_model
need curl
"$WANE" serve --port 0 --ready-file ready --grace 60000 2>log &
server=$!
trap 'kill -9 $server 2>/dev/null' EXIT
wait_for ready || { cat log; exit 1; }
curl -sN "http://127.0.0.1:$(cat ready)/v1/chat/completions" -H 'Content-Type: application/json' \
    -d '{"model":"smollm2-135m","stream":true,"max_tokens":3500,"logit_bias":{"2":-100},"messages":[{"role":"user","content":"Write a very long story."}]}' >stream 2>/dev/null &
wait_for stream || echo "nothing came"
kill -TERM $server
sleep 0.3
kill -0 $server && echo "still there"
kill -TERM $server
wait $server; code
[ ! -e ready ] && echo "the ready file is gone"
