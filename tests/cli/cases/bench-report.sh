# Results on one page: nothing on it is from elsewhere, what a file says stays text, and a file that is no result is refused.
. "$CLI_TESTS/lib.sh"
need python3
cat >head.json <<'END'
{"bench": "head", "wane": "0.1.0", "engine": "e", "model": "<script>alert(1)</script>", "sampler": "greedy", "rows": 1, "gain": 1.5,
 "limit": 1.8, "body_ms": 4, "dense_ms": 7.2, "wane_ms": 4.8, "threads": 2, "rounds": 5, "load": 0.1, "divergent": 0}
END
cat >layer.json <<'END'
{"bench": "layer", "model": "m", "streams": [{"streams": 1, "modes": [{"mode": "off", "itl_p50_ms": 5, "itl_p95_ms": 6, "itl_p99_ms": 7,
 "decoded_per_delivered": 1}, {"mode": "wane", "itl_p50_ms": null}]}]}
END
echo '{"bench": "draft", "by_prompt": 7, "gain": "much"}' >odd.json
cat >quality.json <<'END'
{"set": "<b>set</b>", "model": "m", "compared": 100, "chosen_budget": 8, "modes_report": {
 "off": {"right": 20, "requests": 100, "accuracy": 0.2, "low": 0.13, "high": 0.29, "cost": 1},
 "legacy": {"right": 26, "requests": 100, "accuracy": 0.26, "low": 0.18, "high": 0.35, "cost": 3.1}, "wane": 5},
 "differences": {"legacy - off": {"difference": 0.06, "low": -0.02, "high": 0.14, "p": 0.21}},
 "curve": [{"budget": 8, "accuracy": 0.25, "low": 0.17, "high": 0.34, "cost": 1.4}, {"budget": 32, "accuracy": 0.22, "low": null, "cost": 1.1}, 7]}
END
cat >cost.json <<'END'
{"tokens": 10000, "currency": "<i>EUR</i>", "prices": {"machine_hour": 0.4, "watts": 120, "kilowatt_hour": 0.3, "gigabyte": 0.05},
 "modes": [{"mode": "off", "machine": 0.0073, "power": 0.00066, "network": 0.000125}, {"mode": "wane", "machine": "dear"}]}
END
"$WANE" bench report head.json layer.json odd.json quality.json cost.json -o page.html
code
python3 - <<'END'
import re
page = open("page.html", encoding="utf-8").read()
print(page.count("<figure>"), page.count("<svg"), re.findall(r"<(?:script|b|i)>", page), "&lt;script&gt;" in page, re.findall(r"(?:href|src|url)[=(]", page))
print(*re.findall(r"<h2>([^<]*)<", page), sep="; ")
print(re.findall(r'class="n">([^<]*)<', page))
print(re.findall(r"\bnan\b|\binf\b", page.lower()), "wane bench head --model" in page)
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
