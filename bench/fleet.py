#!/usr/bin/env python3
"""What a table of a day's traffic holds and hits on the next day: arithmetic up to 10^12 tokens a day, and small days that check it.

usage: fleet.py fit TRACE... [--window 3] [--ranks R] [--wane build/wane] [--json]
       fleet.py simulate [--traffic NAME] [--tokens 200000] [--shards 8] [--entries 5000] [--samples N] [--seed 1] [--json]
       fleet.py arithmetic [--traffic NAME] [--entries N] [--json]

fit: TRACE is a trace or a folder of them. Finds the Zipf-Mandelbrot law, share of rank r proportional to 1 / (r + q)^s for r up to R,
whose expected numbers of different contexts, of contexts seen once, and of known contexts in the second half are nearest to those of
the traces (the last --window tokens name a context); prints both. --ranks: for this R. Of a vote's answers the first one counts.

simulate: draws two days by a law with --seed, deals the first out to shards, counts each, merges the counts in a tree, takes the
--entries contexts that were seen most and at least twice, and counts how much of the second day they know. --samples: only so many
records of the day are used, those with the smallest hashes, as `wane table build --samples` chooses. Each figure stands beside
what the arithmetic expects; exit status 1 if one is further off than four standard deviations and 1 %.

arithmetic: a row for each power of ten. NAME is one of TRAFFIC below, or s,q,R. Costs come from MEASURED; docs/scale.md has the commands.

Only the standard library. The same arguments give the same numbers.
"""
import argparse
import bisect
import collections
import json
import math
import os
import random
import subprocess
import sys

# Laws that `fit` found; docs/scale.md says for which traces.
TRAFFIC = {
    "day": (1.3431, 33.07, 1.2e14),
    "votes": (1.0903, 11.88, 1.2e14),
}

# One core of an AMD EPYC, 64 candidates a record: docs/scale.md has the command of each.
MEASURED = {
    "trace_bytes": 500,        # of a record, compressed (docs/trace.md)
    "part_bytes": 614,         # of a record in a part
    "build_rate": 350_000,     # records a second and core, from traces to a part
    "merge_rate": 430_000,     # records a second and core, from parts to a table
    "entry_bytes": 240,        # of a table, with its positions
    "replica_rate": 199.4,     # tokens a second of SmolLM2-135M, four streams on two cores (docs/measured.md)
}


# --------------------------------------------------------------------------------------------------------- the law

class Law:
    """Shares of ranks 1 to R as groups of ranks: (how many, share of each). The first ranks one by one, then ever wider ones."""

    def __init__(self, s, q, most, alone=2000, step=1.01):
        self.s, self.q, self.most = s, q, most
        groups, at = [], 1.0
        while at <= most and at <= alone:
            groups.append((1.0, (at + q) ** -s))
            at += 1
        while at <= most:
            end = min(max(at + 1, math.floor(at * step)), most + 1)
            groups.append((end - at, self.integral(at - 0.5, end - 0.5) / (end - at)))
            at = end
        self.sum = math.fsum(count * weight for count, weight in groups)
        self.groups = [(count, weight / self.sum) for count, weight in groups]

    def integral(self, a, b):
        """Of 1 / (r + q)^s from a to b."""
        if abs(self.s - 1) < 1e-9:
            return math.log((b + self.q) / (a + self.q))
        power = 1 - self.s
        return ((b + self.q) ** power - (a + self.q) ** power) / power

    def rank_at(self, a, area):
        """The b for which integral(a, b) is `area`."""
        if abs(self.s - 1) < 1e-9:
            return (a + self.q) * math.exp(area) - self.q
        power = 1 - self.s
        return max(0.0, (a + self.q) ** power + power * area) ** (1 / power) - self.q


