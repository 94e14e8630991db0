"""Texts that repeat themselves as good texts do: code, quotations, lists. For bench/loops.py; written for this project.

TEXTS is a list of (kind, text), the same every time: handwritten pieces, and pieces made of templates. PROMPTS asks a model for more of the kind.
"""
import random

CODE = ['''import csv
import sys
from collections import defaultdict


def read_rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield row


def totals(rows, key, value):
    sums = defaultdict(float)
    for row in rows:
        sums[row[key]] += float(row[value] or 0)
    return dict(sums)


def main():
    if len(sys.argv) != 4:
        print("usage: totals.py FILE KEY VALUE", file=sys.stderr)
        return 2
    for name, amount in sorted(totals(read_rows(sys.argv[1]), sys.argv[2], sys.argv[3]).items()):
        print(f"{name:<20} {amount:>12.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
''', '''struct ring {
    unsigned char *data;
    size_t size, head, count;
};

static bool ring_put(struct ring *ring, unsigned char byte) {
    if (ring->count == ring->size) return false;
    ring->data[(ring->head + ring->count) % ring->size] = byte;
    ring->count++;
    return true;
}

static bool ring_get(struct ring *ring, unsigned char *byte) {
    if (ring->count == 0) return false;
    *byte = ring->data[ring->head];
    ring->head = (ring->head + 1) % ring->size;
    ring->count--;
    return true;
}

static size_t ring_write(struct ring *ring, const unsigned char *bytes, size_t count) {
    size_t done = 0;
    while (done < count && ring_put(ring, bytes[done])) done++;
    return done;
}

static size_t ring_read(struct ring *ring, unsigned char *bytes, size_t count) {
    size_t done = 0;
    while (done < count && ring_get(ring, &bytes[done])) done++;
    return done;
}
''', '''CREATE TABLE parcel (
    id         INTEGER PRIMARY KEY,
    sender     INTEGER NOT NULL REFERENCES customer (id),
    receiver   INTEGER NOT NULL REFERENCES customer (id),
    weight_g   INTEGER NOT NULL CHECK (weight_g > 0),
    sent_at    TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    arrived_at TIMESTAMP
);
CREATE INDEX parcel_sender ON parcel (sender);
CREATE INDEX parcel_receiver ON parcel (receiver);
CREATE INDEX parcel_open ON parcel (sent_at) WHERE arrived_at IS NULL;

SELECT c.name, COUNT(*) AS parcels, SUM(p.weight_g) / 1000.0 AS kilograms
FROM parcel AS p
JOIN customer AS c ON c.id = p.sender
WHERE p.sent_at >= DATE('now', '-30 days')
GROUP BY c.name
HAVING COUNT(*) > 3
ORDER BY parcels DESC, c.name;
''', '''function debounce(action, wait) {
  let timer = null;
  return function (...values) {
    clearTimeout(timer);
    timer = setTimeout(() => action.apply(this, values), wait);
  };
}

function throttle(action, wait) {
  let last = 0;
  return function (...values) {
    const now = Date.now();
    if (now - last < wait) return;
    last = now;
    action.apply(this, values);
  };
}

const search = debounce((text) => fetch("/search?q=" + encodeURIComponent(text)).then((r) => r.json()).then(show), 250);
document.querySelector("#query").addEventListener("input", (event) => search(event.target.value));
window.addEventListener("scroll", throttle(() => console.log(window.scrollY), 100));
''', '''#!/bin/sh
set -eu
keep=${1:-7}
folder=/var/backups/shop
stamp=$(date +%Y-%m-%d)
mkdir -p "$folder"
pg_dump shop | gzip > "$folder/shop-$stamp.sql.gz.new"
mv "$folder/shop-$stamp.sql.gz.new" "$folder/shop-$stamp.sql.gz"
ls -1 "$folder"/shop-*.sql.gz | sort | head -n -"$keep" | while read -r old; do
    echo "removing $old"
    rm -- "$old"
done
''']

