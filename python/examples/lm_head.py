"""
A decoder in plain NumPy, in the style of transformers, and its lm_head replaced by wane's certified head: the same text, less time in the head.

    python python/examples/lm_head.py [--small]

The weights are random, but as a trained model's are in what matters here: hidden rows have a few large coordinates, and a token stands out.
"""
import argparse
import time
from types import SimpleNamespace

import numpy as np

import wane


class Linear:
    """y = x @ weight.T, as torch.nn.Linear has it."""

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, x):
        return x @ self.weight.T


class CertifiedLinear:
    """Called like the layer that it replaces: the k best logits of each row are exact, the others -inf. Greedy, and top-k up to k, draw the same."""

    def __init__(self, linear, sample, k=64):
        self.head, self.k = wane.Head(linear.weight, sample=sample), k

    def __call__(self, x):
        rows = x.reshape(-1, x.shape[-1])
        return self.head.masked(rows, self.k).reshape(*x.shape[:-1], -1)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Decoder:
    """`layers` blocks of attention and MLP with a residual, RMS norms, tied to nothing."""

    def __init__(self, config, seed=0):
        rng = np.random.default_rng(seed)

        def random(*shape):
            return rng.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(shape[-1]))
        d, self.config = config.hidden_size, config
        self.embed_tokens = rng.standard_normal((config.vocab_size, d), dtype=np.float32)
        self.layers = [SimpleNamespace(qkv=Linear(random(3 * d, d)), out=Linear(random(d, d)), up=Linear(random(2 * d, d)), down=Linear(random(d, 2 * d)))
                       for _ in range(config.layers)]
        self.scale = np.float32(6) / np.sqrt(1 + np.arange(d, dtype=np.float32))  # of the last norm: as unequal as a trained one's
        self.lm_head = Linear(rng.standard_normal((config.vocab_size, d), dtype=np.float32))

    @staticmethod
    def norm(x):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)

    def body(self, tokens):
        x = self.embed_tokens[tokens]
        mask = np.triu(np.full((len(tokens), len(tokens)), -np.inf, np.float32), 1)
        for layer in self.layers:
            q, k, v = np.split(layer.qkv(self.norm(x)), 3, axis=-1)
            x = x + layer.out(softmax(q @ k.T / np.float32(np.sqrt(q.shape[-1])) + mask) @ v)
            x = x + layer.down(np.tanh(layer.up(self.norm(x))))
        return self.norm(x) * self.scale

    def generate(self, tokens, max_new_tokens):
        """Greedy; also the seconds that the head took."""
        tokens, spent = list(tokens), 0.0
        for _ in range(max_new_tokens):
            hidden = self.body(np.array(tokens[-32:]))[-1:]
            begun = time.perf_counter()
            logits = self.lm_head(hidden)
            spent += time.perf_counter() - begun
            tokens.append(int(logits[0].argmax()))
        return tokens, spent


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--small", action="store_true", help="a small one, for a test")
    small = parser.parse_args().small
    config = SimpleNamespace(vocab_size=8000 if small else 128000, hidden_size=128 if small else 576, layers=2)
    count = 12 if small else 100
    model = Decoder(config)

    # Some hidden rows of ordinary use make the sketch sharper.
    rng = np.random.default_rng(1)
    sample = np.concatenate([model.body(rng.integers(config.vocab_size, size=64)) for _ in range(10 if small else 40)])

    dense, dense_seconds = model.generate([1, 2, 3], count)
    begun = time.perf_counter()
    model.lm_head = CertifiedLinear(model.lm_head, sample)
    built = time.perf_counter() - begun
    certified, seconds = model.generate([1, 2, 3], count)

    assert certified == dense, "the certified head gave another token"
    work = model.lm_head.head.work
    print(f"{count} tokens, all the same; first: {certified[3:11]}")
    print(f"head: {1e3 * dense_seconds / count:.2f} ms a token as a product, {1e3 * seconds / count:.2f} ms certified "
          f"({dense_seconds / seconds:.1f} times); built once in {built:.1f} s")
    print(f"of {config.vocab_size} rows {work.survivors1 / work.rows:.0f} were left after level 1, {work.survivors2 / work.rows:.0f} after level 2, "
          f"{work.rescored / work.rows:.0f} were computed")


if __name__ == "__main__":
    main()
