# A model that was named must be the one that the traces are of.
. "$CLI_TESTS/lib.sh"
need python3
need_model
python3 "$CLI_TESTS/traces.py" traces 1 49152
"$WANE" table build --model smollm2-135m --log-file traces --output T.slmt; code
"$WANE" table build --model smollm2-135m --vocab-size 1000 --log-file traces --output T.slmt; code
ls
