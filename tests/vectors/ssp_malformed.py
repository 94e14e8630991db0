"""Writes ssp_malformed.inc beside itself: instructions that are wrong, and what their refusals must say."""
import pathlib

KEYS = {"domain": "legal medical finance tech creative".split(), "confidence": "high medium low".split(),
        "tolerance": "strict balanced lenient".split(), "fallback": "conservative transparent none".split()}
ALLOWED = {k: ", ".join(v[:-1]) + " or " + v[-1] for k, v in KEYS.items()}
ALL_KEYS = "domain, confidence, tolerance or fallback"
rows = []
def add(text, *says):
    rows.append((text, says))
# Keys, nearly right.
for key, typos in {"domain": ["domian", "domains", "doman", "dmain", "Domaine", "dom"], "confidence": ["confidance", "confidnce", "conf", "confidencs", "CONFIDENCES"],
                   "tolerance": ["tolerence", "tolerances", "tollerance", "toleranc", "tol"], "fallback": ["fall-back", "fallbak", "fallbacks", "failback", "fal"]}.items():
    for typo in typos:
        add(f"SSP:{typo}={KEYS[key][0]}", f'"{typo}"', f'"{KEYS[key][0]}"', ALL_KEYS, f"did you mean {key}?")
# Keys that are none.
for key in ["mode", "temperature", "x", "policy", "risk", "level", "safety", "language", "topic", "领域", "sst", "model"]:
    add(f"SSP:{key}=high", f'"{key}"', '"high"', ALL_KEYS)
# Values, nearly right.
for key, pairs in {"domain": [("legl", "legal"), ("leagl", "legal"), ("medcial", "medical"), ("medicine", "medical"), ("finanace", "finance"), ("tehc", "tech"), ("technical", "tech"), ("creativ", "creative"), ("med", "medical"), ("fin", "finance"), ("creatve", "creative"), ("finanze", "finance"), ("tec", "tech")],
                   "confidence": [("hihg", "high"), ("hgh", "high"), ("mediun", "medium"), ("med", "medium"), ("lo", "low"), ("loww", "low"), ("highh", "high"), ("medum", "medium")],
                   "tolerance": [("stict", "strict"), ("strickt", "strict"), ("balance", "balanced"), ("ballanced", "balanced"), ("leniant", "lenient"), ("lenien", "lenient")],
                   "fallback": [("conservativ", "conservative"), ("conserative", "conservative"), ("transparant", "transparent"), ("trans", "transparent"), ("non", "none"), ("noen", "none"), ("nonee", "none"), ("conservativee", "conservative")]}.items():
    for wrong, right in pairs:
        hint = [] if wrong == "technical" else [f"did you mean {right}?"]
        if wrong == "medicine": hint = []
        add(f"SSP:{key}={wrong}", f"{key}: ", f'"{wrong}"', ALLOWED[key], *hint)
# Values of another key.
for key in KEYS:
    for other in KEYS:
        if other != key:
            for value in KEYS[other][:2]:
                add(f"SSP:{key}={value}", f"{key}: ", f'"{value}"', ALLOWED[key])
# Values that are none.
for key, values in {"domain": ["law", "法律", "⚖️", "health", "*", "5"], "confidence": ["0.9", "100%", "very high", "高", "true"],
                    "tolerance": ["zero", "0", "严格", "none at all"], "fallback": ["off", "no", "null", "保守"]}.items():
    for value in values:
        add(f"SSP:{key}={value}", f"{key}: ", f'"{value}"', ALLOWED[key])
# Nothing behind =, nothing before it, no = at all.
for key in KEYS:
    add(f"SSP:{key}=", f"{key}: ", '""', ALLOWED[key])
    add(f"SSP:{key}", f"{key} has no value", f"{key}={ALLOWED[key]}")
    add(f"SSP:={KEYS[key][0]}", "no key", KEYS[key][0], ALL_KEYS)
    add(f"SSP:{KEYS[key][0]}", f'"{KEYS[key][0]}" has no key', f"{key}={KEYS[key][0]}")
    add(f"SSP:{key}=  ;", f"{key}: ", '""', ALLOWED[key])
    add(f"SSP: {key}: {KEYS[key][0]}", f'"{key}: {KEYS[key][0]}" is not a pair', "key=value", ALL_KEYS)
