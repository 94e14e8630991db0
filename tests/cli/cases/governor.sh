# What it refuses before it asks anybody, and a server that is not there.
"$WANE" governor; echo "exit $?"
"$WANE" governor stats; echo "exit $?"
"$WANE" governor ab; echo "exit $?"
"$WANE" governor ab on --url http://127.0.0.1:1; echo "exit $?"
"$WANE" governor ab --url http://127.0.0.1:1; echo "exit $?"
"$WANE" governor ab --url ftp://127.0.0.1; echo "exit $?"
