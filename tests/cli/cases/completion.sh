. "$CLI_TESTS/lib.sh"
need bash
mkdir bin models && ln -s "$WANE" bin/wane && : >models/mine.gguf && : >local.gguf
PATH="$PWD/bin:$PATH" WANE_CACHE=$PWD bash --norc <<'END'
. "$CLI_ROOT/scripts/wane.bash"
offer() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _wane; echo "$*: ${COMPREPLY[*]}"; }
offer wane ""
offer wane se
offer wane run --temp
offer wane run --no-
offer wane model ""
offer wane model get s
offer wane model path m
offer wane model info lo
offer wane run --model m
offer wane run -m = l
offer wane run --kv-type-k q
offer wane run --flash-attention ""
offer wane run --temperature ""
offer wane help b
offer wane bench d
offer wane table v
offer wane table info lo
offer wane rollout ""
offer wane rollout start t
offer wane rollout plan lo
offer wane session ""
offer wane session load lo
complete -p wane
END
