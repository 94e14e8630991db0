"$WANE" head --help
