#!/usr/bin/env python3
"""rollout_sides.py > rollout_sides.inc: where users stand, worked out by another implementation of the hash (the package xxhash) from
docs/rollout.md alone. These values never change: a user who changed sides would be the fault that they are there to find."""
import xxhash

FEATURES = ["head", "table", "draft", "memo", "gate", "governor"]


def fraction(feature, salt, kind, name):
    text = feature.encode() + b"\0" + salt.encode() + b"\0" + kind.encode() + b":" + name.encode()[:512]
    return (xxhash.xxh3_64_intdigest(text) >> 11) / 2**53


def c(text):
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f'\\{b:03o}' for b in text.encode()) + '"'


for feature in FEATURES:
    for salt in ["", "spring"]:
        for user, key, request in [("alice", "", "req_0"), ("bob@example.org", "k", "req_0"), ("日本", "", ""), ("", "ops", "req_1"),
                                   ("", "", "req_2"), ("u" * 300, "", "req_3")]:
            kind, name = ("user", user) if user else ("key", key) if key else ("request", request)
            print(f"{{WANE_FEATURE_{feature.upper()}, {c(salt)}, {{{c(user)}, {c(key)}, NULL, {c(request)}}}, false, "
                  f"{fraction(feature, salt, kind, name)!r}}},")
    print(f"{{WANE_FEATURE_{feature.upper()}, \"\", {{\"alice\", \"k\", NULL, \"req_4\"}}, true, "
          f"{fraction(feature, '', 'request', 'req_4')!r}}},")
