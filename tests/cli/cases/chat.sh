# A conversation on a terminal: slash commands, a stopped reply, saving, leaving.
. "$CLI_TESTS/lib.sh"
need_model
need python3
python3 "$CLI_TESTS/chat.py"
