# A log that another program wrote by docs/audit.md's formula: read, shown, exported, verified, tampered with, gone on with.
. "$CLI_TESTS/lib.sh"
need python3
cat >make.py <<'END'
import hashlib, json, sqlite3, sys
FIELDS = ("seq at event request reply key tenant api mode policy features finish status prompt_tokens reused_tokens reply_tokens ms slmt_table slmt_used"
          " slmt_source slmt_taken origin wakes states fuse fallback vote shadow divergences lost detail prompt text").split()
TYPES = {name: "INTEGER" for name in ("at status prompt_tokens reused_tokens reply_tokens ms slmt_used slmt_taken shadow divergences lost").split()}
columns = ", ".join(f"{name} {TYPES.get(name, 'TEXT')}{' NOT NULL' if name in ('at', 'event') else ''}" for name in FIELDS[1:])
base = sqlite3.connect("log")
base.execute(f"CREATE TABLE audit(seq INTEGER PRIMARY KEY AUTOINCREMENT, {columns}, before BLOB NOT NULL, hash BLOB NOT NULL)")
for name, when, why in (("audit_no_update", "UPDATE ON audit", "changed"), ("audit_no_delete", "DELETE ON audit", "deleted")):
    base.execute(f"CREATE TRIGGER {name} BEFORE {when} BEGIN SELECT RAISE(ABORT, 'an audit log is append-only: a record is never {why}'); END")
base.execute("CREATE TRIGGER audit_in_order BEFORE INSERT ON audit WHEN EXISTS(SELECT 1 FROM audit) AND NEW.seq IS NOT (SELECT max(seq) FROM audit) + 1"
             " BEGIN SELECT RAISE(ABORT, 'an audit log is append-only: a record stands behind the last one'); END")
base.execute(f"PRAGMA application_id={0x77617564}")
base.execute("PRAGMA user_version=1")
head, seq = bytes(32), 0
def add(**given):
    global head, seq
    seq += 1
    row = {"seq": seq, "at": 1764489600000 + 1000 * seq, **given}
    h = hashlib.blake2b(b"wane-audit-1" + head, digest_size=32)
    for name in FIELDS:
        value = row.get(name)
        if value is None: h.update(b"-")
        elif isinstance(value, int): h.update(b"#" + value.to_bytes(8, "little", signed=True))
        else: h.update(b'"' + len(value.encode()).to_bytes(8, "little") + value.encode())
    base.execute(f"INSERT INTO audit VALUES({','.join('?' * 35)})", [row.get(name) for name in FIELDS] + [head, h.digest()])
    head = h.digest()
add(event="open", detail='{"form":1,"hash":"blake2b-256","key":null}')
add(event="start", detail='{"version":"0.1.0"}', slmt_table="ab" * 32)
add(event="request", request="req_1", reply="msg_1", key="ada", api="messages", mode="off", features='{"on":["head","table"]}', finish="end", status=200,
    prompt_tokens=12, reused_tokens=0, reply_tokens=7, ms=90, slmt_table="ab" * 32, slmt_used=3, slmt_source='{"absent":4,"context":3}', slmt_taken=0,
    origin='{"certified":7}', shadow=1, divergences=1)
add(event="gap", lost=2, detail='{"why":"the queue was full"}')
add(event="request", request="req_2", key="bob", api="chat", mode="wane", finish="refused", status=400, detail='{"problem":"invalid","field":"top_p"}',
    prompt='a "quoted", text\nof two lines')
base.commit()
END
python3 make.py
"$WANE" audit tail log; code
"$WANE" audit tail --lines 1 --key ada log
"$WANE" audit tail --table abab --event request --json log
"$WANE" audit show msg_1 log
"$WANE" audit show 4 log --json; code
"$WANE" audit show 99 log; code
"$WANE" audit export --since 2025-11-30T08:00:04Z log | wc -l
"$WANE" audit export --format csv log | python3 -c 'import csv, sys; rows = list(csv.DictReader(sys.stdin)); print(len(rows), rows[4]["prompt"].splitlines(), rows[3]["lost"])'
"$WANE" audit verify log; code
head=$("$WANE" audit verify --json log | python3 -c 'import json, sys; v = json.load(sys.stdin); print(v["head"]); print(v["whole"], v["records"], v["lost"], v["ended"], file=sys.stderr)')
"$WANE" audit verify --head "$head" log >/dev/null; code
WANE_AUDIT=log "$WANE" audit tail --lines 1 | cut -c 1-30
"$WANE" audit rotate log next; code
"$WANE" audit verify log next; code
"$WANE" audit tail next | sed 's/ 20[^ ]*Z / TIME /'
"$WANE" audit rotate log next; code
python3 - <<'END'
import sqlite3
base = sqlite3.connect("log")
base.execute("DROP TRIGGER audit_no_update")
base.execute("UPDATE audit SET divergences = 0 WHERE seq = 3")
base.commit()
END
"$WANE" audit verify log; code
"$WANE" audit verify --json log | python3 -c 'import json, sys; v = json.load(sys.stdin); print(v["whole"], v["fault"], v["record"])'
"$WANE" audit; code
"$WANE" audit tail; code
"$WANE" audit tail nowhere; code
"$WANE" audit tail --since yesterday log; code
"$WANE" audit verify --head 1234 log; code
echo diary >diary; "$WANE" audit verify diary; code
"$WANE" audit verify --audit-key diary log; code
