# A prompt that does not fit, and a reply that fills the context.
. "$CLI_TESTS/lib.sh"
need_model
seq 1 400 | "$WANE" run --context 256; code
"$WANE" run -p "Count from 1 to 1000, one number a line." --temperature 0 --context 64 --json | grep finish
