"$WANE" help tune
