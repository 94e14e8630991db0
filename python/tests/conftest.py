"""What several tests need: a head with hidden rows as models have them, and traces of made-up replies. Run: pytest python/tests"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
if not (ROOT / "python" / "wane" / "_ffi.py").exists():  # the sources are not the package, wherever pytest was started
    sys.path[:] = [place for place in sys.path if pathlib.Path(place or ".").resolve() != ROOT / "python"]

import numpy as np  # noqa: E402
import pytest  # noqa: E402

import wane  # noqa: E402

ORIGIN = wane.Origin("0123456789abcdef" * 2, "fedcba9876543210" * 2, 5000)


@pytest.fixture(scope="session")
def matrix():
    """Weights (V, d) and hidden rows whose coordinates are of unequal size, as those of models are."""
    rng = np.random.default_rng(7)
    weights = rng.standard_normal((5000, 96), dtype=np.float32) / 4
    hidden = 1 + 3 * rng.standard_normal((600, 96), dtype=np.float32) / np.sqrt(1 + np.arange(96, dtype=np.float32) / 4)
    return weights, hidden.astype(np.float32)


def reference(weights, hidden):
    """Logits as the library defines them: products summed in double, rounded to float32."""
    return (np.asarray(hidden, np.float64) @ np.asarray(weights, np.float64).T).astype(np.float32)


def ordered(logits, k):
    """The k best, best first, the smaller token among equals."""
    order = np.lexsort((np.arange(logits.size), -logits))[:k]
    return order.astype(np.int32), logits[order]


def row_after(tokens, vocab_size=5000):
    """A made-up model's logits after some tokens: they depend on the last three alone, and are sure of one."""
    rng = np.random.default_rng([int(t) for t in tokens[-3:]])
    row = rng.standard_normal(vocab_size).astype(np.float32)
    row[rng.integers(vocab_size)] += 20
    return row


def record(folder, requests=12, length=25, tenant="", plain=True, start=0):
    """Traces of greedy replies of that model to three prompts."""
    with wane.Tracer(folder, ORIGIN, plain=plain) as tracer:
        for n in range(start, start + requests):
            with tracer.request([1, 2, 3 + n % 3, 4], id=f"r{n}", tenant=tenant, kind="code" if n % 2 else "single", seed=n) as traced:
                tokens = [1, 2, 3 + n % 3, 4]
                for _ in range(length):
                    row = row_after(tokens)
                    token = int(row.argmax())
                    traced.token(token, row)
                    tokens.append(token)
                traced.end()
    return tokens


@pytest.fixture(scope="session")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    record(folder)
    return folder


@pytest.fixture(scope="session")
def table_path(traces, tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "x.slmt"
    wane.Table.build([traces], path)
    return path
