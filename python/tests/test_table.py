"""Tables: built of traces, whole and in parts, opened, looked up, drafted from, graded, signed, exchanged; and what is refused."""
import os
import threading

import numpy as np
import pytest

import wane
from conftest import ORIGIN, record, row_after


def test_built_and_looked_up(table_path, traces):
    report = wane.Table.build([traces])
    assert report.records == 12 * 25 and report.entries > 20 and report.kinds == {"single": 150, "multi": 0, "code": 150, "summary": 0}
    assert report.model == ORIGIN.model and report.hits["code"]["records"] == 150
    with wane.Table.open(table_path, of=ORIGIN) as table:
        assert table.facts.entries == report.entries and table.facts.vocab_size == 5000 and table.facts.window == 3 and not table.facts.verified
        tokens = [1, 2, 3, 4]
        context = wane.Context(tokens)
        for index in range(20):
            row = row_after(tokens)
            answer = table.lookup(context, index)
            assert answer is not None and answer.source == "context"
            again = table.lookup(tokens, index)
            np.testing.assert_array_equal(again.top.array, answer.top.array)
            np.testing.assert_array_equal(answer.top.tokens, wane.best(row, 5).tokens)
            assert answer.grade(row) == "strict" and answer.grade(wane.best(row, 10)) == "strict"
            assert answer.grade(row + 1) == "rank" and answer.grade(-row) == "miss"
            draft = table.draft(context, 4)
            expected, follow = list(tokens), []
            for _ in range(len(draft)):
                follow.append(int(row_after(expected).argmax()))
                expected.append(follow[-1])
            assert 1 <= len(draft) <= 4 and draft.tokens.tolist() == follow and np.all((draft.chances > 0) & (draft.chances < 1))
            context.add(int(row.argmax()))
            tokens.append(int(row.argmax()))
        assert table.lookup([7, 7, 7, 7]) is None and len(table.draft([7, 7, 7, 7])) == 0
        assert table.lookup(tokens, tenant="another") is None and len(table.draft(tokens, tenant="another")) == 0
        assert table.lookup([]) is None and table.lookup(tokens, -1) is None and len(table.draft(tokens, 0)) == 0
        with pytest.raises(ValueError, match="tenant"):
            table.lookup(context, tenant="another")
        hot = table.hottest(5)
        assert len(hot) == 5 and hot[0].seen >= hot[-1].seen and hot[0].kinds and len(hot[0].top) >= 1
        assert table.hottest(0) == [] and len(table.hottest(10**6)) == table.facts.entries


def test_a_draft_is_cut_where_it_is_doubtful():
    draft = wane.Draft(np.arange(4, dtype=np.int32), np.array([0.9, 0.9, 0.5, 0.9], np.float32))
    assert [len(draft.cut(least)) for least in (0.95, 0.85, 0.8, 0.4, 0.1)] == [0, 1, 2, 3, 4]


def test_parts_are_the_whole(traces, tmp_path):
    folders = []
    for i in range(5):
        folders.append(tmp_path / f"t{i}")
        record(folders[-1], requests=3, length=15, start=3 * i, plain=bool(i % 2))
    single, merged, tree = (tmp_path / name for name in ("single", "merged", "tree"))
    wane.Table.build(folders, single, max_entries=60)
    for i, folder in enumerate(folders):
        wane.Table.build_partial([folder], tmp_path / f"{i}.part")
    parts = [tmp_path / f"{i}.part" for i in range(5)]
    wane.Table.merge(reversed(parts), merged, max_entries=60)
    assert merged.read_bytes() == single.read_bytes()
    wane.Table.merge(parts[:2], tmp_path / "a.part", partial=True)
    wane.Table.merge(parts[2:], tmp_path / "b.part", partial=True)
    wane.Table.merge([tmp_path / "b.part", tmp_path / "a.part"], tree, max_entries=60)
    assert tree.read_bytes() == single.read_bytes()


