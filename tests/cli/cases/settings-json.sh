. "$CLI_TESTS/lib.sh"
need python3
printf '[sampling]\nstop = a\nstop = \\n\n[serve]\nmax_body = 2K\n' >f.conf
WANE_SEED=7 "$WANE" config --json -c f.conf --temperature 0.5 >out.json
python3 - <<'END'
import json
all = json.load(open("out.json"))
print(all["file"], all["file_read"], len(all["settings"]) > 30)
for name in ("temperature", "stop", "max-body", "seed", "mmap", "key-file", "system"):
    one = all["settings"][name]
    print(name, repr(one["value"]), one["source"], one["where"], one["key"], one["environment"])
END
