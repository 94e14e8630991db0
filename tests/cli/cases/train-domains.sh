# The classifier that ships is what the command makes, and what it says of itself.
. "$CLI_TESTS/lib.sh"
share=$CLI_ROOT/share/domains
"$WANE" train domains --data "$share/seed.jsonl" --test "$share/held-out.jsonl" --output made.linear; code
cmp made.linear "$share/domains.linear" && echo same
"$WANE" train domains --data "$share/seed.jsonl" --seed 2 --output other.linear >/dev/null; code
cmp -s made.linear other.linear || echo another
"$WANE" train domains; code
"$WANE" train domains --data nowhere; code
echo '{"domain":"a"}' >bad.jsonl
"$WANE" train domains --data bad.jsonl; code
