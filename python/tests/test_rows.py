"""Rows against NumPy: the best, log-sums, entropy and its bounds, the vote of three."""
import itertools

import numpy as np
import pytest

import wane
from conftest import ordered


def rows():
    rng = np.random.default_rng(11)
    for heat in (0.1, 0.5, 1, 2, 5, 20):
        yield (heat * rng.gumbel(size=4000)).astype(np.float32)
    flat = np.zeros(4000, np.float32)
    flat[100] = flat[200] = 1
    yield flat
    masked = np.full(4000, -np.inf, np.float32)
    masked[[5, 6]] = 2
    yield masked


def test_the_best():
    for row in rows():
        found = wane.best(row, 20)
        tokens, logits = ordered(row, 20)
        np.testing.assert_array_equal(found.tokens, tokens)
        np.testing.assert_array_equal(found.logits, logits)
        assert found.low == found.high == pytest.approx(np.logaddexp.reduce(row.astype(np.float64)), abs=1e-6)
        assert len(found) == 20 and not found.whole
    assert wane.best(row, 10**6).whole and wane.best(row[np.newaxis], 2).tokens.tolist() == [5, 6]
    given = wane.Candidates.of([9, 3, 7, 1], [1.0, 2.0, 2.0, 5.0], log_sum=6.0, vocab_size=4)
    assert given.tokens.tolist() == [1, 3, 7, 9] and given.whole and given.low == 6


def test_signals():
    for row in rows():
        p = np.exp(row.astype(np.float64) - np.logaddexp.reduce(row.astype(np.float64)))
        entropy = -(p[p > 0] * np.log(p[p > 0])).sum()
        s = wane.signals(row)
        assert s.entropy == pytest.approx(entropy, abs=1e-4) and s.margin == pytest.approx(np.diff(np.sort(row)[-2:])[0], rel=1e-6)
        for count in (2, 20, 4000):
            few = wane.best(row, count)
            low, high = wane.entropy_bounds(few)
            guess = wane.signals(few).entropy
            assert low - 1e-5 <= entropy <= high + 1e-5 and low - 1e-5 <= guess <= high + 1e-5
            # As vLLM gives them: log-probabilities, whose log-sum is 0.
            other = wane.Candidates.of(few.tokens, np.maximum(few.logits - np.float32(few.low), -1e4), log_sum=0.0)
            assert wane.signals(other, 4000).entropy == pytest.approx(guess, abs=1e-3)


def test_refused():
    for bad in (np.array([1, np.nan]), np.full(3, -np.inf)):
        with pytest.raises(wane.BadRow, match="NaN, or nothing"):
            wane.best(bad)
        with pytest.raises(wane.BadRow):
            wane.signals(bad)
    for bad in (np.zeros((2, 3)), np.zeros(0), 4.0):
        with pytest.raises(ValueError, match="shape"):
            wane.best(bad)
    with pytest.raises(ValueError, match="count"):
        wane.best(np.zeros(3), 0)
    with pytest.raises(ValueError, match="vocab_size"):
        wane.signals(wane.Candidates.of([1, 2], [1, 2], 3.0))
    with pytest.raises(wane.InvalidArgument, match="weigh"):
        wane.signals(wane.Candidates.of([1, 2], [1, 2], 1.0), 10)
    with pytest.raises(wane.InvalidArgument, match="log-sum"):
        wane.signals(wane.Candidates.of([1, 2], [1, 2]), 10)
    with pytest.raises(ValueError, match="2 tokens have 1 logits"):
        wane.Candidates.of([1, 2], [1])


def test_a_vote_of_three():
    rng = np.random.default_rng(12)
    for count in (1, 2, 3, 6):
        p = -np.sort(-rng.dirichlet(np.ones(count)))
        expected = np.zeros(count)
        for draws in itertools.product(range(count), repeat=3):
            twice = [i for i in draws if draws.count(i) > 1]
            expected[twice[0] if twice else min(draws)] += np.prod(p[list(draws)])
        np.testing.assert_allclose(wane.vote_of_three(p), expected, atol=1e-12)
        np.testing.assert_allclose(wane.vote_of_three(3 * p), expected, atol=1e-12)
    for bad in ([], [0, 0], [-1, 2], [0.2, 0.8], [np.nan], [[1.0]], [np.inf]):
        with pytest.raises(ValueError, match="probabilities"):
            wane.vote_of_three(bad)
