"$WANE" help help
