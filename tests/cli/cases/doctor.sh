# All checks of a machine without a model, and what each file that is given comes to; exit codes. Nothing is written.
. "$CLI_TESTS/lib.sh"
need python3
export WANE_CACHE=$PWD/cache
mkdir cache
python3 - "$CLI_ROOT/tests/vectors/slmt_small.inc" <<'END'
import re, sys
table = bytearray(6 * 4096)
for offset, line in re.findall(r'\{0x([0-9a-f]+), "([0-9a-f]{32})"\}', open(sys.argv[1]).read()):
    table[int(offset, 16):int(offset, 16) + 16] = bytes.fromhex(line)
open("small.slmt", "wb").write(table)
table[0x1083] ^= 1
open("flipped.slmt", "wb").write(table)
END
"$WANE" doctor >all; code
sed 's/ .*//' all
show() { "$WANE" doctor "$@" >lines; grep -e '^TABLE' -e '^SIGNATURE' -e '^KV_CACHE' -e '^PORTS' -e '^SERVER' -e '^MODEL' lines | cut -c1-110; }
show --table small.slmt --port 0
show --table flipped.slmt --host 192.0.2.1
"$WANE" key new --out k >/dev/null && "$WANE" table sign --key k small.slmt >/dev/null
show --table small.slmt --table-key k.pub --session small.slmt --host 0.0.0.0 --port 0 --url http://127.0.0.1:1
"$WANE" doctor --json >json; code
python3 - <<'END'
import json
report = json.load(open("json"))
print(sorted(report))
assert all(sorted(c) == ["check", "found", "level", "next"] for c in report["checks"])
assert all(c["next"] for c in report["checks"] if c["level"] in ("WARNING", "CRITICAL"))
levels = {"SKIPPED": 0, "PASSED": 0, "WARNING": 1, "CRITICAL": 2}
assert report["code"] == max(levels[c["level"]] for c in report["checks"])
print(sorted(report["machine"]))
END
"$WANE" doctor words; code
find cache
