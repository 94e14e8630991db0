"$WANE" help
# The three ways to ask are one.
"$WANE" help >a && "$WANE" --help >b && "$WANE" -h >c && cmp a b && cmp a c
"$WANE" help run >a && "$WANE" run --help >b && "$WANE" run -h >c && cmp a b && cmp a c
