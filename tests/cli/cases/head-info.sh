# What the head of the default model is made of; both heads give the same tokens.
. "$CLI_TESTS/lib.sh"
need_model
"$WANE" head info; code
"$WANE" head info --json >info.json; code
# Which words they are is the processor's affair: another plug-in of the engine adds in another order.
WANE_HEAD=dense "$WANE" run --temperature 0 -n 8 -p "Name three colours." | tee dense
"$WANE" run --temperature 0 -n 8 -p "Name three colours." >certified
cmp dense certified && echo "the same from both heads"
