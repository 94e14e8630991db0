# What wane trace and wane record refuse.
. "$CLI_TESTS/lib.sh"
"$WANE" trace; code
"$WANE" trace find; code
"$WANE" trace stats; code
"$WANE" trace stats nowhere; code
mkdir empty && "$WANE" trace stats empty; code
"$WANE" record; code
"$WANE" record --prompts nowhere; code
"$WANE" record --prompts x words; code
echo '{"prompt": "a", "colour": 1}' >field.txt && "$WANE" record --prompts field.txt; code
echo '{"messages": []}' >messages.txt && "$WANE" record --prompts messages.txt; code
printf 'fine\n\n{"prompt": "a", "kind": "prose"}\n' >kind.txt && "$WANE" record --prompts kind.txt; code
printf '{"prompt": ' >cut.txt && "$WANE" record --prompts cut.txt; code
: >nothing.txt && "$WANE" record --prompts nothing.txt; code
"$WANE" record --kind prose --prompts kind.txt; code