def tail(mean, k):
    """P(N >= k) of a Poisson number."""
    if k <= 0:
        return 1.0
    if k == 2:  # asked most
        return mean * mean * (0.5 - mean / 3) if mean < 1e-4 else -math.expm1(-mean) - mean * math.exp(-mean)
    if mean > 400 and k > 200:
        return 0.5 * math.erfc((k - 0.5 - mean) / math.sqrt(2 * mean))
    if mean < k:
        term = math.exp(-mean + k * math.log(mean) - math.lgamma(k + 1)) if mean > 0 else 0.0
        total, i = 0.0, k
        while term > total * 1e-16 and term > 0:
            total += term
            i += 1
            term *= mean / i
        return min(1.0, total)
    term, total = math.exp(-mean), 0.0
    for i in range(k):
        total += term
        term *= mean / (i + 1)
    return max(0.0, 1 - total)


def expected(law, tokens, entries=None, least=2):
    """What a day of `tokens` records leaves: different contexts, those seen `least` times, entries of the table, and the share of the
    next day's records whose context is one of them, when the `entries` that were seen most are kept."""
    means = [(count, share, tokens * share) for count, share in law.groups]
    different = math.fsum(-count * math.expm1(-mean) for count, _, mean in means)

    def seen(k):
        return math.fsum(count * tail(mean, k) for count, _, mean in means)

    again = seen(least)
    cut, part, held = least, 0.0, again
    if entries is not None and again > entries:
        low, high = least, least * 2
        while seen(high) > entries:
            low, high = high, high * 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if seen(middle) > entries else (low, middle)
        # All that were seen `high` times, and of those seen one time less as many as there is room for.
        cut, all_of_it, one_less = high, seen(high), seen(high - 1)
        part, held = (entries - all_of_it) / (one_less - all_of_it), float(entries)
    known = math.fsum(count * share * (tail(mean, cut) + (part * (tail(mean, cut - 1) - tail(mean, cut)) if part else 0.0))
                      for count, share, mean in means)
    return {"different": different, "again": again, "held": held, "known": known, "cut": cut}


# --------------------------------------------------------------------------------------------------------- recorded traffic

def lines_of(path, wane):
    if path.endswith(".zst"):
        done = subprocess.run([wane, "trace", "head", path, "-n", "1000000000"], capture_output=True, text=True, check=True)
        yield from done.stdout.splitlines()
    else:
        with open(path, encoding="utf-8") as file:
            yield from file


def contexts(named, window, wane):
    """The contexts of each request, in the order of the traces."""
    paths = []
    for one in named:
        paths += sorted(os.path.join(one, name) for name in os.listdir(one) if ".jsonl" in name) if os.path.isdir(one) else [one]
    requests = collections.OrderedDict()
    left_out = set()
    for path in paths:
        for line in lines_of(path, wane):
            record = json.loads(line)
            if record["type"] == "request" and record.get("vote", {}).get("answer", 0) > 0:
                left_out.add(record["id"])
            if record["type"] == "token" and record["id"] not in left_out and len(record["last"]) >= window:
                requests.setdefault(record["id"], []).append((record["tenant"], tuple(record["last"][-window:])))
    return list(requests.values())


