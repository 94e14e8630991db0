"$WANE" help diagnose
