"$WANE" help feedback
