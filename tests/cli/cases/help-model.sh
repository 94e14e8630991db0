"$WANE" help model
