"$WANE" help cost
