#!/usr/bin/env python3
"""A made-up day of requests, and what a table learned from its first part does for the rest.

usage: day.py prompts FILE [--requests 2000] [--seed 1] [--max-tokens 64]
       day.py run FOLDER [--requests 2000] [--seed 1] [--max-tokens 64] [--wane build/wane] [--model NAME] [--threads N]
                  [--draft auto|always|off] [--prefix-reuse]

prompts: FILE is what `wane record --prompts` takes, FILE.labels has each line's kind: form (templates that are filled in), code,
json (extraction), repeat (an earlier request once more, word for word), multi (conversations), prose (nothing like it before).
The same seed gives the same day.

run: record the day, build tables of its first 16, 64, 256, 1024, ... requests and of the whole first four fifths, replay the last
fifth with each, and the last fifth's kinds one by one with the last. With --prefix-reuse a request's prompt begins
where the one before it is the same, as in a server: then the engine computes the rest in other batches, and a repeat's floats are
not those that were recorded. Each step's result stays in FOLDER, so that a run that was
stopped goes on where it was. The report goes to standard output and to FOLDER/report.json. Exit status 1 if a replay differed.
"""
import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys
import time

CHUNK = 16
SHARES = [("form", 30), ("code", 15), ("json", 20), ("repeat", 12), ("multi", 13), ("prose", 10)]
KIND_OF = {"form": "single", "code": "code", "json": "summary", "multi": "multi", "prose": "single"}

NAMES = "Ada Bruno Chen Dalia Emil Farah Goran Hanna Imre Jonas Kira Liam Mona Nils Olga Pavel Quinn Rosa Samir Tara".split()
PLACES = "Lisbon Oslo Kyoto Lima Nairobi Quito Riga Sofia Tunis Utrecht Vienna Warsaw".split()
THINGS = "a lamp|a bicycle|two chairs|a camera|a winter coat|a kettle|a desk|an umbrella|a guitar|a tent".split("|")
TASKS = ["returns the sum of a list", "reverses a string", "counts the words in a text", "finds the largest number",
         "checks whether a number is prime", "merges two sorted lists", "removes duplicates from a list",
         "reads a file and returns its lines"]
LANGUAGES = ["Python", "JavaScript", "C"]
SUBJECTS = "the sea|a library|an old clock|the first snow|a night train|a quiet street|bread|maps|a broken bridge|bees".split("|")
MOODS = "calm|curious|proud|worried|tired|hopeful|amused|lonely".split("|")
VIEWS = "a child|a sailor|a gardener|a teacher|somebody far away|an engineer|a cat|a painter".split("|")


def form(r):
    name, place, thing, day = r.choice(NAMES), r.choice(PLACES), r.choice(THINGS), r.randint(1, 28)
    return r.choice([
        f"Write a short confirmation: {name} from {place} ordered {thing}. Delivery on March {day}.",
        f"Write a polite reminder to {name}: the invoice for {thing} was due on March {day}.",
        f"Fill in: Dear ..., thank you for your visit to ... on .... Name: {name}. City: {place}. Date: March {day}."])


def code(r):
    return f"Write a function in {r.choice(LANGUAGES)} that {r.choice(TASKS)}. Only the code."


def extraction(r):
    name, place, age = r.choice(NAMES), r.choice(PLACES), r.randint(18, 80)
    return (f"Extract name, city and age as JSON with the keys name, city, age. Text: {name} is {age} years old and lives "
            f"in {place}.")


def prose(r):
    return (f"Tell a short story about {r.choice(SUBJECTS)} and {r.choice(SUBJECTS)}, as {r.choice(VIEWS)} would tell it who is "
            f"{r.choice(MOODS)}; number {r.randint(100, 999)} must occur in it.")


def conversation(r):
    city = r.choice(PLACES)
    talk = [{"role": "user", "content": f"I am going to {city} for {r.randint(2, 9)} days."},
            {"role": "assistant", "content": f"That sounds lovely. What would you like to know about {city}?"},
            {"role": "user", "content": r.choice(["What should I pack?", "What should I eat there?", "How do I get around?"])}]
    return talk


