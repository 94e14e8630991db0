# A small table: what it holds, signing it, and what is refused.
. "$CLI_TESTS/lib.sh"
need python3
python3 - "$CLI_ROOT/tests/vectors/slmt_small.inc" <<'END'
import re, sys
table = bytearray(6 * 4096)
for offset, line in re.findall(r'\{0x([0-9a-f]+), "([0-9a-f]{32})"\}', open(sys.argv[1]).read()):
    table[int(offset, 16):int(offset, 16) + 16] = bytes.fromhex(line)
open("small.slmt", "wb").write(table)
open("cut.slmt", "wb").write(table[:9000])
table[0x1083] ^= 1
open("flipped.slmt", "wb").write(table)
END
"$WANE" table info small.slmt
"$WANE" table info --hottest 1 --json small.slmt
"$WANE" table info --hottest 0 small.slmt | tail -n 1
"$WANE" table verify small.slmt; code
"$WANE" table verify cut.slmt; code
"$WANE" table verify flipped.slmt; code
"$WANE" table verify missing.slmt; code
"$WANE" key new --out k
"$WANE" key new --out k; code
[ "$(ls -l k | cut -c1-10)" = -rw------- ] && echo guarded
"$WANE" table verify --table-key k.pub small.slmt; code
"$WANE" table sign --key k small.slmt
"$WANE" table verify --table-key k.pub small.slmt; code
"$WANE" table verify --table-key k.pub --json small.slmt
"$WANE" table verify --table-key k small.slmt; code
"$WANE" table sign --key k cut.slmt; code
"$WANE" key new --out other >/dev/null
"$WANE" table verify --table-key other.pub small.slmt; code
cp small.slmt.sig flipped.slmt.sig
"$WANE" table verify --table-key k.pub flipped.slmt; code
chmod 644 k
"$WANE" table sign --key k small.slmt; code
"$WANE" table sign small.slmt; code
"$WANE" table info; code
"$WANE" table show small.slmt; code
"$WANE" table; code
"$WANE" key; code
