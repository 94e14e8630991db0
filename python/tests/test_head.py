"""Head against NumPy: the same tokens and logits as the whole product, for every shape and type; files; what is refused; threads; what is closed."""
import threading

import numpy as np
import pytest

import wane
from conftest import ordered, reference


@pytest.fixture(scope="module")
def head(matrix):
    weights, hidden = matrix
    with wane.Head(weights, sample=hidden[:400], rows=8) as made:
        yield made


def check(head, weights, hidden, k=10):
    tokens, logits = head.topk(hidden, k)
    for row in range(len(hidden)):
        exact = reference(weights, hidden[row])
        expected = ordered(exact, k)
        # Sums in another order may end in another last bit, which may part two that are as good as equal.
        np.testing.assert_allclose(logits[row], expected[1], rtol=3e-6, atol=3e-6)
        np.testing.assert_allclose(logits[row], exact[tokens[row]], rtol=3e-6, atol=3e-6)
        assert len(set(tokens[row].tolist())) == k


@pytest.mark.parametrize("rows", [1, 7, 8, 20])
def test_as_the_whole_product(head, matrix, rows):
    weights, hidden = matrix
    before = head.work
    check(head, weights, hidden[400:400 + rows])
    after = head.work
    assert after.rows - before.rows == rows
    if rows >= 7:  # now and then too much survives in one, which then takes a whole product
        assert after.rescored - before.rescored < rows * len(weights) / 2


def test_shapes(head, matrix):
    weights, hidden = matrix
    one_tokens, one_logits = head.topk(hidden[500])
    assert one_tokens.shape == one_logits.shape == (1,) and one_tokens.dtype == np.int32 and one_logits.dtype == np.float32
    two = head.topk(hidden[500:502], 3)
    assert two[0].shape == two[1].shape == (2, 3) and two[0][0, 0] == one_tokens[0]
    assert head.topk(hidden[500], 10**6)[0].shape == (5000,)
    np.testing.assert_array_equal(np.sort(head.topk(hidden[500], 5000)[0]), np.arange(5000))
    assert head.topk(np.zeros((0, 96)))[0].shape == (0, 1)
    # Other types and orders are as good.
    for other in (hidden[500:502].astype(np.float64), np.asfortranarray(hidden[500:502]), hidden[500:502].tolist()):
        np.testing.assert_array_equal(head.topk(other, 3)[0], two[0])


def test_named_tokens_and_sums(head, matrix):
    weights, hidden = matrix
    rows = hidden[510:520]
    exact = reference(weights, rows)
    np.testing.assert_allclose(head.logits(rows, [3, 4999, 3]), exact[:, [3, 4999, 3]], rtol=3e-6, atol=3e-6)
    assert head.logits(rows[0], []).shape == (0,)
    for scale in (1.0, 0.5):
        whole = np.log(np.exp(scale * exact.astype(np.float64)).sum(axis=1))
        low, high = head.log_sum(rows, scale)
        assert np.all(low <= whole + 1e-5) and np.all(whole <= high + 1e-5) and np.all(high - low < 2)
        low, high = head.log_sum(rows, scale, exact=True)
        np.testing.assert_array_equal(low, high)
        np.testing.assert_allclose(low, whole, atol=1e-4)


def test_in_the_place_of_a_product(head, matrix):
    weights, hidden = matrix
    rows = hidden[530:534]
    exact = reference(weights, rows)
    given = head.masked(rows, 50)
    assert given.shape == exact.shape and np.isfinite(given).sum(axis=1).tolist() == [50] * 4
    np.testing.assert_array_equal(given.argmax(axis=1), exact.argmax(axis=1))
    np.testing.assert_allclose(given[np.isfinite(given)], exact[np.isfinite(given)], rtol=3e-6, atol=3e-6)
    out = np.empty(5000, np.float32)
    assert head.masked(rows[1], 50, out) is out
    np.testing.assert_array_equal(out, given[1])
    with pytest.raises(ValueError, match="shape"):
        head.masked(rows, 50, out)


def test_several_questions_of_a_scan(head, matrix):
    weights, hidden = matrix
    scan = head.scan(hidden[540:543])
    exact = reference(weights, hidden[542])
    found = scan.best(20, row=2)
    np.testing.assert_array_equal(found.tokens, ordered(exact, 20)[0])
    p = np.exp(exact.astype(np.float64) - np.logaddexp.reduce(exact.astype(np.float64)))
    whole = np.logaddexp.reduce(exact.astype(np.float64))
    assert found.low - 1e-5 <= whole <= found.high + 1e-5 and found.vocab_size == 5000
    signals = scan.signals(2)
    assert signals.entropy == pytest.approx(-(p * np.log(p)).sum(), abs=0.2)
    assert signals.margin == pytest.approx(found.logits[0] - found.logits[1], abs=1e-6) and np.isnan(signals.kurtosis)
    np.testing.assert_allclose(scan.logits([1, 2], row=2), exact[[1, 2]], rtol=3e-6, atol=3e-6)
    with pytest.raises(ValueError, match="no row 3"):
        scan.best(row=3)
    head.topk(hidden[0])
    with pytest.raises(ValueError, match="scan again"):
        scan.best()


