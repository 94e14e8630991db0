# Which domain a text is of, from a file, from standard input, as JSON; unsure; and what is refused.
. "$CLI_TESTS/lib.sh"
need python3
echo "The plaintiff sued the tenant for breach of contract, and the court awarded damages." >suit
"$WANE" classify suit; code
echo "患者发烧咳嗽,医生开了抗生素,建议住院检查。" | "$WANE" classify - | head -n 1
"$WANE" classify --json suit | python3 -c '
import json, sys
found = json.load(sys.stdin)
print(found["domain"], found["likely"], 0 < found["threshold"] <= found["share"] <= 1, sorted(found["shares"]))'
echo hello | "$WANE" classify | head -n 1
: | "$WANE" classify | head -n 1
"$WANE" classify nowhere; code
"$WANE" classify suit suit; code
"$WANE" classify --classifier suit suit; code
