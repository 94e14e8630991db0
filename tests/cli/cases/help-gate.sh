"$WANE" help gate
