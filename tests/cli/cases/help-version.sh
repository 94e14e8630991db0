"$WANE" help version
