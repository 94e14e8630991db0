# A table that is built of a folder of traces, replayed, signed and put in its place; nothing happens without new records.
. "$CLI_TESTS/lib.sh"
need_model
need python3
printf '%s\n' "Name three colours." "Please name three colours." "Name three colours." "Name three cities." "Name three colours." >prompts.txt
"$WANE" record --prompts prompts.txt --temperature 0 -n 16 --threads 1 >/dev/null
"$WANE" key new --out k >/dev/null
"$WANE" auto-build traces --output T.slmt --once --min-new 40 --key k --threads 1; code
"$WANE" table verify --table-key k.pub T.slmt; code
ls | grep new
"$WANE" auto-build traces --output T.slmt --once --threads 1 --json >waiting.json; code
"$WANE" auto-build traces --output T.slmt --once --min-new 1 --requests 2 --threads 1 --json >built.json; code
python3 - <<'END'
import json
for name in ("waiting", "built"):
    r = json.load(open(name + ".json"))
    print(r["outcome"], r["records"], r["new"], r["held_out"], r["entries"] > 0, r["requests"], r["divergent"], r["agreement"])
END
[ -e T.slmt.sig ] || echo "the signature of the table before is gone"
cp T.slmt before
"$WANE" auto-build missing --output T.slmt --once; code
"$WANE" auto-build traces --output T.slmt --once --min-new 1 --key missing.key --threads 1; code
cmp T.slmt before && ls | grep new
"$WANE" auto-build --output T.slmt; code
"$WANE" auto-build traces; code