# Twice.
for key in KEYS:
    add(f"SSP:{key}={KEYS[key][0]};{key}={KEYS[key][1]}", f"{key} is given twice", KEYS[key][0], KEYS[key][1])
    add(f"SSP:{key}={KEYS[key][0]};{key.upper()}={KEYS[key][0]}", f"{key} is given twice")
# Signs between pairs.
for sign in [",", "|", "&", "/", "+", "，"]:
    add(f"SSP:domain=legal{sign}confidence=high", "domain: ", f'"legal{sign}confidence=high"', "between pairs stands ;")
add("SSP:domain=legal confidence=high", "domain: ", "legal confidence=high", "ends with its line")
add("SSP:domain=legal;;confidence=high", 'nothing before a ";"', "key=value")
add("SSP:;domain=legal", 'nothing before a ";"', ALL_KEYS)
add("SSP:;", 'nothing before a ";"', ALL_KEYS)
add("SSP:domain=legal; ;", 'nothing before a ";"')
add("SSP:domain==legal", "domain: ", '"=legal"', ALLOWED["domain"])
add("SSP:domain=legal=medical", "domain: ", '"legal=medical"', ALLOWED["domain"])
add("SSP:domain=>legal", "domain: ", '">legal"', ALLOWED["domain"])
add("SSP:domain:legal;confidence:high", '"domain:legal" is not a pair', "key=value")
# Quotes.
for quote in ['"', "'", "`"]:
    add(f"SSP:domain={quote}legal{quote}", "domain: ", "without quotes")
    add(f"SSP:fallback={quote}none{quote}", "fallback: ", "without quotes")
    add(f"{quote}SSP:domain=legal{quote}", "is not its form", "SSP:key=value;key=value on a line of its own")
# The rest of the line.
for value in ["legal", "tech"]:
    add(f"SSP:domain={value} You are a helpful assistant.", "domain: ", f"begin a new one behind {value}")
add("SSP:confidence=high; You answer briefly.", '"You answer briefly."', "is not a pair")
add("SSP:domain=legal. Be brief.", "domain: ", ALLOWED["domain"])
# Empty.
for blank in ["", " ", "\t", "\u3000", "\n", "\r\n", "\nYou are helpful."]:
    add("SSP:" + blank, "it is empty", "domain, confidence, tolerance or fallback")
# Another form.
for form in ["SSP domain=legal", "SSP=domain=legal", "SSP-domain=legal", "SSP;domain=legal", "[SSP:domain=legal]", "<SSP>domain=legal</SSP>", "{SSP:domain=legal}",
             "# SSP: domain=legal", "**SSP: domain=legal**", "SSP. confidence = high", "ssp tolerance=strict"]:
    add(form, "is not its form", "SSP:key=value;key=value on a line of its own")
# Full width.
add("SSP：domain＝法律", "domain: ", '"法律"', ALLOWED["domain"])
add("SSP：领域＝legal", '"领域"', ALL_KEYS)
add("SSP：domain＝legal；；", 'nothing before a ";"')
add("SSP：domain＝", "domain: ", '""')
# Long.
add("SSP:" + "d" * 500 + "=legal", "dddd", "…", ALL_KEYS)
add("SSP:domain=" + "法" * 300, "domain: ", "法法…", ALLOWED["domain"])
add("SSP:" + "domain=legal;" * 40, "domain is given twice")
# In another place, and two.
add("You are helpful.\nSSP:domain=legal", "stands on line 2", "first line")
add("\n\nYou are helpful.\n\n  SSP: confidence=high\n", "stands on line 5", "first line")
add("A\nB\nSSP：tolerance＝strict", "stands on line 3")
add("SSP:domain=legal\nSSP:confidence=high", "line 2 has another one", "a request has one")
add("SSP:domain=legal\n\nYou are helpful.\nSSP:confidence=high", "line 4 has another one")
def quote(text):
    out = ""
    for byte in text.encode():
        c = chr(byte)
        out += {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(c) or (c if 32 <= byte < 127 else f"\\{byte:03o}")
    return f'"{out}"'
seen = set()
with open(pathlib.Path(__file__).with_suffix(".inc"), "w") as file:
    file.write("/* ssp_malformed.inc - instructions that are wrong, and what their refusals must say; made by ssp_malformed.py. */\n")
    for text, says in rows:
        if text in seen: continue
        seen.add(text)
        file.write("{" + quote(text) + ", {" + ", ".join(map(quote, says)) + "}},\n")
print(len(seen))
