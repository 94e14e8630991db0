"$WANE" help audit
