"$WANE" help config
