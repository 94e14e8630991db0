"$WANE" help trace
