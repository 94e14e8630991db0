"""The audit log from Python: written, read, checked; a changed record is found; what no record has is refused and counted."""
import sqlite3

import pytest

import wane
from wane import audit


def test_written_read_and_checked(tmp_path):
    path = tmp_path / "audit.db"
    with wane.Auditor(path, start={"who": "a test"}, table="ab" * 16) as log:
        for n in range(30):
            log.admit()
            log.put(request=f"r{n}", mode="wane", status=200, reply_tokens=n, states={"normal": n}, finish="end", tenant=None)
        log.put(event="table", detail={"on": True}, slmt_table="cd" * 16)
        log.flush()
        assert log.state.ok and log.state.records == 32 and log.state.dropped == 0
        with pytest.raises(wane.Busy):
            wane.Auditor(path)
    found = list(audit.read(path))
    assert [record["event"] for record in found] == ["open", "start", *["request"] * 30, "table", "stop"][-len(found):]
    assert next(audit.read(path, request="r7"))["states"] == {"normal": 7}
    assert [record["request"] for record in audit.read(path, event="request", last=2)] == ["r28", "r29"]
    verdict = audit.verify(path)
    assert verdict.fault == "whole" and verdict.requests == 30 and verdict.ended and verdict.head == found[-1]["hash"]

    with sqlite3.connect(path) as base:
        base.execute("DROP TRIGGER audit_no_update")
        base.execute("UPDATE audit SET reply_tokens = 99 WHERE request = 'r5'")
    assert audit.verify(path).fault in ("changed", "unguarded")


def test_a_key(tmp_path):
    key = tmp_path / "key"
    key.write_text("5" * 64)
    key.chmod(0o600)
    with wane.Auditor(tmp_path / "a.db", key_file=key) as log:
        log.admit()
        log.put(request="r", status=200)
    assert audit.verify(tmp_path / "a.db", key_file=key).keyed
    with pytest.raises(wane.Unauthorized):
        audit.verify(tmp_path / "a.db")


def test_refused(tmp_path):
    with pytest.raises(ValueError, match="failure"):
        wane.Auditor(tmp_path / "a.db", failure="panic")
    with wane.Auditor(tmp_path / "a.db") as log:
        with pytest.raises(wane.InvalidArgument, match="no colour"):
            log.put(colour="red")
        for values in ({"status": "200"}, {"mode": 3}, {"prompt": "a\0b"}, {"event": "x" * 40}, {"prompt": "x" * (2 << 20)}):
            log.admit()
            with pytest.raises(wane.InvalidArgument):
                log.put(**values)
        log.admit()
        log.put(request="fine", status=200)
        log.flush()
        assert log.state.dropped == 5
    assert audit.verify(tmp_path / "a.db").fault == "whole"
    assert [record["request"] for record in audit.read(tmp_path / "a.db", event="request")] == ["fine"]
    (tmp_path / "b.db").write_bytes(b"no log" * 200)
    with pytest.raises(wane.FormatError):
        wane.Auditor(tmp_path / "b.db")
