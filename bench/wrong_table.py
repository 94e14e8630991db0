#!/usr/bin/env python3
"""Make a wrong entry in a table, on purpose: the file is in order, and one entry says another token than the model.

usage: wrong_table.py GOOD.slmt BAD.slmt [--entry N] [--token ID]

What the entry's first candidate was becomes --token (default: one far from it), in its means and in all positions that name it; nothing else
changes but two checksums. Without --entry it is the one whose first candidate comes first in the most positions. Prints a line of JSON: which entry, which
tokens, how many such positions. Needs libxxhash, which wane needs as well; docs/slmt.md specifies the bytes.
"""
import argparse
import ctypes
import ctypes.util
import json
import struct
import sys

PAGE, SLOT, POSITION, CANDIDATES, COUNT = 4096, 64, 32, 48, 63


def xxh3(data):
    library = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
    library.XXH3_64bits.restype = ctypes.c_uint64
    library.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return library.XXH3_64bits(bytes(data), len(data))


def candidates(slot):
    count = slot[COUNT] & 7
    return [int.from_bytes(slot[CANDIDATES + 3 * i:CANDIDATES + 3 * i + 3], "little") for i in range(count)]


def spoil(image, entry=None, token=None):
    """The bytes of a table with a wrong entry, and what is wrong in it."""
    image = bytearray(image)
    if image[:8] != b"WANESLMT" or struct.unpack_from("<I", image, 8)[0] != 1:
        raise ValueError("this is no table of version 1")
    vocab, slots = struct.unpack_from("<I", image, 96)[0], struct.unpack_from("<I", image, 136)[0]
    offset, size = struct.unpack_from("<QQ", image, 176 + 8)
    positions_at = struct.unpack_from("<Q", image, 176 + 32 + 8)[0]
    used = [i for i in range(slots) if image[offset + SLOT * i + COUNT] & 7]
    if not used:
        raise ValueError("the table has no entries")

    def heads(i):
        """Its positions that its first candidate heads."""
        first, count = struct.unpack_from("<IH", image, offset + SLOT * i + 36)
        which = [struct.unpack_from("<I", image, positions_at + POSITION * k + 8)[0] for k in range(first, first + count)]
        return sum(w >> 31 == 0 and w & 7 == 0 for w in which)

    slot = used[entry] if entry is not None else max(used, key=heads)
    at = offset + SLOT * slot
    others = candidates(image[at:at + SLOT])
    was = others[0]
    if token is None:
        token = (was + vocab // 2) % vocab
        while token in others:
            token = (token + 1) % vocab
    elif token in others or not 0 <= token < vocab:
        raise ValueError(f"token {token} is a candidate already, or none")
    image[at + CANDIDATES:at + CANDIDATES + 3] = token.to_bytes(3, "little")
    # A candidate with the same logit as the next one stands before it by its number.
    logits = struct.unpack_from("<5f", image, at + 16)
    if len(others) > 1 and logits[0] == logits[1] and token > others[1]:
        struct.pack_into("<f", image, at + 16, logits[0] + 1e-3)
    padded = (size + PAGE - 1) // PAGE * PAGE
    struct.pack_into("<Q", image, 176 + 24, xxh3(image[offset:offset + padded]))
    struct.pack_into("<Q", image, PAGE - 8, xxh3(image[:PAGE - 8]))
    window = struct.unpack_from("<Q", image, at)[0]
    return bytes(image), {"entry": used.index(slot), "window": f"{window:016x}", "positions": heads(slot), "was": was, "is": token}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("good")
    p.add_argument("bad")
    p.add_argument("--entry", type=int)
    p.add_argument("--token", type=int)
    args = p.parse_args()
    try:
        with open(args.good, "rb") as file:
            image, what = spoil(file.read(), args.entry, args.token)
        with open(args.bad, "wb") as file:
            file.write(image)
    except (OSError, ValueError, IndexError, struct.error) as why:
        print(f"wrong_table: {why}", file=sys.stderr)
        return 1
    print(json.dumps(what))
    return 0


if __name__ == "__main__":
    sys.exit(main())
