"$WANE" help governor
