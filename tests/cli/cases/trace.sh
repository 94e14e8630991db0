# What wane trace says of traces, whole, cut and wrong.
. "$CLI_TESTS/lib.sh"
origin='{"type":"origin","version":1,"model":"00112233445566778899aabbccddeeff","tokenizer":"ffeeddccbbaa99887766554433221100","vocab_size":1000,"recorder":"wane","time":"2026-11-29T23:00:00Z"}'
request='{"type":"request","id":"r1","kind":"code","tenant":"00000000000000ff","time_ms":1,"prompt":[1,2,-1],"sampling":{"temperature":0.8,"top_k":40,"top_p":0.95,"min_p":0.05,"repeat_penalty":1,"presence_penalty":0,"frequency_penalty":0,"penalty_window":64,"seed":"1","bias":[]},"max_tokens":7,"ignore_end":false,"stops":[],"redacted":1}'
token='{"type":"token","id":"r1","kind":"code","tenant":"00000000000000ff","before":"0123456789abcdef0123456789abcdef","position":4,"index":0,"last":[1,2,3,4],"token":5,"changed":false,"top":[[5,2.5],[7,0.5]],"log_sum":3}'
end='{"type":"end","id":"r1","finish":"length","tokens":1,"redacted":2,"ms":12.3}'
mkdir good && printf '%s\n' "$origin" "$request" "$token" "$token" "$end" '{"type":"dropped","requests":1,"tokens":12}' >good/a.jsonl
printf '%s\n%s' "$origin" "${token%??????}" >good/b.jsonl
"$WANE" trace stats good; code
"$WANE" trace stats good --json >stats.json; code
"$WANE" trace head good -n 2; code
"$WANE" trace validate good; code
printf '%s\n' "$origin" "$token" "oops" "$token" "again" >bad.jsonl
printf '%s\n' "$origin" "$(echo "$token" | sed 's/\[7,/[5,/')" >twice.jsonl
printf '%s\n' "$token" >none.jsonl
"$WANE" trace validate bad.jsonl good none.jsonl twice.jsonl; code
"$WANE" trace validate bad.jsonl --json; code
"$WANE" trace stats bad.jsonl --json | grep bad_lines
"$WANE" trace head bad.jsonl -n 9 | cut -c 1-40
