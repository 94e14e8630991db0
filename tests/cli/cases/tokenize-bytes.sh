# Any bytes: a NUL is a byte like others, and what is not UTF-8 becomes U+FFFD.
. "$CLI_TESTS/lib.sh"
need_model
need python3
printf 'a\000b\377\n' | "$WANE" tokenize --json >out.json
python3 - <<'END'
import json
all = json.load(open("out.json"))
print(b"".join(bytes.fromhex(t["hex"]) if "hex" in t else t["text"].encode() for t in all["tokens"]))
print(all["count"] == len(all["ids"]) == len(all["tokens"]))
END
