# Every command that the page names exists, with its words and options; so does every line of the doctor and every page.
. "$CLI_TESTS/lib.sh"
need python3
WANE_CACHE=$PWD "$WANE" doctor | sed 's/ .*//' >checks
python3 - "$CLI_ROOT/docs" <<'END'
import os, re, subprocess, sys
docs, wane = sys.argv[1], os.environ["WANE"]
page = open(docs + "/troubleshooting.md", encoding="utf-8").read()
checks = set(open("checks").read().split())
words = {}
faults = 0
def known(command):
    if command not in words:
        run = subprocess.run([wane, "help", "--words", command], capture_output=True, text=True)
        words[command] = {line.split(" ")[0] for line in run.stdout.splitlines()} if run.returncode == 0 else None
    return words[command]
commands = [c for c in re.findall(r"`([^`]+)`", page) if c.startswith("wane ")]
for one in commands:
    parts = one.split()
    have = known(parts[1])
    for part in parts[2:] if have is not None else []:
        option = re.sub(r"=.*", "", part.strip('"'))
        if option.startswith("--") and option not in have and option not in known("diagnose"):
            print("no such option:", one); faults += 1
        if parts.index(part) == 2 and part.islower() and not part.startswith("-") and part not in have:
            print("no such word:", one); faults += 1
    if have is None:
        print("no such command:", one); faults += 1
for option in re.findall(r"`(--[a-z-]+)", page):
    if not any(option in (known(c) or ()) for c in ("serve", "run", "diagnose", "bench", "tokenize")):
        print("no such option:", option); faults += 1
for name in re.findall(r"`([A-Z][A-Z_]+)`", page):
    if name not in checks and not name.startswith("WANE_"):
        print("no such check:", name); faults += 1
rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| symptom")]
for row in rows:
    if len(re.split(r"(?<!\\)\|", row)) != 5:
        print("not three cells:", row); faults += 1
print("commands and rows enough:", len(commands) > 40, len(rows) > 40, "- faults:", faults)
END