def observe(requests):
    """What is held against a law: different contexts and those seen once at growing numbers of records, and how much of the second half
    of the requests the first half knows."""
    points, at, seen = [], 0, collections.Counter()
    total = sum(map(len, requests))
    wanted = [total // 2 ** i for i in range(6, -1, -1) if total // 2 ** i >= 100]
    for key in (key for request in requests for key in request):
        seen[key] += 1
        at += 1
        if wanted and at == wanted[0]:
            points.append((at, len(seen), sum(count == 1 for count in seen.values())))
            wanted.pop(0)
    half = len(requests) // 2
    first = collections.Counter(key for request in requests[:half] for key in request)
    second = [key for request in requests[half:] for key in request]
    known = sum(first[key] >= 2 for key in second) / len(second)
    return {"records": total, "points": points, "half": sum(first.values()), "known": known}


def model_of(law, seen):
    points = []
    for at, _, _ in seen["points"]:
        one = expected(law, at)
        points.append((at, one["different"], one["different"] - one["again"]))
    return {"points": points, "known": expected(law, seen["half"])["known"]}


def distance(law, seen):
    said = model_of(law, seen)
    total = sum(math.log(d / e) ** 2 + math.log(max(o, 1) / max(p, 1)) ** 2 for (_, d, o), (_, e, p) in zip(seen["points"], said["points"]))
    return total + len(seen["points"]) * math.log((seen["known"] + 0.01) / (said["known"] + 0.01)) ** 2


def descend(function, start, steps, rounds=90):
    """Nelder and Mead's simplex."""
    corners = [list(start)] + [[v + (steps[i] if i == j else 0) for j, v in enumerate(start)] for i in range(len(start))]
    values = [function(c) for c in corners]
    for _ in range(rounds):
        order = sorted(range(len(corners)), key=values.__getitem__)
        corners, values = [corners[i] for i in order], [values[i] for i in order]
        centre = [sum(c[j] for c in corners[:-1]) / len(start) for j in range(len(start))]

        def towards(factor):
            point = [m + factor * (w - m) for m, w in zip(centre, corners[-1])]  # noqa: B023
            return point, function(point)
        point, value = towards(-1)
        if value < values[0]:
            further, better = towards(-2)
            point, value = (further, better) if better < value else (point, value)
        elif value >= values[-2]:
            nearer, better = towards(0.5)
            if better < values[-1]:
                point, value = nearer, better
            else:
                corners = [corners[0]] + [[(a + b) / 2 for a, b in zip(corners[0], c)] for c in corners[1:]]
                values = [values[0]] + [function(c) for c in corners[1:]]
                continue
        corners[-1], values[-1] = point, value
    best = min(range(len(corners)), key=values.__getitem__)
    return corners[best], values[best]


def fit(seen, most=None):
    """(s, q, R) nearest to what was observed, or (s, q) for a given R; several beginnings, because the valley is long."""
    def law_of(point):
        s, log_q, log_most = (*point, math.log(most)) if most else point
        if not (0.3 < s < 3 and -3 < log_q < 14 and math.log(seen["points"][-1][1]) <= log_most < 40):
            return None
        return Law(s, math.exp(log_q), math.floor(math.exp(log_most)), 100, 1.1)

    def far(point):
        law = law_of(point)
        return distance(law, seen) if law else 1e9

    ends = [()] if most else [(math.log(seen["points"][-1][1]) + 2,), (25.0,)]
    begin = [(s, log_q, *end) for s in (0.8, 1.1) for log_q in (1.0, 5.0) for end in ends]
    point, value = min((descend(far, one, (0.1, 0.7, 1.5)[:len(one)]) for one in begin), key=lambda found: found[1])
    s, log_q, log_most = (*point, math.log(most)) if most else point
    return (round(s, 4), float(f"{math.exp(log_q):.4g}"), float(f"{math.floor(math.exp(log_most)):.4g}")), value


def show_fit(args):
    requests = contexts(args.named, args.window, args.wane)
    if sum(map(len, requests)) < 1000:
        raise SystemExit("fleet.py: that is too little to fit: 1,000 records at least")
    seen = observe(requests)
    (s, q, most), off = fit(seen, args.ranks)
    said = model_of(Law(s, q, most), seen)
    if args.json:
        print(json.dumps({"s": s, "q": q, "R": most, "distance": off, "recorded": seen, "law": said}))
        return 0
    print(f"{len(requests)} requests, {seen['records']} records, contexts of {args.window} tokens\ns {s}, q {q:g}, R {most:g}\n")
    print("   records   different    law      off   seen once    law      off")
    for (at, different, once), (_, d, o) in zip(seen["points"], said["points"]):
        print(f"{at:>10}  {different:>10} {d:>7.0f} {100 * (d / different - 1):>7.1f}%  {once:>10} {o:>7.0f} {100 * (o / max(once, 1) - 1):>7.1f}%")
    print(f"\nknown in the second half, by the first: {100 * seen['known']:.1f} %, by the law {100 * said['known']:.1f} %")
    return 0


# --------------------------------------------------------------------------------------------------------- made-up traffic

class Traffic:
    """Draws ranks by a law: the first ones from a table, the rest by the inverse of the integral."""

    ALONE = 1 << 15

    def __init__(self, law, seed):
        self.law, self.random = law, random.Random(seed)
        self.sums, total = [], 0.0
        for r in range(1, int(min(self.ALONE, law.most)) + 1):
            total += (r + law.q) ** -law.s
            self.sums.append(total)
        self.head = total
        self.all = total + (law.integral(self.ALONE + 0.5, law.most + 0.5) if law.most > self.ALONE else 0.0)

    def draw(self):
        at = self.random.random() * self.all
        if at < self.head:
            return bisect.bisect_right(self.sums, at) + 1
        rank = math.floor(self.law.rank_at(self.ALONE + 0.5, at - self.head) + 0.5)
        return int(min(max(rank, self.ALONE + 1), self.law.most))


def merge_tree(shards, fan_in=4):
    while len(shards) > 1:
        groups = [shards[i:i + fan_in] for i in range(0, len(shards), fan_in)]
        shards = [sum(group[1:], collections.Counter(group[0])) for group in groups]
    return shards[0]


def simulate(law, tokens, shards, entries, samples, seed):
    """(name, measured, expected, standard deviation) of each figure."""
    traffic = Traffic(law, seed)
    day = [traffic.draw() for _ in range(tokens)]
    used = day
    if samples and samples < tokens:
        # A record's hash has nothing to do with its context: the smallest hashes are a draw without putting back.
        used = traffic.random.sample(day, samples)
    parts = [collections.Counter(used[i::shards]) for i in range(shards)]
    whole = merge_tree(parts)
    assert sum(whole.values()) == len(used) and whole == collections.Counter(used)
    # Of equals the smaller key stays, and a key has nothing to do with a rank.
    first = sorted(whole.items(), key=lambda one: (-one[1], traffic.random.random()))[:entries]
    top = {rank for rank, count in first if count >= 2}
    hits = sum(traffic.draw() in top for _ in range(tokens))
    said, share = expected(law, len(used), entries), expected(law, len(used) / shards)
    different, once = [len(part) for part in parts], said["different"] - said["again"]
    # Of the number of different contexts, when so many records are drawn and no more.
    spread = expected(law, len(used) * 2)["different"] - said["different"] - once ** 2 / len(used)
    rows = [("records used", len(used), float(len(used)), 0.0),
            ("different contexts", len(whole), said["different"], math.sqrt(max(spread, 0))),
            ("contexts of a part", sum(different) / shards, share["different"], math.sqrt(share["different"] / shards)),
            ("seen twice", sum(count >= 2 for count in whole.values()), said["again"], math.sqrt(said["again"])),
            ("entries", len(top), said["held"], math.sqrt(said["held"]) if said["held"] < entries else 0.0),
            ("known the next day", hits / tokens, said["known"], 2 * math.sqrt(said["known"] * (1 - said["known"]) / tokens))]
    return rows


def show_simulation(args):
    law = Law(*law_of(args.traffic))
    rows = simulate(law, args.tokens, args.shards, args.entries, args.samples, args.seed)
    wrong = [name for name, found, said, deviation in rows if abs(found - said) > max(4 * deviation, 0) + 0.01 * said]
    if args.json:
        print(json.dumps({"rows": [{"name": n, "simulated": f, "expected": e} for n, f, e, _ in rows], "wrong": wrong}))
    else:
        print(f"{args.tokens} records a day, {args.shards} parts, {args.entries} entries; s {law.s}, q {law.q:g}, R {law.most:g}\n")
        print("                        simulated     expected      off")
        for name, found, said, _ in rows:
            shape = ".4f" if said < 1 else ".0f"
            print(f"{name:<20} {found:>12{shape}} {said:>12{shape}} {100 * (found / said - 1) if said else 0:>7.2f}%")
        if wrong:
            print(f"\nfurther off than chance: {', '.join(wrong)}")
    return 1 if wrong else 0


# --------------------------------------------------------------------------------------------------------- arithmetic

def law_of(text):
    if text in TRAFFIC:
        return TRAFFIC[text]
    try:
        s, q, most = (float(word) for word in text.split(","))
    except ValueError:
        raise SystemExit(f"fleet.py: {text} is none of {', '.join(TRAFFIC)}, and not s,q,R") from None
    if not (s > 0 and q > -1 and most >= 1):
        raise SystemExit("fleet.py: s must be above 0, q above -1, R at least 1")
    return s, q, math.floor(most)


def short(number):
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.3g} "


