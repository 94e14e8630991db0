"""
The certified head in a real vLLM: a sketch of the rows that come by, then greedy tokens without the whole product, token by token those of vLLM's own head;
and what must have all logits still gets them.
"""
import pytest

import engine

TOPICS = ["the sea", "a clock", "winter", "a market", "the moon", "an old book", "bread", "a long road"]


def prompts(words):
    return [f"<|im_start|>user\n{words} {topic}.<|im_end|>\n<|im_start|>assistant\n" for topic in TOPICS]


@pytest.fixture(scope="module")
def llm():
    from wane_vllm import head
    head.GAIN = float("inf")  # the head answers whether or not it is the faster way on this machine
    with engine.started({"head": {"on": True}}, max_num_seqs=8) as made:
        yield made


@pytest.fixture(scope="module")
def place(llm):
    """The layer's head, once its sketch is made of what is said here."""
    from vllm import SamplingParams
    from wane_vllm import head
    where = head.places[-1]
    gather = SamplingParams(temperature=0, max_tokens=140, ignore_eos=True)
    for words in ("Tell me of", "Write a letter about", "List what you know of", "Explain to a child"):
        if where.chooser is None:
            llm.generate(prompts(words), gather, use_tqdm=False)
    for _ in range(60):  # it is built by another thread; steps go on meanwhile
        if where.chooser is not None or where.off:
            break
        llm.generate(prompts("Describe")[:1], SamplingParams(temperature=0, max_tokens=8, ignore_eos=True), use_tqdm=False)
    assert where.off is None and where.chooser is not None
    return where


def test_tokens_are_those_of_the_whole_product(llm, place):
    from vllm import SamplingParams
    params = SamplingParams(temperature=0, max_tokens=60, ignore_eos=True)
    llm.generate(prompts("Say something about"), SamplingParams(temperature=0, max_tokens=30, ignore_eos=True), use_tqdm=False)  # both ways, at first
    said = {}
    before = place.counts["head"]
    for mode, off in (("head", None), ("dense", "a comparison")):
        place.off = off
        said[mode] = [list(reply.outputs[0].token_ids) for reply in llm.generate(prompts("Write a story about"), params, use_tqdm=False)]
        place.off = None
    assert said["head"] == said["dense"]
    steps = place.counts["head"] - before
    assert steps > 40
    print(f"\n{sum(map(len, said['head']))} tokens, {steps} steps by the head: the same tokens; {place.counts}")


def test_what_reads_logits_gets_them(llm, place):
    from vllm import SamplingParams
    before = place.counts["head"]
    reply = llm.generate(prompts("Name")[:1], SamplingParams(temperature=0, max_tokens=6, logprobs=5), use_tqdm=False)[0]
    assert all(len(step) >= 5 and all(one.logprob > -50 for one in step.values()) for step in reply.outputs[0].logprobs)
    llm.generate(prompts("Name"), SamplingParams(temperature=0.9, seed=3, max_tokens=6), use_tqdm=False)
    assert place.counts["head"] == before
