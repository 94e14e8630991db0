"""wane_vllm.head without vLLM: the chosen token against dense heads of many sums, the watch over a batch, the place up to the choice."""
import types

import numpy as np
import pytest

import wane

head = pytest.importorskip("wane_vllm.head")
from wane_vllm import settings  # noqa: E402


def bits(values):
    """Float32 as bits of bfloat16."""
    return (head.rounded(values, "bf16").view(np.uint32) >> 16).astype(np.uint16).view(np.int16)


def floats(taken):
    return (taken.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def sums(weights, row):
    """The same products summed in float32 in several orders, rounded as a dense head of bfloat16 does."""
    products = weights * row
    ways = [np.cumsum(products, axis=1, dtype=np.float32)[:, -1], np.cumsum(products[:, ::-1], axis=1, dtype=np.float32)[:, -1],
            products.sum(axis=1), np.cumsum(products.reshape(len(products), 8, -1).sum(axis=1), axis=1, dtype=np.float32)[:, -1]]
    return [head.rounded(way, "bf16") for way in ways]


@pytest.fixture(scope="module")
def case():
    """Weights of bfloat16 with copies among them, and hidden rows, both as bfloat16 has them."""
    rng = np.random.default_rng(11)
    weights = rng.standard_normal((3000, 96), dtype=np.float32) / 4
    weights[2000:2400] = weights[:400]
    hidden = 1 + 3 * rng.standard_normal((700, 96), dtype=np.float32) / np.sqrt(1 + np.arange(96, dtype=np.float32) / 4)
    return bits(weights), head.rounded(hidden.astype(np.float32), "bf16")


@pytest.fixture(scope="module")
def chooser(case):
    weights, hidden = case
    with wane.Head(wane.Weights.packed(weights, "bf16", *weights.shape), sample=hidden[:300]) as made:
        yield head.Chooser(weights, "bf16", made)


def test_rounded():
    values = np.random.default_rng(1).standard_normal(10000).astype(np.float32)
    low = (values.view(np.uint32) & 0xFFFF0000).view(np.float32)
    high = ((values.view(np.uint32) & 0xFFFF0000) + 0x10000).view(np.float32)
    got = head.rounded(values, "bf16")
    assert (np.abs(got - values) <= np.minimum(np.abs(low - values), np.abs(high - values))).all()
    ties = np.array([0x3F808000, 0x3F818000], np.uint32).view(np.float32)  # to even
    assert head.rounded(ties, "bf16").view(np.uint32).tolist() == [0x3F800000, 0x3F820000]
    assert head.rounded(values, "f32") is values and (head.rounded(values, "f16") == values.astype(np.float16)).all()


def test_the_token_of_every_sum(case, chooser):
    weights, hidden = floats(case[0]), case[1][300:]
    tokens, logits = chooser.choose(hidden)
    opened = ties = 0
    for row, token in enumerate(tokens):
        ways = sums(weights, hidden[row])
        ties += (ways[0] == ways[0].max()).sum() > 1
        opened += token < 0
        if token >= 0:
            assert {int(way.argmax()) for way in ways} == {int(token)}
            assert abs(logits[row] - ways[0].max()) <= abs(ways[0].max()) / 64
    assert ties > 20 and opened < len(tokens) / 4


def test_the_first_of_equals_and_more_than_are_looked_at(case):
    weights = np.repeat(case[0][:50], 3, axis=0)
    with wane.Head(wane.Weights.packed(weights, "bf16", *weights.shape)) as made:
        found = head.Chooser(weights, "bf16", made)
        tokens, _ = found.choose(case[1][:200])
        assert (tokens[tokens >= 0] % 3 == 0).all() and (tokens >= 0).any()
    weights = np.repeat(case[0][:50], head.MOST + 1, axis=0)
    with wane.Head(wane.Weights.packed(weights, "bf16", *weights.shape)) as made:
        assert (head.Chooser(weights, "bf16", made).choose(case[1][:20])[0] == -1).all()


class Params:
    """As vLLM's, with a field that this page knows nothing of."""

    __struct_fields__ = ("temperature", "logprobs", "min_tokens", "bad_words", "max_tokens", "repetition_penalty", "of_tomorrow")

    def __init__(self, temperature=1.0, logprobs=None, min_tokens=0, bad_words=None, max_tokens=16, repetition_penalty=1.0,
                 of_tomorrow=None):
        self.__dict__.update({name: value for name, value in locals().items() if name != "self"})


def test_plain():
    assert head.plain(Params(0.0)) and head.plain(Params(0.0, max_tokens=5, bad_words=[], repetition_penalty=1))
    for other in (Params(), Params(0.0, logprobs=0), Params(0.0, min_tokens=3), Params(0.0, bad_words=["x"]),
                  Params(0.0, repetition_penalty=1.1), Params(0.0, of_tomorrow=False), Params(0.0, of_tomorrow=np.zeros(2)), None):
        assert not head.plain(other)


def change(size, removed=(), added=(), moved=()):
    way = types.SimpleNamespace
    return way(batch_size=size, removed=removed, added=[(row, params, None, []) for row, params in added],
               moved=[(a, b, way(name=how)) for a, b, how in moved])


def test_watch():
    greedy, drawn = Params(0.0), Params(0.7)
    watch = head.Watch()
    watch.update(None)
    assert not watch.plain
    watch.update(change(2, added=[(0, greedy), (1, greedy)]))
    assert watch.plain and watch.rows == 2
    watch.update(change(3, added=[(2, drawn)]))
    assert not watch.plain
    watch.update(None)
    assert not watch.plain
    watch.update(change(3, moved=[(0, 2, "SWAP")]))
    watch.update(change(2, removed=[1], moved=[(2, 1, "UNIDIRECTIONAL")]))
    assert not watch.plain  # the drawn one went to row 0
    watch.update(change(1, removed=[0], moved=[(1, 0, "UNIDIRECTIONAL")]))
    assert watch.plain and watch.rows == 1
    watch.update(change(1, added=[(0, drawn)]))
    assert not watch.plain
    watch.update(change(0, removed=[0]))
    assert not watch.plain


def switch_on(monkeypatch):
    monkeypatch.setattr(head, "current", lambda: settings.parse({"head": {"on": True}}))


def test_settings(monkeypatch):
    for given, expected in (({}, False), ({"sketch": "x"}, True), ({"on": False, "threads": 2}, False)):
        monkeypatch.setattr(head, "current", lambda given=given: settings.parse({"head": given}))
        assert head.Options.of_settings().on is expected
    for given, word in (({"thread": 1}, "head: .thread. is not known"), ({"threads": 0}, "threads"), ({"sigmas": 50}, "sigmas")):
        monkeypatch.setattr(head, "current", lambda given=given: settings.parse({"head": given}))
        with pytest.raises(settings.SettingsError, match=word):
            head.Options.of_settings()
    with pytest.raises(settings.SettingsError, match="object"):
        settings.parse({"head": 1})


def test_one_question_a_step(monkeypatch):
    switch_on(monkeypatch)
    monkeypatch.setattr(head, "_others", lambda config: [])
    told = head.HeadWatch(None)
    told.update_state(change(2, added=[(0, Params(0.0)), (1, Params(0.0))]))
    assert head._take(2) and not head._take(2)
    told.update_state(None)
    assert not head._take(3) and not head._take(2)  # rows of a prompt, and whatever comes after it
    assert told.is_argmax_invariant() and told.apply("logits") == "logits"


def test_other_processors(monkeypatch):
    class Silent:
        leaves_best = staticmethod(lambda params: params.max_tokens < 10)

    assert head.HeadWatch(None).watch is None  # off by itself
    switch_on(monkeypatch)
    config = types.SimpleNamespace(model_config=types.SimpleNamespace(logits_processors=[head.HeadWatch, dict]))
    assert head.HeadWatch(config).watch is None
    config.model_config.logits_processors = ["wane_vllm.head:HeadWatch", Silent]
    watch = head.HeadWatch(config).watch
    watch.update(change(1, added=[(0, Params(0.0))]))
    assert not watch.plain
    watch.update(change(1, added=[(0, Params(0.0, max_tokens=5))]))
    assert watch.plain


class Engine:
    """A dense head whose time is given."""

    def __init__(self, weights):
        self.weights, self.wrong = floats(weights), False

    def ask(self, place, hidden):
        return place.logits(hidden, lambda: self.dense(hidden), lambda tokens, logits: ("some", tokens.tolist()),
                            lambda made: made.argmax(axis=1))

    def dense(self, hidden):
        logits = head.rounded((hidden.astype(np.float64) @ self.weights.T.astype(np.float64)).astype(np.float32), "bf16")
        return -logits if self.wrong else logits


@pytest.mark.parametrize("kept", [True, False])
def test_place(case, tmp_path, monkeypatch, kept):
    weights, hidden = case
    monkeypatch.setattr(head, "SAMPLE", 100)
    options = head.Options(on=True, sketch=str(tmp_path / "x.sketch") if kept else None)
    engine, place = Engine(weights), head.Place(options)
    for row in range(0, 400, 4):
        if place.chooser is None:
            place.prepare(weights, "bf16", hidden[row:row + 4])
            if place._thread:
                place._thread.join()
    assert place.chooser is not None and place.off is None
    for row in range(head.TRIES):
        assert isinstance(engine.ask(place, hidden[row:row + 1]), np.ndarray)
    pace = place.paces[1]
    pace.times["head"].extend([1.0] * head.TRIES)
    pace.times["dense"].extend([2.0] * head.TRIES)
    answers = [engine.ask(place, hidden[row:row + 1]) for row in range(100, 300)]
    some = [int(answer[1][0]) == engine.dense(hidden[row:row + 1]).argmax() for row, answer in zip(range(100, 300), answers)
            if answer[0] == "some"]
    assert all(some) and len(some) == place.counts["head"] > 100 and place.counts["open"] + len(some) == 200
    pace.times["dense"].extend([1.0] * head.TRIES)
    assert isinstance(engine.ask(place, hidden[:1]), np.ndarray) and place.counts["dense"] == 1
    engine.ask(place, hidden[:2])
    engine.wrong = True
    engine.ask(place, hidden[10:13])
    assert place.off is not None
    place.close()
    if kept:
        again = head.Place(options)
        again.prepare(weights, "bf16", hidden[:1])
        again._thread.join()
        assert again.chooser is not None
        again.close()


def test_no_number_is_left_to_the_product(chooser):
    place = head.Place(head.Options())
    place.chooser = chooser
    assert place._choose(np.full((1, 96), np.nan, np.float32)) is None
    place.chooser = None
    place.close()


def test_fields_of_this_vllm():
    params = pytest.importorskip("vllm").SamplingParams
    assert head.HARMLESS <= set(params.__struct_fields__)
    assert head.plain(params(temperature=0, stop=["x"], ignore_eos=True, watermarking=False)) and not head.plain(params(temperature=0, logprobs=1))
    assert not head.plain(params(temperature=0, logit_bias={1: 2.0})) and not head.plain(params(temperature=0.5))
    assert not head.plain(params(temperature=0, watermarking=True))
