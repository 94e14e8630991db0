# A pool that a script writes: stats, export, a reward model; and what is refused.
. "$CLI_TESTS/lib.sh"
need python3
python3 - <<'END'
import sqlite3
pool = sqlite3.connect("pool")
pool.execute("CREATE TABLE feedback(id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, response TEXT NOT NULL, tenant TEXT NOT NULL,"
             " key TEXT NOT NULL, model TEXT NOT NULL, rating REAL NOT NULL, comment TEXT, prompt TEXT, reply TEXT)")
pool.execute("PRAGMA application_id=2002873957")
pool.execute("PRAGMA user_version=1")
for i in range(120):
    up = i % 2 == 0
    pool.execute("INSERT INTO feedback(at, response, tenant, key, model, rating, comment, prompt, reply) VALUES(?,?,?,?,?,?,?,?,?)",
                 (1764489600000 + i, f"msg_{i}", "t", "k", "m", 1 if up else -1, "fine" if i == 0 else None, f"user: what is {i}?",
                  f"Gladly: it is {i}." if up else f"As I said, it depends on {i}."))
pool.commit()
END
"$WANE" feedback stats pool; code
"$WANE" feedback stats --json pool | python3 -c 'import json, sys; s = json.load(sys.stdin); print(s["ratings"], s["up"], s["down"], s["mean"], s["from"])'
"$WANE" feedback export pool | head -n 2
"$WANE" feedback export pool | wc -l
"$WANE" train reward --feedback pool --output a.linear; code
"$WANE" train reward --feedback pool --output b.linear --json | python3 -c 'import json, sys; r = json.load(sys.stdin); print(r["auc"] > 0.9, r["weights"], r["learned"] + r["held_out"])'
cmp a.linear b.linear && echo same
"$WANE" feedback; code
"$WANE" feedback stats; code
"$WANE" feedback stats nowhere; code
echo diary >diary; "$WANE" feedback export diary; code
"$WANE" train reward; code
