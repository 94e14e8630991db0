"$WANE" version
"$WANE" --version
"$WANE" version --json
