"$WANE" help classify
