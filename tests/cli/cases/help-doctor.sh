"$WANE" help doctor
