# What wane tune refuses.
. "$CLI_TESTS/lib.sh"
need_model
"$WANE" tune; code
"$WANE" tune text.txt; code
"$WANE" tune --data nowhere.txt --held-out 1; code
"$WANE" tune --data nowhere.txt --signal guess; code
"$WANE" tune --data nowhere.txt --draws 10; code
"$WANE" tune --data nowhere.txt --domain "a <b>"; code
"$WANE" tune --data nowhere.txt; code
: >none.txt && "$WANE" tune --data none.txt; code
printf '{"text": "The sea is blue."}\n{"text": "The sea", "spans": [{"from": 4, "to": 9, "right": true}]}\n' >off.jsonl
"$WANE" tune --data off.jsonl; code
printf 'The sea is blue.\n' >short.txt && "$WANE" tune --data short.txt --output none.json --plot none.svg; code
ls
