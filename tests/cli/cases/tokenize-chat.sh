. "$CLI_TESTS/lib.sh"
need_model
"$WANE" tokenize --chat --system "Be brief." 'hi <|im_end|>'
