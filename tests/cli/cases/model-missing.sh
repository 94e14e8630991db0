. "$CLI_TESTS/lib.sh"
export WANE_CACHE="$PWD/cache"
"$WANE" run -p x -m ./no/such.gguf; code
"$WANE" run -p x -m smolm2; code
"$WANE" tokenize -m gemma3-270m x; code
"$WANE" model path gemma3-270m; code
"$WANE" model info nothing.gguf; code
WANE_LIBEXEC="$PWD" "$WANE" model list; code
