. "$CLI_TESTS/lib.sh"
need_model
need python3
"$WANE" run -p "Count from 1 to 10." --temperature 0 -n 40 --json >all.json
python3 - <<'END' >stop
import json
text = json.load(open("all.json"))["text"]
print(text[10:14], end="")
END
"$WANE" run -p "Count from 1 to 10." --temperature 0 -n 40 --stop "never seen" --stop "$(cat stop; echo x | tr -d 'x\n')" --json >part.json
python3 - <<'END'
import json
whole, part = json.load(open("all.json")), json.load(open("part.json"))
print(part["finish"], part["stop"] == open("stop").read(), whole["text"].startswith(part["text"]), part["stop"] in part["text"])
END
