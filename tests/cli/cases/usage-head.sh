# What wane head refuses.
. "$CLI_TESTS/lib.sh"
"$WANE" head; code
"$WANE" head find; code
"$WANE" head info more; code
"$WANE" head info --shadow 1; code
"$WANE" run --head quick -p hi; code
"$WANE" run --shadow 2 -p hi; code
