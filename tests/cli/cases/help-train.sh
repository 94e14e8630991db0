"$WANE" help train