def test_refused(table_path, traces, tmp_path):
    with pytest.raises(wane.NotFound):
        wane.Table(tmp_path / "none")
    with pytest.raises(FileNotFoundError):  # as Python's own
        wane.Table(tmp_path / "none")
    raw = table_path.read_bytes()
    bad = tmp_path / "bad.slmt"
    for size in (0, 10, 4096, len(raw) - 1):
        bad.write_bytes(raw[:size])
        with pytest.raises(wane.FormatError, match="bad.slmt"):
            wane.Table(bad)
    bad.write_bytes(raw[:5000] + bytes([raw[5000] ^ 1]) + raw[5001:])
    with pytest.raises(wane.FormatError):
        wane.Table(bad)
    for of in (wane.Origin(model="1" * 32), wane.Origin(tokenizer="1" * 32), wane.Origin(vocab_size=4)):
        with pytest.raises(wane.Unsupported):
            wane.Table(table_path, of=of)
    with pytest.raises(ValueError, match="32 hex digits"):
        wane.Table(table_path, of=wane.Origin(model="short"))
    with pytest.raises(wane.InvalidArgument, match="window"):
        wane.Table.build([traces], window=11)
    with pytest.raises(TypeError, match="colour"):
        wane.Table.build([traces], colour=1)
    with pytest.raises(wane.InvalidArgument, match="model"):
        wane.Table.build([traces], of=wane.Origin(model="1" * 32))
    with pytest.raises(wane.Cancelled):
        wane.Table.build([traces], tmp_path / "stopped", progress=lambda what, share: False)
    assert not (tmp_path / "stopped").exists()
    with pytest.raises(OverflowError):
        wane.Table.build([traces], max_entries=2**40)


def test_signatures(table_path, tmp_path):
    path, key, other = tmp_path / "x.slmt", tmp_path / "key", tmp_path / "other"
    path.write_bytes(table_path.read_bytes())
    wane.Table.new_key(key)
    wane.Table.new_key(other)
    with pytest.raises(wane.InvalidArgument):
        wane.Table.new_key(key)
    with pytest.raises(wane.Unauthorized):
        wane.Table.verify(path, f"{key}.pub")
    wane.Table.sign(path, key)
    facts = wane.Table.verify(path, f"{key}.pub", of=ORIGIN)
    assert facts.verified and facts.entries > 0
    with pytest.raises(wane.Unauthorized):
        wane.Table.verify(path, f"{other}.pub")
    os.chmod(key, 0o644)
    with pytest.raises(wane.Unauthorized, match="key"):
        wane.Table.sign(path, key)


def test_a_table_is_exchanged(table_path, traces, tmp_path):
    path = tmp_path / "x.slmt"
    watch = wane.TableWatch(path, every=0, of=ORIGIN)
    assert watch.table is None and "x.slmt" in watch.reason
    path.write_bytes(table_path.read_bytes())
    first = watch.table
    assert first is not None and watch.reason == "" and watch.reloads == 1 and watch.table is first
    fresh = tmp_path / "fresh"
    wane.Table.build([traces], fresh, max_entries=5)
    os.replace(fresh, path)
    second = watch.table
    assert second is not first and second.facts.entries == 5 and watch.reloads == 2
    assert first.lookup([1, 2, 3, 4]) is not None  # whoever holds it goes on
    fresh.write_bytes(b"no table")
    os.replace(fresh, path)
    assert watch.table is second and "x.slmt" in watch.reason
    slow = wane.TableWatch(table_path, every=1000)
    assert slow.table is slow.table and not slow.refresh()


def test_many_threads_read_one(table_path):
    table = wane.Table(table_path)
    expected = table.draft([1, 2, 3, 4], 8).tokens.tolist()
    failures = []

    def work():
        for _ in range(300):
            if table.draft([1, 2, 3, 4], 8).tokens.tolist() != expected or table.lookup([1, 2, 3, 4]) is None:
                failures.append(1)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    table.close()
    with pytest.raises(ValueError, match="closed"):
        table.lookup([1, 2, 3, 4])


def test_contexts():
    tokens = list(range(30))
    whole, grown = wane.Context(tokens, "anna"), wane.Context((), "anna")
    for token in tokens:
        grown.add(token)
    copy = grown.copy()
    assert whole.name == grown.name == copy.name and len(whole) == 30 and whole.last.tolist() == tokens[-10:]
    copy.add(np.array([1, 2]))
    assert len(copy) == 32 and len(grown) == 30 and copy.name != grown.name and wane.Context(tokens, "bert").name != whole.name
    assert wane.Context([5, 6]).last.tolist() == [5, 6] and wane.Context().last.tolist() == []
    with pytest.raises(ValueError, match="no token -1"):
        copy.add([3, -1])
    assert len(copy) == 32
