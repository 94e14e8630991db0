"$WANE" help rollout
