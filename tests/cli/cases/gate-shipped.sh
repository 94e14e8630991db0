# Each gate that ships is whole, gives this machine the bits that it was made with, bears its model's name, and tells votes apart.
. "$CLI_TESTS/lib.sh"
need python3
for file in "$CLI_ROOT"/share/gates/*.gate; do
    "$WANE" gate info "$file" --json >facts.json || code
    python3 - "$file" <<'END'
import json, os, sys
facts = json.load(open("facts.json"))
print(os.path.basename(sys.argv[1]) == facts["model"] + ".gate", facts["auc"] > 0.75, facts["bytes"] < 65536, len(facts["note"]) > 0)
END
done
