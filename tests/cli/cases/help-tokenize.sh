"$WANE" help tokenize
