# docs/cli.md holds the table that the program prints, word for word.
"$WANE" help --table >table
sed -n '/^| option | variable/,/^$/p' "$CLI_ROOT/docs/cli.md" | sed '/^$/d' | diff - table && echo same
