# What the head of the default model is made of; both heads give the same tokens.
. "$CLI_TESTS/lib.sh"
need_model
"$WANE" head info; code
"$WANE" head info --json >info.json; code
WANE_HEAD=dense "$WANE" run --temperature 0 -n 8 -p "Name three colours."
"$WANE" run --temperature 0 -n 8 -p "Name three colours."
