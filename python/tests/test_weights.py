"""Packed weights against a reading of their blocks in NumPy, written apart from the library's; GGUF files whole, cut and damaged; no copies."""
import os
import pathlib
import re
import struct

import ctypes
import numpy as np
import pytest

import wane
from conftest import ROOT, ordered, reference
from wane.weights import TYPES

BLOCKS = {"q8_0": (32, 34), "q4_0": (32, 18), "q4_1": (32, 20), "q5_0": (32, 22), "q5_1": (32, 24), "q4_k": (256, 144), "q5_k": (256, 176),
          "q6_k": (256, 210)}
GGML = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q4_k": 12, "q5_k": 13, "q6_k": 14, "bf16": 30}


def half(raw):
    return np.ascontiguousarray(raw).view(np.float16).astype(np.float32)


def nibbles(raw):
    return np.concatenate([raw & 15, raw >> 4], axis=-1).astype(np.int32)


def unpack(kind, raw):
    """Blocks (n, bytes) as floats (n, weights)."""
    bits = lambda b: np.unpackbits(np.ascontiguousarray(b), axis=-1, bitorder="little").astype(np.int32)  # noqa: E731
    if kind == "q8_0":
        return half(raw[:, :2]) * raw[:, 2:].view(np.int8)
    if kind in ("q4_0", "q5_0"):
        high = bits(raw[:, 2:6]) << 4 if kind == "q5_0" else 0
        return half(raw[:, :2]) * (nibbles(raw[:, 6 if kind == "q5_0" else 2:]) + high - (16 if kind == "q5_0" else 8))
    if kind in ("q4_1", "q5_1"):
        high = bits(raw[:, 4:8]) << 4 if kind == "q5_1" else 0
        return half(raw[:, :2]) * (nibbles(raw[:, 8 if kind == "q5_1" else 4:]) + high) + half(raw[:, 2:4])
    if kind in ("q4_k", "q5_k"):
        s = raw[:, 4:16].astype(np.int32)
        scale = np.concatenate([s[:, :4] & 63, (s[:, 8:] & 15) | (s[:, :4] >> 6) << 4], axis=1)
        least = np.concatenate([s[:, 4:8] & 63, (s[:, 8:] >> 4) | (s[:, 4:8] >> 6) << 4], axis=1)
        q = raw[:, 48 if kind == "q5_k" else 16:].reshape(-1, 4, 32)
        q = np.stack([q & 15, q >> 4], axis=2).reshape(-1, 8, 32).astype(np.int32)
        if kind == "q5_k":
            q = q + (bits(raw[:, 16:48]).reshape(-1, 32, 8).transpose(0, 2, 1) << 4)
        return ((half(raw[:, :2]) * scale)[:, :, None] * q - (half(raw[:, 2:4]) * least)[:, :, None]).reshape(-1, 256)
    low, high = raw[:, :128].reshape(-1, 2, 2, 32), raw[:, 128:192].reshape(-1, 2, 1, 32)
    low = np.concatenate([low & 15, low >> 4], axis=2).astype(np.int32)
    high = (high >> np.array([0, 2, 4, 6], np.uint8)[None, None, :, None] & 3).astype(np.int32)
    q = (low | high << 4) - 32
    scale = half(raw[:, 208:210]) * raw[:, 192:208].view(np.int8)
    return (q.reshape(-1, 16, 16) * scale[:, :, None]).reshape(-1, 256)


