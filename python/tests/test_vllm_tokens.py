"""Names of Hugging Face tokenizers: both styles of vocabularies, added tokens, holes and padding; and the default model's."""
import os
from types import SimpleNamespace

import pytest

import wane
from wane_vllm.tokens import origin_of, token_bytes

#: What `wane record --model smollm2-135m` writes as its traces' origin.
SMOLLM2 = ("9d3470d5fc33a4e0b03683e521a95a4c", 49152)


def tokenizer(vocabulary, added=()):
    """`added`: ids, or pairs of an id and whether the token is special."""
    pairs = dict(pair if isinstance(pair, tuple) else (pair, True) for pair in added)
    decoder = {i: SimpleNamespace(special=special) for i, special in pairs.items()}
    return SimpleNamespace(get_vocab=lambda: dict(vocabulary), added_tokens_decoder=decoder)


def test_byte_level():
    made = tokenizer({"<|end|>": 0, "Hello": 1, "Ġworld": 2, "Ċ": 3, "é": 4, "Ã©": 5, "Ġ": 6, "!": 7, "ł": 8, "ÿ": 9}, added=[0])
    assert token_bytes(made) == [b"<|end|>", b"Hello", b" world", b"\n", b"\xe9", b"\xc3\xa9", b" ", b"!", b"\xa0", b"\xff"]


def test_byte_level_names_every_byte_once():
    vocabulary = {"Ġthe": 256}
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    names = [chr(byte) for byte in printable] + [chr(0x100 + i) for i in range(256 - len(printable))]
    vocabulary.update({name: i for i, name in enumerate(names)})
    pieces = token_bytes(tokenizer(vocabulary))
    assert sorted(pieces[:256]) == [bytes([byte]) for byte in range(256)] and pieces[256] == b" the"


def test_sentence_piece():
    vocabulary = {"<unk>": 0, "<s>": 1, "<0x0A>": 2, "<0xff>": 3, "▁the": 4, "▁": 5, "▁▁": 6, "é": 7, "<0x0A": 8, "Ġ": 9, "a▁b": 10}
    pieces = token_bytes(tokenizer(vocabulary, added=[0, 1]))
    assert pieces[:7] == [b"<unk>", b"<s>", b"\n", b"\xff", b" the", b" ", b"  "]
    assert pieces[7:] == ["é".encode(), b"<0x0A", "Ġ".encode(), b"a b"]


def test_added_tokens_have_their_names():
    vocabulary = {"Ġa": 0, "<｜begin▁of▁text｜>": 1, "▁▁▁": 2, "<think>": 3, "<unused7>": 4, "Ġx": 5}
    pieces = token_bytes(tokenizer(vocabulary, added=[(1, True), (2, False), (3, False), (4, False), (5, False)]))
    assert pieces == [b" a", "<｜begin▁of▁text｜>".encode(), b"   ", b"<think>", b"<unused7>", "Ġx".encode()]


def test_holes_padding_and_tokens_without_a_row():
    made = tokenizer({"Ġa": 0, "b": 3, "<|x|>": 4}, added=[4])
    assert token_bytes(made) == [b" a", b"", b"", b"b", b"<|x|>"]
    assert token_bytes(made, 8) == [b" a", b"", b"", b"b", b"<|x|>", b"", b"", b""]
    assert token_bytes(made, 4) == [b" a", b"", b"", b"b"]
    padded = tokenizer({"Ġa": 0, "b": 3, "<|x|>": 4, "[PAD5]": 5, "[PAD6]": 6, "[PAD9]": 7}, added=[4])       # read from a GGUF file
    assert token_bytes(padded) == [b" a", b"", b"", b"b", b"<|x|>", b"", b"", b"[PAD9]"]
    wide = origin_of(made, "", 8)
    assert wide == wane.Origin("", wane.tokenizer_digest([b" a", b"", b"", b"b", b"<|x|>", None, None, None]), 8)
    assert wide.tokenizer != origin_of(made).tokenizer                # as in a GGUF file, padding counts


def test_other_vocabularies_are_refused():
    with pytest.raises(ValueError, match="neither byte-level nor"):
        token_bytes(tokenizer({"the": 0, "##ing": 1}))


def test_whose_model(tmp_path):
    made, file = tokenizer({"Ġa": 0}), tmp_path / "model.gguf"
    file.write_bytes(b"weights")
    assert origin_of(made, "0123456789abcdef" * 2).model == "0123456789abcdef" * 2
    assert origin_of(made, str(file)).model == wane.file_digest(file)
    named = origin_of(made, "some/model")
    assert named.model == origin_of(made, "some/model").model != origin_of(made, "another/model").model and len(named.model) == 32
    assert origin_of(made).model == ""


def test_the_same_digest_as_of_the_gguf_file():
    folder = os.environ.get("WANE_VLLM_MODEL")
    if not folder:
        pytest.skip("WANE_VLLM_MODEL names no model")
    transformers = pytest.importorskip("transformers")
    origin = origin_of(transformers.AutoTokenizer.from_pretrained(folder), "", SMOLLM2[1])
    assert (origin.tokenizer, origin.vocab_size) == SMOLLM2
