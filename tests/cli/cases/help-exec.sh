"$WANE" help exec
