# The memo's file: written at the end, taken the next time, refused in words when damaged or of other settings.
. "$CLI_TESTS/lib.sh"
need_model
ask() { "$WANE" run --temperature 0 --max-tokens 8 --memo-file m.memo "$@" -p Hello; }
ask >first; code
ask >second; code
cmp first second && ls
"$WANE" run --temperature 0 --max-tokens 8 --memo 0 -p Hello | cmp first - && echo same
ask --batch 64 2>&1; code
printf x | dd of=m.memo bs=1 seek=60 conv=notrunc 2>/dev/null
ask 2>&1; code
echo text >m.memo
ask 2>&1; code