def row_of(law, tokens, entries, samples):
    m = MEASURED
    used = min(tokens, samples)
    all_of_it, kept = expected(law, tokens), expected(law, used, entries)
    plain = expected(law, tokens, entries)
    return {"tokens": tokens, "a_second": tokens / 86400, "replicas": tokens / 86400 / m["replica_rate"], "different": all_of_it["different"], "again": all_of_it["again"],
            "known_at_most": all_of_it["known"], "known_all": plain["known"], "known_sampled": kept["known"], "entries": kept["held"],
            "trace_bytes": tokens * m["trace_bytes"], "build_core_hours": tokens / m["build_rate"] / 3600,
            "parts_bytes": tokens * m["part_bytes"], "sampled_parts_bytes": used * m["part_bytes"],
            "merge_hours": tokens / m["merge_rate"] / 3600, "sampled_merge_hours": used / m["merge_rate"] / 3600,
            "table_bytes": kept["held"] * m["entry_bytes"]}


def show_arithmetic(args):
    law = Law(*law_of(args.traffic))
    rows = [row_of(law, 10 ** power, args.entries, args.samples) for power in range(6, 13)]
    if args.json:
        print(json.dumps({"s": law.s, "q": law.q, "R": law.most, "entries": args.entries, "samples": args.samples, "rows": rows}))
        return 0
    print(f"s {law.s}, q {law.q:g}, R {law.most:g}; {short(args.entries)}entries; of a day at most {short(args.samples)}records are used\n")
    print("tokens   different    seen         known, of    by the     the same,")
    print("a day    contexts     twice        all these    table      sampled")
    for r in rows:
        print(f"10^{round(math.log10(r['tokens'])):<5} {short(r['different']):<12} {short(r['again']):<12} {100 * r['known_at_most']:>5.1f} %      "
              f"{100 * r['known_all']:>5.1f} %    {100 * r['known_sampled']:>5.1f} %")
    print("\ntokens   tokens      replicas    traces     building   parts      merging    sampled:   merging    table")
    print("a day    a second                bytes      core h     bytes      h          parts, B   h          bytes")
    for r in rows:
        print(f"10^{round(math.log10(r['tokens'])):<5} {short(r['a_second']):<11} {short(math.ceil(r['replicas'])):<11} {short(r['trace_bytes']):<10} "
              f"{r['build_core_hours']:<10.3g} {short(r['parts_bytes']):<10} {r['merge_hours']:<10.3g} {short(r['sampled_parts_bytes']):<10} "
              f"{r['sampled_merge_hours']:<10.3g} {short(r['table_bytes'])}".rstrip())
    return 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("what", choices=["fit", "simulate", "arithmetic"])
    parser.add_argument("named", nargs="*", metavar="TRACE")
    parser.add_argument("--window", type=int, default=3)
    parser.add_argument("--wane", default="build/wane")
    parser.add_argument("--ranks", type=float)
    parser.add_argument("--traffic", default="day")
    parser.add_argument("--tokens", type=int, default=200_000)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--entries", type=int)
    parser.add_argument("--samples", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if (args.what == "fit") != bool(args.named):
        parser.error("fit takes traces, the others none")
    if args.tokens < 100 or args.shards < 1 or not 1 <= args.window <= 10 or (args.entries or 1) < 1 or (args.samples or 1) < 1:
        parser.error("a day has at least 100 records; shards, entries and samples are 1 or more, the window is 1 to 10")
    if args.what == "fit":
        return show_fit(args)
    if args.what == "simulate":
        args.entries = args.entries or 5000
        return show_simulation(args)
    args.entries, args.samples = args.entries or 1_000_000, args.samples or 400_000_000
    return show_arithmetic(args)


if __name__ == "__main__":
    sys.exit(main())
