# An SSP before the system message is carried out and leaves no token; a wrong one is refused in words.
. "$CLI_TESTS/lib.sh"
need_model
need python3
ask() { "$WANE" run -p hi -n 4 --temperature 0 --json "$@" | python3 -c 'import json, sys; print(json.load(sys.stdin)["prompt_tokens"])'; }
plain=$(ask --system "Be brief.")
with=$(ask --system "SSP:domain=tech;tolerance=lenient
Be brief." 2>/dev/null)
bare=$(ask)
alone=$(ask --system "SSP:domain=tech" 2>/dev/null)
[ "$plain" = "$with" ] && [ "$bare" = "$alone" ] && echo the same prompts
"$WANE" run -p hi --system "SSP:domain=legl"; code
