"$WANE" help run
