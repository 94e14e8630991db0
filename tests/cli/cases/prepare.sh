# A text made ready; what was changed goes to standard error.
. "$CLI_TESTS/lib.sh"
printf 'Caf\145\314\201 \342\200\213au lait, pa\302\255ss\342\200\213word\n' >dirty
"$WANE" prepare <dirty; code
"$WANE" prepare <dirty 2>/dev/null >clean
"$WANE" prepare <clean; code
"$WANE" prepare --prepare none <dirty | cmp - dirty; code
"$WANE" prepare --json --prepare nfc,invisible <dirty; code
"$WANE" prepare --prepare segments "It rained." Nobody came.; code
WANE_PREPARE=tables "$WANE" prepare "| a |
|---|"; code
"$WANE" prepare --prepare nfd x; code
printf 'a\377' | "$WANE" prepare; code
"$WANE" serve --prepare all,nfc; code
"$WANE" serve --request-prepare nope; code
