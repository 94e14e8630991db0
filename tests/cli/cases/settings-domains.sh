# Sections [domain.NAME]: what they hold, what they may not, and names.
. "$CLI_TESTS/lib.sh"
need python3
printf '[quality]\nmode = wane\n[domain.empty]\n[domain.legal]\nanswers = 1\nhold = 0.01\n[domain.medical]\nmode = legacy\n[domain.legal]\nclamp = 7\n' >d.conf
"$WANE" config -c d.conf | grep '^domain'
"$WANE" config --json -c d.conf >d.json
python3 -c 'import json; print(json.dumps(json.load(open("d.json"))["domains"], sort_keys=True))'
try() { printf "$1" >wane.conf; "$WANE" config -c wane.conf >/dev/null; code; }
try '[domain.x]\nclmap = 1\n'
try '[domain.x]\nclamp = 300\n'
try '[domain.x]\nclamp = 3\nclamp = 4\n'
try '[domain.x]\nrules = prohibitions\n'
try '[domain.x]\ngate = my.gate\n'
try '[domain.x]\nab_governor = 0.5\n'
try '[domain.x]\nbreaker_wakes = 3\n'
try '[domain.x]\nbreaker_command = true\n'
try '[domain.x]\nrequest_modes = all\n'
try '[domain.]\n'
try '[domain.a b]\n'
try '\n[domain.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]\n'
"$WANE" serve --request-modes fast; code