def test_files(matrix, tmp_path):
    weights, hidden = matrix
    path, other = tmp_path / "a.sketch", tmp_path / "b.sketch"
    with pytest.raises(wane.NotFound, match="a.sketch"):
        wane.Head.open(weights, path)
    heard = []
    with wane.Head(weights, path, sample=hidden[:400], progress=lambda what, share: heard.append(share)) as head:
        assert head.facts.built and head.facts.digest == head.weights.digest() and head.facts.statistics_rows == 400
        head.save(other)
    assert heard and all(0 <= share <= 1 for share in heard)
    assert other.read_bytes() == path.read_bytes()
    with wane.Head.open(weights, other) as head:
        assert not head.facts.built
        check(head, weights, hidden[560:563])
    changed = weights.copy()
    changed[0, 0] += 1
    with pytest.raises(wane.FormatError, match="another"):
        wane.Head.open(changed, path)
    with wane.Head(changed, path, sample=hidden[:400]) as head:
        assert head.facts.built  # the digest is another: built again
    path.write_bytes(other.read_bytes()[:-5])
    with pytest.raises(wane.FormatError, match="Build it again"):
        wane.Head.open(weights, path)
    assert wane.Head.build(weights, path, mean=hidden.mean(0), covariance=np.cov(hidden.T), sample_rows=600).facts.statistics_rows == 600


def test_progress_stops_and_raises(matrix, tmp_path):
    weights, _ = matrix
    with pytest.raises(wane.Cancelled):
        wane.Head(weights, tmp_path / "x", progress=lambda what, share: False)

    def fails(what, share):
        raise KeyError("mine")
    with pytest.raises(KeyError, match="mine"):
        wane.Head(weights, tmp_path / "x", progress=fails)
    assert not list(tmp_path.iterdir())  # nothing half done


@pytest.mark.parametrize("change, kind, words", [
    (dict(sigmas=1), ValueError, "sigmas"), (dict(rows=0), ValueError, "1 to 64"), (dict(rows=65), ValueError, "1 to 64"),
    (dict(sample=np.zeros((10, 95))), ValueError, "sample has the shape"), (dict(mean=np.zeros(96)), ValueError, "covariance"),
    (dict(sample=np.full((10, 96), np.nan)), ValueError, "no number"), (dict(kernel="abacus"), wane.Unsupported, "abacus"),
    (dict(found=True), ValueError, "path"), (dict(digest="d" * 33), ValueError, "32 characters"), (dict(digest="a\0b"), ValueError, "zero"),
])
def test_refused_settings(matrix, change, kind, words):
    with pytest.raises(kind, match=words):
        wane.Head(matrix[0], **change)


def test_refused_rows(head, matrix):
    _, hidden = matrix
    for bad in (hidden[0, :95], hidden[:2, :, np.newaxis], 3.0):
        with pytest.raises(ValueError, match="hidden has the shape"):
            head.topk(bad)
    with pytest.raises(TypeError, match="numbers"):
        head.topk(np.array(["a"] * 96))
    with pytest.raises(ValueError, match="k is 0"):
        head.topk(hidden[0], 0)
    with pytest.raises(wane.WaneError, match="NaN"):
        head.topk(np.full(96, np.nan))
    with pytest.raises(wane.InvalidArgument, match="no token 5000"):
        head.logits(hidden[0], [5000])
    with pytest.raises(TypeError, match="integers"):
        head.logits(hidden[0], [1.5])
    with pytest.raises(ValueError, match="32 bits"):
        head.logits(hidden[0], [2**31])
    with pytest.raises(wane.InvalidArgument, match="this head takes 1 to 8"):
        head.scan(hidden[:9])
    check(head, matrix[0], hidden[570:572])  # and goes on


def test_closed(matrix):
    head = wane.Head(matrix[0])
    scan = head.scan(matrix[1][0])
    with head:
        pass
    assert head.closed
    head.close()
    for use in (lambda: head.topk(matrix[1][0]), lambda: head.work, lambda: head.save("x"), scan.best, head.__enter__):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_threads_take_turns(head, matrix):
    weights, hidden = matrix
    expected = head.topk(hidden[:64], 5)[0]
    failures = []

    def work(at):
        for i in range(at, 64, 4):
            if not np.array_equal(head.topk(hidden[i], 5)[0], expected[i]):
                failures.append(i)
    threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