def make(kind, vocab_size, d, seed=1):
    """Random blocks with scales as models have them."""
    rng = np.random.default_rng(seed)
    weights, size = BLOCKS[kind]
    raw = rng.integers(0, 256, (vocab_size * d // weights, size), dtype=np.uint8)
    scales = rng.uniform(0.001, 0.01, (len(raw), 2)).astype(np.float16).view(np.uint8)
    if kind == "q6_k":
        raw[:, 208:210] = scales[:, :2]
    else:
        raw[:, :2] = scales[:, :2]
    if kind in ("q4_1", "q5_1", "q4_k", "q5_k"):
        raw[:, 2:4] = scales[:, 2:]
    return raw


@pytest.mark.parametrize("kind", sorted(BLOCKS))
def test_blocks(kind):
    vocab_size, d = 300, 512
    raw = make(kind, vocab_size, d)
    plain = unpack(kind, raw).reshape(vocab_size, d)
    assert np.ptp(plain) > 0
    with wane.Head(wane.Weights.packed(raw, kind.upper(), vocab_size, d)) as head:
        # Unit vectors read single weights: all of them stand where they should.
        for j in (0, 1, 15, 16, 31, 32, 33, 127, 128, 255, 256, 300, 511):
            row = np.zeros(d)
            row[j] = 1
            np.testing.assert_allclose(head.logits(row, np.arange(vocab_size)), plain[:, j], rtol=1e-6, atol=1e-9)
        hidden = np.random.default_rng(2).standard_normal((5, d)).astype(np.float32)
        exact = reference(plain, hidden)
        tokens, logits = head.topk(hidden, 5)
        for i in range(5):
            np.testing.assert_allclose(logits[i], ordered(exact[i], 5)[1], rtol=1e-5, atol=1e-5)


def test_as_the_engine_unpacks():
    """The very floats of the engine that wane is built on, where it is there."""
    cache = ROOT / "build" / "CMakeCache.txt"
    found = re.search(r"^WANE_ENGINE_DIR:PATH=(.+)$", cache.read_text(), re.M) if cache.exists() else None
    libraries = sorted(pathlib.Path(found[1]).glob("lib/libggml-base*.so*")) if found else []
    if not libraries:
        pytest.skip("no engine: build first")
    ggml = ctypes.CDLL(str(libraries[0]))
    for kind, (weights, _) in BLOCKS.items():
        raw = make(kind, 64, 512, seed=5)
        name = f"dequantize_row_{kind[:-1] + 'K' if kind.endswith('k') else kind}"
        out = np.empty(64 * 512, np.float32)
        getattr(ggml, name)(ctypes.c_void_p(raw.ctypes.data), ctypes.c_void_p(out.ctypes.data), ctypes.c_int64(out.size))
        np.testing.assert_allclose(unpack(kind, raw).reshape(-1), out, rtol=2e-6, atol=1e-7, err_msg=kind)


def test_half_floats(matrix):
    weights, hidden = matrix
    halves = weights.astype(np.float16)
    halves[0, :4] = [6e-8, -6e-8, 65504, 0]
    with wane.Head(halves) as head:
        assert head.weights.type == "f16"
        exact = reference(halves, hidden[:3])
        np.testing.assert_array_equal(head.topk(hidden[:3])[0][:, 0], exact.argmax(axis=1))
        unit = np.zeros(96)
        for j in range(4):
            unit[:] = 0
            unit[j] = 1
            assert head.logits(unit, [0])[0] == np.float32(halves[0, j])
    top = (weights.view(np.uint32) >> 16).astype(np.uint16)
    with wane.Head(wane.Weights.packed(top, "bf16", *weights.shape)) as head:
        exact = reference((top.astype(np.uint32) << 16).view(np.float32), hidden[:3])
        np.testing.assert_array_equal(head.topk(hidden[:3])[0][:, 0], exact.argmax(axis=1))


def test_nothing_is_copied(matrix):
    weights, _ = matrix
    for given in (weights, weights.astype(np.float16)):
        assert np.shares_memory(wane.Weights.of(given).data, given)
    for given in (weights.astype(np.float64), weights.T.copy().T, np.ones((4, 4), np.int8)):
        assert wane.Weights.of(given).type == "f32"
    made = wane.Weights.of(weights)
    assert wane.Weights.of(made) is made and wane.Weights.of(weights.copy()).digest() == made.digest()
    raw = bytes(make("q8_0", 4, 32))
    assert np.shares_memory(wane.Weights.packed(raw, "q8_0", 4, 32).data, np.frombuffer(raw, np.uint8))


def test_refused_weights():
    with pytest.raises(ValueError, match="shape"):
        wane.Weights.of(np.zeros(4))
    with pytest.raises(TypeError, match="numbers"):
        wane.Weights.of(np.array([["a"]]))
    with pytest.raises(ValueError, match="no type"):
        wane.Weights.packed(b"", "q9", 1, 32)
    with pytest.raises(ValueError, match="whole blocks"):
        wane.Weights.packed(b"", "q8_0", 1, 33)
    with pytest.raises(ValueError, match="68 bytes, not 67"):
        wane.Weights.packed(bytes(67), "q8_0", 2, 32)
    with pytest.raises(ValueError, match="gaps"):
        wane.Weights.packed(np.zeros((4, 68), np.uint8)[:, ::2], "q8_0", 4, 32)


# ---------------------------------------------------------------------- files

def gguf(path, tensors, values=b"", count=0, version=3):
    """A file of that form: tensors by name: (type's number, (d, V), bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), count) + values
    body = b""
    for name, (number, shape, data) in tensors.items():
        head += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        head += struct.pack("<IQ", number, len(body))
        body += data + bytes(-len(data) % 32)
    path.write_bytes(head + bytes(-len(head) % 32) + body)
    return path


def value(name, kind, raw):
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", kind) + raw


VALUES = (value("general.name", 8, struct.pack("<Q", 2) + b"me") + value("x.list", 9, struct.pack("<IQ", 8, 2) + 2 * (struct.pack("<Q", 1) + b"a"))
          + value("x.numbers", 9, struct.pack("<IQ3f", 6, 3, 1, 2, 3)) + value("x.layers", 4, struct.pack("<I", 9)))


def test_gguf(tmp_path):
    raw = make("q8_0", 200, 64)
    plain = unpack("q8_0", raw).reshape(200, 64)
    small = np.arange(64, dtype=np.float32)
    path = gguf(tmp_path / "m.gguf", {"token_embd.weight": (8, (64, 200), raw.tobytes()), "norm": (0, (64,), small.tobytes())}, VALUES, 4)
    file = wane.GGUF(path)
    assert file.values == {"general.name": "me", "x.layers": 9} and file.tensors["norm"].shape == (64,)
    hidden = np.random.default_rng(3).standard_normal(64).astype(np.float32)
    sketch = tmp_path / "m.sketch"
    with wane.Head.from_gguf(path, sketch) as head:
        np.testing.assert_array_equal(head.topk(hidden, 5)[0], ordered(reference(plain, hidden), 5)[0])
        assert head.facts.digest == wane.file_digest(path)
    with wane.Head.from_gguf(path, sketch, found=True) as head:
        assert not head.facts.built
    with pytest.raises(wane.Unsupported, match="no head"):
        file.weights("norm")
    with pytest.raises(wane.NotFound, match="nothing"):
        file.weights("nothing")
    with pytest.raises(wane.NotFound):
        wane.GGUF(tmp_path / "none")


def test_gguf_refused(tmp_path):
    raw = make("q8_0", 32, 64).tobytes()
    whole = gguf(tmp_path / "whole", {"output.weight": (8, (64, 32), raw)}, VALUES, 4).read_bytes()
    path = tmp_path / "bad"
    for size in (*range(len(whole) - len(raw)), len(whole) - len(raw) + 1, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(wane.FormatError):
            wane.GGUF(path).weights()
    rng = np.random.default_rng(4)
    head = len(whole) - len(raw)
    for _ in range(400):  # never anything but a refusal in words, or a file that can be read
        damaged = bytearray(whole)
        for at in rng.integers(0, head, 3):
            damaged[at] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            weights = wane.GGUF(path).weights()
            assert weights.data.nbytes <= len(whole)
        except wane.WaneError:
            pass
    path.write_bytes(gguf(tmp_path / "v", {}, version=9).read_bytes())
    with pytest.raises(wane.FormatError, match="version is 9"):
        wane.GGUF(path)
    other = gguf(tmp_path / "o", {"output.weight": (99, (64, 32), raw)})
    with pytest.raises(wane.Unsupported, match="type 99"):
        wane.GGUF(other).weights()


def test_names_of_types():
    assert set(GGML) == set(TYPES)
    from wane.weights import _GGUF_TYPES
    assert {name: number for number, name in _GGUF_TYPES.items()} == GGML


@pytest.mark.skipif("WANE_TEST_GGUF" not in os.environ, reason="WANE_TEST_GGUF names a model's file for this one")
def test_a_real_model():
    with wane.Head.from_gguf(os.environ["WANE_TEST_GGUF"]) as head:
        hidden = np.random.default_rng(0).standard_normal(head.weights.d).astype(np.float32)
        scan = head.scan(hidden)
        found = scan.best(50)
        logits = scan.logits(np.arange(head.weights.vocab_size))
        np.testing.assert_array_equal(found.tokens, ordered(logits, 50)[0])
