"$WANE" help prepare
