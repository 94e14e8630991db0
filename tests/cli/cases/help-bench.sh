"$WANE" help bench
