. "$CLI_TESTS/lib.sh"
head -c 5000 /dev/urandom >random.gguf
: >empty.gguf
{ printf 'GGUF\003\000\000\000'; head -c 3000 /dev/zero | tr '\000' '\377'; } >lies.gguf
"$WANE" run -p x -m random.gguf; code
"$WANE" run -p x -m empty.gguf; code
"$WANE" run -p x -m lies.gguf; code
"$WANE" tokenize -m "$PWD" x; code
