. "$CLI_TESTS/lib.sh"
"$WANE" run --temprature 1; code
"$WANE" run --no-histroy; code
"$WANE" run --port 80; code
"$WANE" run -x; code
"$WANE" run --xyzzyplugh; code
"$WANE" serve --port; code
"$WANE" run --json --json-stream -p x; code
"$WANE" run -p ""; code
"$WANE" run -p one two; code
"$WANE" tokenize --chat --bos x; code
"$WANE" bench decode --streams 0; code
"$WANE" bench decode --streams 1,x; code
