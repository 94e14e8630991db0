"$WANE"
