# What the gate that ships for the default model makes of a prompt, in three forms; another model's is refused.
. "$CLI_TESTS/lib.sh"
need_model
need python3
prompt="Is 1 < 2 & \"so\"?"
"$WANE" gate explain --seed 1 -n 6 "$prompt"; code
"$WANE" gate explain --seed 1 -n 6 --json "$prompt" >a.json; code
"$WANE" gate explain --seed 1 -n 6 --html "$prompt" >a.html; code
python3 - <<'END'
import html.parser, json
a = json.load(open("a.json"))
print(sorted(a))
print(sorted(a["tokens"][0]))
print(len(a["tokens"]), a["documents"], 0 < a["entropy"] < 8, 0.62 < a["tau"] < 1.3)
page = open("a.html").read()
class Reader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.pre, self.text, self.spans = 0, ["", ""], 0
    def handle_starttag(self, tag, attrs):
        self.pre += tag == "pre"
        self.spans += tag == "span" and "title" in dict(attrs)
        self.inside = tag in ("pre", "span")
    def handle_endtag(self, tag):
        self.inside = False if tag == "pre" else self.inside
    def handle_data(self, data):
        if self.pre and self.inside:
            self.text[min(self.pre, 2) - 1] += data
reader = Reader()
reader.feed(page)
print(reader.text[0], reader.spans, reader.text[1].startswith("".join(t["text"] for t in a["tokens"])))
print("http" in page, "<script" in page, "prefers-color-scheme" in page)
END
python3 "$CLI_TESTS/votes.py" traces 60
"$WANE" train gate --trace traces --output other.gate >/dev/null; code
"$WANE" gate explain --gate other.gate Hi; code
