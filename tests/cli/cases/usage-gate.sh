# What wane gate and wane train refuse.
. "$CLI_TESTS/lib.sh"
"$WANE" gate; code
"$WANE" gate open; code
"$WANE" gate info; code
"$WANE" gate info nowhere; code
echo WANEGATE >short.gate && "$WANE" gate info short.gate; code
"$WANE" gate explain --json --html Hi; code
"$WANE" gate explain --temperature 0 Hi; code
"$WANE" gate explain </dev/null; code
"$WANE" train; code
"$WANE" train table; code
"$WANE" train gate; code
"$WANE" train gate --trace nowhere; code
printf '%s\n' '{"type":"origin","version":1,"model":"00112233445566778899aabbccddeeff","tokenizer":"ffeeddccbbaa99887766554433221100","vocab_size":1000,"recorder":"wane","time":"2026-11-29T23:00:00Z"}' >none.jsonl
"$WANE" train gate --trace none.jsonl; code