def make_day(count, seed, tokens):
    """(label, request) for each request of the day."""
    r = random.Random(seed)
    kinds, weights = zip(*SHARES)
    makers = {"form": form, "code": code, "json": extraction, "prose": prose}
    day = []
    for _ in range(count):
        label = r.choices(kinds, weights)[0] if day else "form"
        if label == "repeat":
            day.append((label, dict(r.choice(day)[1])))
            continue
        request = {"kind": KIND_OF[label], "max_tokens": tokens, "seed": r.randrange(1 << 32),
                   "temperature": 0.8 if label in ("multi", "prose") else 0}
        if label == "multi":
            request["messages"] = conversation(r)
        else:
            request["prompt"] = makers[label](r)
        day.append((label, request))
    return day


def same(request):
    """What two requests have in common when they must get the same reply: without chance, their seeds do not count."""
    return json.dumps({k: v for k, v in request.items() if k != "seed" or request["temperature"] > 0}, sort_keys=True)


def write_day(path, day):
    path = pathlib.Path(path)
    path.write_text("".join(json.dumps(request) + "\n" for _, request in day))
    path.with_name(path.name + ".labels").write_text("".join(label + "\n" for label, _ in day))


# ---------------------------------------------------------------------------------------------------------- running it

class Stop(Exception):
    pass


