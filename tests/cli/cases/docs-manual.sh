# The manual names each option, variable and key of the table, and no other option.
. "$CLI_TESTS/lib.sh"
need python3
"$WANE" help --table >table
python3 - "$CLI_ROOT/docs/wane.1" <<'END'
import re, sys
page = open(sys.argv[1], encoding="utf-8").read().replace("\\-", "-")
table = open("table", encoding="utf-8").read()
options = set(re.findall(r"`--(?:no-)?([a-z-]+)`", table))
named = set(re.findall(r"^\.It Fl (?:[a-zA-Z] , Fl )?(?:-no)?-([a-z-]+)", page, re.M))
print("not in the manual:", sorted(options - named))
print("in the manual only:", sorted(named - options))
for kind in (r"`(WANE_[A-Z_]+)`", r"`([a-z]+\.[a-z_]+)`"):
    print("not in the manual:", [word for word in re.findall(kind, table) if not re.search(re.escape(word) + r"\b", page)])
END
