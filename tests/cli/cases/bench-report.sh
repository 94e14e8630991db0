# Results on one page: nothing on it is from elsewhere, what a file says stays text, and a file that is no result is refused.
. "$CLI_TESTS/lib.sh"
need python3
cat >head.json <<'END'
{"bench": "head", "wane": "0.1.0", "engine": "e", "model": "<script>alert(1)</script>", "sampler": "greedy", "rows": 1, "gain": 1.5,
 "limit": 1.8, "body_ms": 4, "dense_ms": 7.2, "wane_ms": 4.8, "threads": 2, "rounds": 5, "load": 0.1, "divergent": 0}
END
cat >layer.json <<'END'
{"bench": "layer", "model": "m", "streams": [{"streams": 1, "modes": [{"mode": "off", "tpot_p50_ms": 5, "tpot_p95_ms": 6, "tpot_p99_ms": 7,
 "decoded_per_delivered": 1}, {"mode": "wane", "tpot_p50_ms": null}]}]}
END
echo '{"bench": "draft", "by_prompt": 7, "gain": "much"}' >odd.json
"$WANE" bench report head.json layer.json odd.json -o page.html
code
python3 - <<'END'
import re
page = open("page.html", encoding="utf-8").read()
print(page.count("<figure>"), page.count("<svg"), "<script" in page, "&lt;script&gt;" in page, re.findall(r"(?:href|src|url)[=(]", page))
print(re.findall(r'class="n">([^<]*)<', page)[:4])
print("nan" in page.lower(), "wane bench head --model" in page)
END
echo '{"bench": "nothing"}' >wrong.json
"$WANE" bench report wrong.json -o page2.html
code
echo 'no json' >broken.json
"$WANE" bench report broken.json -o page2.html
code
"$WANE" bench report missing.json -o page2.html
code
"$WANE" bench report head.json
code
"$WANE" bench report head.json -o nowhere/page.html
code
ls page2.html 2>/dev/null
