. "$CLI_TESTS/lib.sh"
need_model
"$WANE" serve --host 0.0.0.0 --port 0 --log-level error; code
"$WANE" serve --port 0 --log-level error --ready-file no/such/folder/ready; code
"$WANE" serve --port 0 --log-level error --key-file missing.keys; code
