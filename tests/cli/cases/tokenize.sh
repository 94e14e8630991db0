. "$CLI_TESTS/lib.sh"
need_model
"$WANE" tokenize "Hello, 世界"
"$WANE" tokenize --ids Hello world
"$WANE" tokenize --count Hello world
printf 'Hello world' | "$WANE" tokenize --ids
"$WANE" tokenize --ids 'a <|im_end|>'
"$WANE" tokenize --ids --control 'a <|im_end|>'
"$WANE" tokenize --count ""