QUOTATIONS = ['''Up the hill the lantern goes,
who has lit it, no one knows;
down the hill the lantern comes,
to the sound of far-off drums.

    Turn the wheel and let it spin,
    let the evening gather in.

Past the mill the water runs,
grey at dusk and gold at once;
past the mill the children go,
singing what their elders know.

    Turn the wheel and let it spin,
    let the evening gather in.

Round the town the story's told
of a winter clear and cold;
round the town the story's sung
by the old and by the young.

    Turn the wheel and let it spin,
    let the evening gather in.
''', '''This is the gate that leads to the yard.
This is the dog that sleeps by the gate that leads to the yard.
This is the cat that teases the dog that sleeps by the gate that leads to the yard.
This is the crow that watches the cat that teases the dog that sleeps by the gate that leads to the yard.
This is the boy that feeds the crow that watches the cat that teases the dog that sleeps by the gate that leads to the yard.
This is the aunt that calls the boy that feeds the crow that watches the cat that teases the dog that sleeps by the gate that leads to the yard.
''', '''The tenant shall pay the rent on the first day of each month. The tenant shall keep the rooms in good order. The tenant shall not sublet the
rooms without the written consent of the landlord. The landlord shall keep the roof, the walls and the pipes in good order. The landlord shall
not enter the rooms without notice of one day, save where life or property is in danger. Either party may end this agreement by notice of three
months to the end of a month. Notice shall be given in writing. Notice that is given in any other form is void.

"The tenant shall pay the rent on the first day of each month," the judge read out once more. "Not on the second, and not when it suits. The tenant
shall keep the rooms in good order. That, too, was agreed. And the landlord shall not enter the rooms without notice of one day. I ask both
parties whether they have read what they signed."
''', '''All people in this house have the right to be heard. All people in this house have the right to be left alone. All people in this house have the
right to a share of the bread, a share of the fire and a share of the work. Nobody in this house has the right to a larger share than another, be
it of the bread, of the fire or of the work. Nobody in this house has the right to speak for another without having asked.
''', '''One man went to mend a wall, went to mend a wall by noon; one man and his dog went to mend a wall by noon.
Two men went to mend a wall, went to mend a wall by noon; two men, one man and his dog went to mend a wall by noon.
Three men went to mend a wall, went to mend a wall by noon; three men, two men, one man and his dog went to mend a wall by noon.
Four men went to mend a wall, went to mend a wall by noon; four men, three men, two men, one man and his dog went to mend a wall by noon.
Five men went to mend a wall, went to mend a wall by noon; five men, four men, three men, two men, one man and his dog went to mend a wall by noon.
''']

NAMES = "Ada Bruno Chen Dora Emil Fatma Goran Hana Ivo Jutta Kofi Lena Mads Nora Omar Petra Quim Rosa Sven Tara".split()
THINGS = "apples bricks candles drums envelopes forks gloves hammers inks jars kettles lamps mirrors nails oars pencils quills ropes spoons tiles".split()
FIELDS = "name email phone street city postcode country birthday language currency timezone nickname company title notes".split()
TOWNS = "Alden Borough Carrow Dunmore Elm Fenwick Garth Holt Inver Jarrow Kelso Lorne Marsh Nairn Otley Perth Quorn Ripon Selby Thirsk".split()


def pick(r, words, count):
    return r.sample(words, min(count, len(words)))


def times_table(r):
    n = r.randint(2, 19)
    return "\n".join(f"{i} x {n} = {i * n}" for i in range(1, r.randint(13, 40)))


def counting(r):
    first = r.randint(1, 50)
    return ", ".join(str(i) for i in range(first, first + r.randint(60, 140)))


def shopping(r):
    return "Shopping list\n\n" + "\n".join(f"- {r.randint(1, 12)} {thing}" for thing in pick(r, THINGS, 18))


def numbered(r):
    return "\n".join(f"{i}. {name} brings the {thing}." for i, (name, thing) in enumerate(zip(pick(r, NAMES, 20), pick(r, THINGS, 20)), 1))


def html_list(r):
    return "<ul>\n" + "\n".join(f'  <li><a href="/town/{t.lower()}">{t}</a></li>' for t in pick(r, TOWNS, 20)) + "\n</ul>\n"


def html_items(r):
    return "<ol>\n" + "\n".join(f"  <li>Item {i}</li>" for i in range(1, r.randint(15, 30))) + "\n</ol>\n"


def markdown_table(r):
    rows = "\n".join(f"| {n} | {r.randint(10, 99)} | {r.choice(['yes', 'no'])} | {t} |" for n, t in zip(pick(r, NAMES, 16), pick(r, TOWNS, 16)))
    return f"| Name | Age | Member | Town |\n|---|---|---|---|\n{rows}\n"


def wide_table(r):
    n = r.randint(6, 14)
    head = "| " + " | ".join(f"Q{i}" for i in range(1, n + 1)) + " |\n|" + "---|" * n + "\n"
    return head + "\n".join("| " + " | ".join(str(r.randint(0, 9)) for _ in range(n)) + " |" for _ in range(10))


def ini(r):
    return "\n".join(f"[{t.lower()}]\nhost = 10.0.{r.randint(0, 9)}.{r.randint(1, 250)}\nport = 80{r.randint(10, 99)}\nenabled = {r.choice(['true', 'false'])}\n"
                     for t in pick(r, TOWNS, 10))


def json_rows(r):
    rows = ",\n".join(f'  {{"id": {i}, "name": "{n}", "score": {r.randint(0, 100)}, "active": {r.choice(["true", "false"])}}}'
                      for i, n in enumerate(pick(r, NAMES, 16), 1))
    return f"[\n{rows}\n]\n"


