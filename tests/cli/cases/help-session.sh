"$WANE" help session
