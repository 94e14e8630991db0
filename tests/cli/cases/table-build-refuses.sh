# What is not a trace, or another model's, is refused in a sentence, and no table is left behind.
. "$CLI_TESTS/lib.sh"
need python3
python3 "$CLI_TESTS/traces.py" traces 1 1000
python3 "$CLI_TESTS/traces.py" other 1 1001
"$WANE" table build --log-file traces --vocab-size 999 --output T.slmt; code
"$WANE" table build --log-file traces other --output T.slmt; code
"$WANE" table build --log-file traces; code
"$WANE" table build --output T.slmt; code
"$WANE" table build --log-file nothing --output T.slmt; code
"$WANE" table build --log-file traces --window 11 --output T.slmt; code
"$WANE" table build --log-file traces --output /nowhere/T.slmt; code
"$WANE" table merge traces/0.jsonl --output T.slmt; code
"$WANE" table merge --output T.slmt; code
"$WANE" table build --log-file traces --partial --output a.part; "$WANE" table build --log-file other --partial --output b.part
"$WANE" table merge a.part b.part --output T.slmt; code
head -c 5000 a.part >c.part
"$WANE" table merge a.part c.part --output T.slmt; code
ls
