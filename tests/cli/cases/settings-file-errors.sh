. "$CLI_TESTS/lib.sh"
try() { printf "$1" >wane.conf; "$WANE" config -c wane.conf; code; }
try '[sampling]\n\ntemprature = 1\n'
try '[sampling]\ntemperature = 101\n'
try '[serve]\nport = 1\nport = 2\n'
try '[serve\nport = 1\n'
try '[serve]\nport\n'
try 'port = 1\n'
try '[serve]\nhost = a\n  b\n'
try '[model]\nname = a\000b\n'
printf '[chat]\nsystem = %0300d\n' 1 >wane.conf; "$WANE" config -c wane.conf; code
"$WANE" config -c missing.conf; code
WANE_CONFIG=gone.conf "$WANE" config; code
