"$WANE" table --help
