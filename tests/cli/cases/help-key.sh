"$WANE" key --help
