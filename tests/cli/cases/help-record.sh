"$WANE" help record
