# A table of another model is refused before anything is decoded.
. "$CLI_TESTS/lib.sh"
need_model
need python3
python3 - "$CLI_ROOT/tests/vectors/slmt_small.inc" <<'END'
import re, sys
table = bytearray(6 * 4096)
for offset, line in re.findall(r'\{0x([0-9a-f]+), "([0-9a-f]{32})"\}', open(sys.argv[1]).read()):
    table[int(offset, 16):int(offset, 16) + 16] = bytes.fromhex(line)
open("small.slmt", "wb").write(table)
END
"$WANE" table info --model smollm2-135m small.slmt; code
"$WANE" run --table small.slmt -p Hello; code
"$WANE" run --table missing.slmt -p Hello; code
"$WANE" run --table-key missing.pub -p Hello; code
"$WANE" serve --table small.slmt --port 0 --log-level error; code
