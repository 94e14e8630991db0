#!/usr/bin/env python3
"""
What vLLM's CPU path spends on the head and the sampler, and what wane's certified head makes of it: shares of a step, both ways
interleaved in one engine, tokens compared.

    python bench/vllm_head.py MODEL [--batches 1,4] [--tokens 100] [--rounds 3] [--always] [--compiled] [--sketch FILE] [--threads N]
    [--json FILE]

MODEL is a folder of safetensors. Needs vLLM for CPUs, and wane_vllm beside it (installed, or by PYTHONPATH). All requests are greedy.
First the rows for the sketch are gathered from other replies, unless --sketch names a file that is there. Then rounds of the same
prompts go without the head and with it. --always takes the head wherever it is certain, also where it is slower: for comparing tokens.
--compiled lets vLLM compile the model (minutes). Times are medians of decode steps, in milliseconds; `forward`, `logits`, `sample` and
`step` are clocks around the calls of vLLM's runner that carry these names. Exit code 1: a token differed.
"""
import argparse
import json
import os
import statistics
import sys
import time

PROMPTS = ["The capital of France is", "Once upon a time there was a small", "def fibonacci(n):\n", "The three laws of thermodynamics are",
           "To make bread, you need", "In 1969, the first", "A list of ten animals:\n1.", "The main cause of the war was",
           "Dear Sir or Madam,", "import numpy as np\n\n", "Photosynthesis is the process", "Q: What is 17 times 23?\nA:",
           "She opened the letter and", "SELECT name FROM", "The difference between a virus and a bacterium is", "1, 1, 2, 3, 5, 8,",
           "Chapter 1\n\nIt was a dark night, and", "My favourite recipe:",
           "According to the contract, the tenant", "<html>\n<head>\n", "The Pacific Ocean is", "Breaking news:", "class Stack:\n    def",
           "Translate to German: Good morning, how are you?"]


def say(text):
    print(text, file=sys.stderr, flush=True)


class Clock:
    """Clocks around methods of vLLM's objects, for measuring alone."""

    def __init__(self):
        self.times, self.on = {}, False

    def around(self, thing, method, name):
        inner = getattr(thing, method)

        def timed(*args, **kwargs):
            start = time.perf_counter()
            result = inner(*args, **kwargs)
            if self.on:
                self.times.setdefault(name, []).append(1e3 * (time.perf_counter() - start))
            return result
        setattr(thing, method, timed)

    def take(self):
        """Times of the steps since the last take, without the first, which reads the prompts."""
        taken, self.times = {name: values[1:] for name, values in self.times.items()}, {}
        return taken


def engine(args):
    os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0",
                      WANE_VLLM=json.dumps({"head": {"on": True, "threads": args.threads, "sketch": args.sketch or None}}))
    for name, value in (("VLLM_CPU_KVCACHE_SPACE", "1"), ("VLLM_LOGGING_LEVEL", "ERROR"), ("HF_HUB_OFFLINE", "1")):
        os.environ.setdefault(name, value)
    from vllm import LLM
    from wane_vllm import head
    if args.always:
        head.GAIN = float("inf")
    head.register()
    known = {entry.value for entry in head.metadata.entry_points(group="vllm.logits_processors")}
    mine = [] if "wane_vllm.head:HeadWatch" in known else [head.HeadWatch]
    llm = LLM(model=args.model, enforce_eager=not args.compiled, max_model_len=1024, max_num_seqs=max(4, *args.batches),
              max_num_batched_tokens=1024, enable_prefix_caching=False, logits_processors=mine or None)
    return llm, head


def gather(llm, place, tokens):
    """Replies until the layer has its sketch; greedy ones, as the layer looks at no others, but of many prompts."""
    from vllm import SamplingParams
    start, number = time.perf_counter(), 0
    while place.chooser is None and place.off is None:
        prompts = [f"{PROMPTS[(at + number) % len(PROMPTS)]} {PROMPTS[at + number * 7 % 13]}" for at in range(4)]
        llm.generate(prompts, SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True), use_tqdm=False)
        number += 1
        say(f"gathering, {number}: {place.counts['gather']} steps")
        if number > 40 or not place.counts["gather"]:
            sys.exit("vLLM's layer was never asked for a plain batch")
    if place.off:
        sys.exit(f"the head is off: {place.off}")
    say(f"sketch after {time.perf_counter() - start:.0f} s: {place.chooser.head.facts}")


def compare(llm, head, place, clock, batch, args):
    """Rounds of one batch size without the head and with it."""
    from vllm import SamplingParams
    params = SamplingParams(temperature=0, max_tokens=args.tokens, ignore_eos=True)
    times, same, tokens, before = {"off": {}, "on": {}}, 0, 0, dict(place.counts)
    place.paces.pop(batch, None)
    pace = SamplingParams(temperature=0, max_tokens=3 * head.TRIES, ignore_eos=True)
    llm.generate(PROMPTS[:batch], pace, use_tqdm=False)
    for number in range(args.rounds):
        prompts = [PROMPTS[(number * batch + at) % len(PROMPTS)] + " " * (number * batch // len(PROMPTS)) for at in range(batch)]
        said = {}
        for mode in ("off", "on") if number % 2 else ("on", "off"):
            place.off, clock.on = ("measured" if mode == "off" else None), True
            said[mode] = [list(reply.outputs[0].token_ids) for reply in llm.generate(prompts, params, use_tqdm=False)]
            place.off, clock.on = None, False
            for name, values in clock.take().items():
                times[mode].setdefault(name, []).extend(values)
        tokens += sum(map(len, said["off"]))
        same += sum(a == b for one, two in zip(said["off"], said["on"]) for a, b in zip(one, two))
        say(f"batch {batch}, round {number + 1} of {args.rounds}: {tokens} tokens, {tokens - same} differ")
    medians = {mode: {name: round(statistics.median(values), 3) for name, values in kinds.items()} for mode, kinds in times.items()}
    counts = {name: place.counts[name] - before[name] for name in place.counts}
    return {"batch": batch, "steps": len(times["off"]["step"]), "off": medians["off"], "on": medians["on"], "tokens": tokens,
            "differ": tokens - same, "counts": counts, "gain": round(medians["off"]["step"] / medians["on"]["step"], 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--batches", type=lambda text: [int(part) for part in text.split(",")], default=[1, 4])
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sketch")
    parser.add_argument("--always", action="store_true")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    llm, head = engine(args)
    place, clock = head.places[0], Clock()
    runner = llm.llm_engine.model_executor.driver_worker.worker.model_runner
    for thing, method, name in ((runner, "_model_forward", "forward"), (runner.model, "compute_logits", "logits"),
                                (runner, "_sample", "sample"), (llm.llm_engine, "step", "step")):
        clock.around(thing, method, name)
    gather(llm, place, args.tokens)
    results = []
    for batch in args.batches:
        results.append(compare(llm, head, place, clock, batch, args))
        print(json.dumps(results[-1]), flush=True)
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"model": args.model, "facts": str(place.chooser.head.facts), "results": results}, file, indent=1)
    return any(result["differ"] for result in results)


if __name__ == "__main__":
    sys.exit(main())