def inserts(r):
    return "\n".join(f"INSERT INTO stock (id, thing, amount) VALUES ({i}, '{t}', {r.randint(1, 500)});" for i, t in enumerate(pick(r, THINGS, 18), 100))


def getters(r):
    return "\n".join(f"    public String get{f.title()}() {{\n        return {f};\n    }}\n\n    public void set{f.title()}(String {f}) {{\n"
                     f"        this.{f} = {f};\n    }}\n" for f in pick(r, FIELDS, 8))


def switch(r):
    cases = "\n".join(f'    case {i}:\n        return "{t}";' for i, t in enumerate(pick(r, TOWNS, 16)))
    return f"static const char *town_name(int town) {{\n    switch (town) {{\n{cases}\n    default:\n        return NULL;\n    }}\n}}\n"


def asserts(r):
    op = r.choice(["add", "mul", "sub"])
    f = {"add": int.__add__, "mul": int.__mul__, "sub": int.__sub__}[op]
    lines = [(r.randint(0, 50), r.randint(0, 50)) for _ in range(16)]
    return f"def test_{op}():\n" + "\n".join(f"    assert {op}({a}, {b}) == {f(a, b)}" for a, b in lines)


def matrix(r):
    n = r.randint(5, 9)
    rows = ["    {" + ", ".join("1" if i == j else "0" for j in range(n)) + "}," for i in range(n)]
    return f"static const int identity[{n}][{n}] = {{\n" + "\n".join(rows) + "\n};\n"


def zeros(r):
    return "buffer = [" + ", ".join(["0"] * r.randint(16, 40)) + "]\nprint(len(buffer))\n"


def hexdump(r):
    return "\n".join(f"{16 * i:08x}  " + " ".join(f"{r.choice([0, 0, 0, 255, r.randint(0, 255)]):02x}" for _ in range(16)) for i in range(8))


def ruled(r):
    line = r.choice("=-*#~") * r.randint(30, 78)
    return "\n".join(f"{line}\n{t.upper()}\n{line}\nThe office in {t} opens at {r.randint(7, 10)} and closes at {r.randint(15, 19)}.\n" for t in pick(r, TOWNS, 7))


def schedule(r):
    days = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
    return "\n".join(f"{d}\n  09:00 {r.choice(NAMES)} opens\n  12:00 lunch\n  13:00 {r.choice(NAMES)} takes over\n  18:00 {r.choice(NAMES)} closes" for d in days)


def refrain(r):
    lines = [f"Oh, the road to {t} is long, is long," for t in pick(r, TOWNS, 6)]
    return "\n\n".join(f"{line}\nand who walks it is not wrong.\n    Hey ho, the wind and the rain,\n    hey ho, we are out again." for line in lines)


def dialogue(r):
    a, b = pick(r, NAMES, 2)
    return "\n".join(f'"Is it in {t}?" asked {a}.\n"No, it is not in {t}," said {b}.' for t in pick(r, TOWNS, 14))


def litany(r):
    return "\n".join(f"For the {t} of this house, we give thanks." for t in pick(r, THINGS, 18))


def quoted_mail(r):
    body = [f"> > On {r.randint(1, 28)} March {n} wrote:" for n in pick(r, NAMES, 3)]
    return "\n".join(f"{line}\n> > > Shall we meet in {t}?\n> > > Yes, in {t}." for line, t in zip(body * 3, pick(r, TOWNS, 9)))


TEMPLATES = {
    "code": [getters, switch, asserts, matrix, zeros, inserts, ini, json_rows, hexdump],
    "quotation": [refrain, dialogue, litany, quoted_mail],
    "list": [times_table, counting, shopping, numbered, html_list, html_items, markdown_table, wide_table, ruled, schedule],
}


def made(each=12):
    r = random.Random(7)
    return [(kind, template(r)) for kind, templates in TEMPLATES.items() for template in templates for _ in range(each)]


TEXTS = [("code", t) for t in CODE] + [("quotation", t) for t in QUOTATIONS] + made()

ASK = {
    "code": ["Write a Java class for a customer with getters and setters for {}.", "Write unit tests in Python for a function that works on {}.",
             "Write a C function with a switch that names {}.", "Write SQL statements that insert ten rows about {}.",
             "Write a Python dictionary with ten entries about {}.", "Write an HTML page with a table of {}."],
    "quotation": ["Write a song with a refrain about {}.", "Write a nursery rhyme in which each verse repeats the one before it, about {}.",
                  "Write a short dialogue in which two people disagree about {}."],
    "list": ["List twenty {}.", "Make a table of {} with three columns.", "Write a packing list for a trip that is all about {}.",
             "Count from 1 to 60, and name something about {} at every tenth number."],
}
TOPICS = ["birds", "kitchen tools", "rivers", "planets", "trees", "board games", "trains", "spices"]
PROMPTS = [(kind, ask.format(topic)) for kind, asks in ASK.items() for ask in asks for topic in TOPICS]