class Run:
    def __init__(self, args):
        self.args, self.folder = args, pathlib.Path(args.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        asked = {name: getattr(args, name) for name in ("requests", "seed", "max_tokens", "model", "prefix_reuse", "draft")}
        settings = self.folder / "settings.json"
        if settings.exists() and json.loads(settings.read_text()) != asked:
            raise Stop(f"{self.folder} holds a run with other settings; give it another folder")
        settings.write_text(json.dumps(asked))
        self.day = make_day(args.requests, args.seed, args.max_tokens)
        self.learned = args.requests * 4 // 5
        self.began, self.differs = time.time(), False

    def say(self, what, done=None, of=None):
        end = "" if sys.stderr.isatty() else "\n"
        lead = "\r\033[K" if sys.stderr.isatty() else ""
        share = f" {done} of {of}" if of else ""
        print(f"{lead}{time.time() - self.began:6.0f} s  {what}{share}", end=end, file=sys.stderr, flush=True)

    def wane(self, *words, decodes=True):
        if decodes:
            words += ("--prefix-reuse" if self.args.prefix_reuse else "--no-prefix-reuse",)
        model = ["--model", self.args.model] if self.args.model else []
        threads = ["--threads", str(self.args.threads)] if self.args.threads and decodes else []
        done = subprocess.run([self.args.wane, *words, *model, *threads, "--json"], capture_output=True, text=True)
        if done.returncode == 1 and words[:2] == ("table", "replay") and done.stdout.strip():
            self.differs = True
        elif done.returncode != 0:
            raise Stop(f"{self.args.wane} {words[0]}: {done.stderr.strip() or done.returncode}")
        return json.loads(done.stdout)

    def kept(self, name, make):
        """The result of a step: from its file when it has been made."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            fresh = path.with_suffix(".new")
            fresh.write_text(json.dumps(make()))
            fresh.rename(path)
        result = json.loads(path.read_text())
        self.differs = self.differs or result.get("divergent", 0) > 0
        return result

    def record(self):
        for at in range(0, len(self.day), CHUNK):
            part, out = self.day[at:at + CHUNK], self.folder / f"traces/{at:06d}.jsonl"
            if out.exists():
                continue
            self.say("recording", at, len(self.day))
            out.parent.mkdir(exist_ok=True)
            prompts, fresh = self.folder / "chunk.jsonl", self.folder / f"recording-{at:06d}-{time.time_ns()}"
            write_day(prompts, part)
            self.wane("record", "--prompts", str(prompts), "--out", str(fresh), "--no-compress", "--trace-file-size", "1024G")
            files = sorted(fresh.glob("*.jsonl"))
            if len(files) != 1:
                raise Stop(f"{fresh} should hold one trace, and holds {len(files)}")
            files[0].rename(out)

    def choose(self, name, wanted):
        """A trace of those requests of the day whose number is wanted."""
        path = self.folder / f"{name}.jsonl"
        if path.exists():
            return path
        fresh = path.with_suffix(".new")
        with open(fresh, "w") as out:
            first = True
            for at in range(0, len(self.day), CHUNK):
                number = {}
                for line in open(self.folder / f"traces/{at:06d}.jsonl"):
                    record = json.loads(line)
                    if record["type"] == "origin":
                        if first:
                            out.write(line)
                        first = False
                        continue
                    if record["type"] == "request":
                        number[record["id"]] = at + len(number)
                    if number.get(record.get("id")) in wanted:
                        out.write(line)
                if len(number) != len(self.day[at:at + CHUNK]):
                    raise Stop(f"traces/{at:06d}.jsonl has {len(number)} requests; was a prompt too long?")
        fresh.rename(path)
        return path

    def build(self, count):
        learn = self.choose(f"learn-{count}", set(range(count)))
        table = self.folder / f"{count}.slmt"
        self.say(f"building a table of {count} requests")
        return table, self.kept(f"build-{count}", lambda: self.wane(
            "table", "build", "--log-file", str(learn), "--phrases", "--output", str(table), decodes=False))

    def replay(self, name, table, trace):
        self.say(f"replaying {name}")
        return self.kept(f"replay-{name}", lambda: self.wane(
            "table", "replay", "--log-file", str(trace), "--table", str(table), "--draft", self.args.draft))

    def all(self):
        write_day(self.folder / "day.jsonl", self.day)
        self.record()
        rest = range(self.learned, len(self.day))
        held = self.choose("held", set(rest))
        steps = [n for n in (4 ** i for i in range(2, 20)) if n < self.learned] + [self.learned]
        growth, table = [], None
        for count in steps:
            table, built = self.build(count)
            growth.append((count, built, self.replay(f"{count}", table, held)))
        # What was learned twice is stable, and must be hit; what was learned once is not in the table, which wants each context
        # seen twice; a repeat of something in the last fifth cannot be.
        labels = collections.defaultdict(set)
        earlier = collections.Counter(same(request) for _, request in self.day[:self.learned])
        for i in rest:
            label, request = self.day[i]
            seen = earlier[same(request)]
            labels["seen twice" if seen > 1 else "seen once" if seen == 1 else
                   "repeat, later" if label == "repeat" else label].add(i)
        kinds = {}
        for label, wanted in sorted(labels.items()):
            name = label.replace(", ", "-").replace(" ", "-")
            kinds[label] = len(wanted), self.replay(f"kind-{name}", table, self.choose(f"held-{name}", wanted))
        return growth, kinds


def row(name, count, r):
    all_hits = r["hit_rate"]["all"]
    draft = r["drafts"]["table"]
    return {"name": name, "requests": count, "tokens": r["tokens"], "divergent": r["divergent"],
            "covered": 1 - all_hits["absent"] if all_hits["tokens"] else 0, "strict": all_hits["strict"],
            "rank": all_hits["rank"], "proposed": draft["proposed"], "accepted": draft["accepted"],
            "acceptance": draft["acceptance"], "ms_without": r["ms_without"], "ms_saved": r["ms_saved"]}


def show(title, rows):
    print(f"{title:<16} requests   tokens  covered   strict     rank  proposed  accepted  ms saved  differ")
    for r in rows:
        print(f"{r['name']:<16} {r['requests']:>8} {r['tokens']:>8} {100 * r['covered']:>7.1f}% {100 * r['strict']:>7.1f}% "
              f"{100 * r['rank']:>7.1f}% {r['proposed']:>9} {100 * r['acceptance']:>8.1f}% {r['ms_saved']:>9.0f} "
              f"{r['divergent']:>7}")
    print()


def run(args):
    one = Run(args)
    growth, kinds = one.all()
    one.say("done")
    if sys.stderr.isatty():
        print(file=sys.stderr)
    held = args.requests - one.learned
    by_size = [row(f"table of {count}", held, result) for count, _, result in growth]
    by_kind = [row(label, count, result) for label, (count, result) in kinds.items()]
    print(f"{args.requests} requests; tables of the first ones, replayed on the last {held}\n")
    show("growth", by_size)
    show("kind", by_kind)
    report = {"requests": args.requests, "seed": args.seed, "held": held, "growth": by_size, "kinds": by_kind}
    (one.folder / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    return 1 if one.differs else 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("what", choices=["prompts", "run"])
    parser.add_argument("folder", metavar="FILE or FOLDER")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--wane", default="build/wane")
    parser.add_argument("--model")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--prefix-reuse", action="store_true")
    parser.add_argument("--draft", default="auto", choices=["auto", "always", "off"])
    args = parser.parse_args()
    if args.requests < 5 or args.max_tokens < 1:
        parser.error("a day has at least 5 requests of at least one token")
    if args.what == "prompts":
        write_day(args.folder, make_day(args.requests, args.seed, args.max_tokens))
        return 0
    try:
        return run(args)
    except Stop as why:
        print(f"day.py: {why}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nday.py: stopped; the same command goes on from here", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
