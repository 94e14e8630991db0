"""
The proposer for vLLM, against batches as vLLM makes them: rows that move, come late, go, are preempted and come back, prompts in parts,
drafts that are cut.

`Batch` does what vLLM's V1 runner and scheduler were seen to do: rows in arrays of int32 whose tails hold what drafts and other requests
left there, drafts verified from the first token on, none for rows whose prompt is not done.
"""
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import wane
from conftest import ORIGIN, record, row_after
from wane_vllm import copies, drafts, worker
from wane_vllm.drafts import Drafts, DraftSettings, from_settings
from wane_vllm.settings import SettingsError, read

LENGTH, VOCABULARY, MOST, ROWS = 400, 5000, 6, 4


def config(length=LENGTH, most=MOST, rows=ROWS, **model):
    return SimpleNamespace(model_config=SimpleNamespace(max_model_len=length, get_vocab_size=lambda: VOCABULARY, **model),
                           speculative_config=SimpleNamespace(num_speculative_tokens=most),
                           scheduler_config=SimpleNamespace(max_num_seqs=rows))


class Request:
    """`reply(tokens)` is the token that the model draws behind them."""

    def __init__(self, name, prompt, reply, tenant=None, most=60):
        self.name, self.tokens, self.reply, self.left = name, list(prompt), reply, most
        self.prompt, self.draft, self.waiting = len(prompt), [], 0
        self.sampling_params = SimpleNamespace(extra_args=None if tenant is None else {"wane_tenant": tenant})
        self.prompt_embeds = None


class Batch:
    """vLLM around a proposer: each `step` verifies the drafts, draws, and asks for new ones. `room`: drafted tokens that a step takes."""

    def __init__(self, proposer, named, room=10**9, seed=5):
        self.proposer, self.room, self.rng = proposer, room, np.random.default_rng(seed)
        self.ids = self.rng.integers(-9, 2 * VOCABULARY, (ROWS, LENGTH)).astype(np.int32)
        self.counts = np.zeros(ROWS, np.int32)
        self.rows, self.requests, self.out = [], {}, {}
        self.proposed = self.accepted = self.steps = 0
        self.input_batch = SimpleNamespace(req_ids=[])
        if named:
            proposer.bind(self)

    def add(self, request, parts=0):
        """`parts`: steps that its prompt takes before the one that draws a token."""
        request.waiting = parts
        self.rows.append(request)
        self.requests[request.name] = request
        self._write(len(self.rows) - 1)

    def _write(self, i):
        tokens = self.rows[i].tokens
        self.ids[i, :len(tokens)] = tokens
        self.counts[i] = len(tokens)

    def arrange(self, order):
        self.rows = [self.rows[i] for i in order]
        for i in range(len(self.rows)):
            self._write(i)

    def take(self, name):
        """A row leaves; the last one moves into its place."""
        i = next(i for i, request in enumerate(self.rows) if request.name == name)
        taken, last = self.rows[i], self.rows.pop()
        if last is not taken:
            self.rows[i] = last
            self._write(i)
        taken.draft = []
        return taken

    def drop(self, name):
        self.take(name)
        del self.requests[name]

    def _draw(self, request, room):
        drawn = []
        for token in request.draft[:room]:
            if request.reply(request.tokens + drawn) != token:
                break
            drawn.append(token)
        self.accepted += len(drawn)
        return drawn + [request.reply(request.tokens + drawn)]

    def step(self, ask=True):
        sampled, room = [], self.room
        for i, request in enumerate(self.rows):
            if request.waiting:
                request.waiting -= 1
                sampled.append([])
                continue
            self.ids[i, len(request.tokens):len(request.tokens) + len(request.draft)] = request.draft
            drawn = self._draw(request, max(0, room))
            room -= len(request.draft)
            request.tokens += drawn
            self._write(i)
            sampled.append(drawn)
        self.steps += 1
        self.input_batch.req_ids = [request.name for request in self.rows]
        if ask:
            self._ask(sampled)
        return sampled

    def _ask(self, sampled):
        before = self.ids.copy(), self.counts.copy()
        made = self.proposer.propose(sampled, self.counts, self.ids, slot_mappings=None)
        assert (self.ids == before[0]).all() and (self.counts == before[1]).all() and len(made) == len(self.rows)
        for request, drawn, draft in zip(self.rows, sampled, made):
            assert isinstance(draft, list) and all(type(token) is int and 0 <= token < VOCABULARY for token in draft)
            assert len(draft) <= MOST and (drawn or not draft)
            assert not draft or len(request.tokens) + len(draft) + 1 <= LENGTH      # the token behind it has a place
            if self.proposer.settings.table is None:                                # never another row's, nor what its tail holds
                assert set(draft) <= set(request.tokens)
            request.draft = draft
            self.proposed += len(draft)

    def run(self, steps=10**6):
        """Until every reply has its tokens; what came out, by name."""
        for _ in range(steps):
            for request in [r for r in self.rows if len(r.tokens) - r.prompt >= r.left or len(r.tokens) >= LENGTH - 1]:
                self.out[request.name] = request.tokens[:request.prompt + request.left]
                self.drop(request.name)
            if not self.rows:
                break
            self.step()
        return self.out


def copying(period):
    """A model that goes on with what stood `period` tokens before."""
    return lambda tokens: tokens[-period]


def mixing(tokens):
    """A model that never repeats itself."""
    return (tokens[-1] * 2654435761 + len(tokens) * 40503 + tokens[-2] * 97) % VOCABULARY


def text(seed, count):
    return np.random.default_rng(seed).integers(1, VOCABULARY, count).tolist()


@pytest.fixture(params=[True, False], ids=["named", "unnamed"])
def named(request):
    return request.param


@pytest.fixture
def make(request):
    """Makes proposers, and closes them."""
    made = []

    def one(settings=DraftSettings(), **options):
        made.append(Drafts(config(**options), settings, ORIGIN))
        return made[-1]
    yield one
    for proposer in made:
        assert proposer.counters["faults"] == 0
        proposer.close()


# ---------------------------------------------------------------------- the text

def longest_by_hand(tokens):
    end, best = len(tokens), 0
    for place in range(1, end):
        length = 0
        while length < min(place, copies.LENGTH_MOST) and tokens[place - 1 - length] == tokens[end - 1 - length]:
            length += 1
        best = max(best, length)
    return best


def test_matches_are_those_of_a_search_that_looks_everywhere():
    rng, kinds = np.random.default_rng(1), {"all": 0, "found": 0}
    for _ in range(300):
        tokens = rng.integers(0, rng.integers(2, 40), rng.integers(0, 150)).tolist()
        cut = int(rng.integers(0, len(tokens) + 1))
        grown = copies.Text(np.array(tokens[:cut], np.int32))
        for token in tokens[cut:]:
            grown.add([token])
        for one in (grown, copies.Text(np.array(tokens, np.int32))):
            one.copy = one._way = None
            found, best = one.find(), longest_by_hand(tokens)
            assert one.equals(np.array(tokens, np.int32)) and not one.equals(np.array(tokens + [1], np.int32))
            kinds["all"] += best >= 2
            if found is not None:
                kinds["found"] += 1
                assert found.length == one.equal_before(found.place) <= best and (best < 4 or found.length >= 4)
                assert one.ahead(found, 5)[0] == tokens[found.place]
            elif best >= 2:                                       # of two pairs with one hash, the newer one is known
                place = one._two[one._two_at(len(tokens))]
                assert best < 4 and place and tokens[place - 2:place] != tokens[-2:]
    assert kinds["found"] > 0.95 * kinds["all"] > 100


def test_a_copy_goes_on_and_runs_into_itself():
    one = copies.Text(np.array([1, 2, 3, 4, 5, 6, 1, 2, 3, 4], np.int32))
    found = one.find()
    assert (found.place, found.length, found.kind) == (4, 4, copies.MATCH) and one.ahead(found, 14) == [5, 6, 1, 2, 3, 4] * 2 + [5, 6]
    one.add([5, 6])
    assert one.find() is found and (found.place, found.length) == (6, 6) and one.ahead(found, 3) == [1, 2, 3]


def test_a_broken_copy_is_found_where_it_goes_on():
    letter = list(range(10, 30))
    one = copies.Text(np.array(letter + [1] + letter[:8], np.int32))
    assert one.find().place == 8
    one.add([99])                                                 # another name
    found = one.find()
    assert found.kind == copies.BLIND and one.ahead(found, 3) == letter[9:12]
    one.add([98, letter[10]])                                     # it had two tokens
    found = one.find()
    assert found.kind == copies.WAY and one.ahead(found, 3) == letter[11:14]
    one.add(letter[11:15])
    assert one.find().kind == copies.MATCH
    one.add([97, 96, 95, 94, 93, 92, 91, 90, 89, 88])
    assert one.find() is None                                     # nothing came of it


# -------------------------------------------------------------------- whole runs

def test_replies_are_the_same_and_copies_take_fewer_steps(make, named):
    batch = Batch(make(), named)
    for n in range(ROWS):
        batch.add(Request(f"r{n}", text(n, 30), copying(20 + n), most=80))
    out = batch.run()
    for n in range(ROWS):
        expected = text(n, 30)
        while len(expected) < 110:
            expected.append(expected[-20 - n])
        assert out[f"r{n}"] == expected
    assert batch.steps < 40 and batch.accepted > 200
    c = batch.proposer.counters
    assert c["proposed"] == c["proposed_text"] == batch.proposed and c["drafts"] <= c["rows"]
    assert batch.accepted - ROWS * MOST <= c["accepted"] <= batch.accepted


def test_text_that_repeats_nothing_gets_no_drafts(make, named):
    batch = Batch(make(), named)
    for n in range(ROWS):
        batch.add(Request(f"r{n}", text(n, 30), mixing, most=200))
    batch.run()
    assert batch.proposed <= 4 and batch.steps == 201 - 1


def test_text_that_deceives_is_drafted_less_and_less(make, named):
    """A cycle of which each round ends otherwise: matches that look sure, and break."""
    def reply(tokens):
        return mixing(tokens) if len(tokens) % 5 == 0 else 100 + len(tokens) % 5
    batch = Batch(make(DraftSettings(least=0.2)), named)
    batch.add(Request("r", text(1, 30), reply, most=300))
    batch.run(60)
    early = batch.proposed - batch.accepted
    batch.run()
    assert batch.proposed - batch.accepted - early < 4 * max(early, 10)
    assert batch.accepted >= 0.4 * batch.proposed


def test_an_account_ends_drafts_that_always_look_sure(make, named, monkeypatch):
    monkeypatch.setattr(drafts.Running, "chance", lambda self, kind, prior: 0.95)
    def reply(tokens):
        return mixing(tokens) if len(tokens) % 3 == 0 else 100 + len(tokens) % 3
    batch = Batch(make(), named)
    batch.add(Request("r", text(1, 30), reply, most=300))
    batch.run()
    lost = DraftSettings.least * batch.proposed - batch.accepted
    assert batch.proposer.counters["backoffs"] > 50 and lost < drafts._DEBT_MOST + DraftSettings.least * MOST + drafts._PAID * 300


def test_anything_may_happen(make, named):
    """Requests come, in parts; rows swap; some are preempted and come back; some go; steps pass without a call; drafts are cut."""
    rng = np.random.default_rng(3)
    proposer = make()
    batch, out, number = Batch(proposer, named, room=9), [], 0
    for _ in range(400):
        if len(batch.rows) < ROWS and (out and rng.random() < 0.3):
            batch.add(out.pop(), parts=int(rng.integers(0, 3)))
        elif len(batch.rows) < ROWS and rng.random() < 0.4:
            batch.add(Request(f"r{number}", text(number % 5, int(rng.integers(3, 40))), (copying(3), copying(2), mixing)[number % 3],
                              most=int(rng.integers(5, 120))), parts=int(rng.integers(0, 3)))
            number += 1
        if batch.rows and rng.random() < 0.2:
            batch.arrange(rng.permutation(len(batch.rows)))
        if batch.rows and rng.random() < 0.1:
            name = batch.rows[int(rng.integers(len(batch.rows)))].name
            batch.drop(name) if rng.random() < 0.3 else out.append(batch.take(name))
        if batch.rows:
            for request in batch.rows:
                request.draft = [] if rng.random() < 0.05 else request.draft          # a grammar may refuse it
            batch.step(ask=rng.random() > 0.05)
            if rng.random() < 0.05:
                for request in batch.rows:
                    request.draft = [0] * MOST                                         # what vLLM puts there near the end of its contexts
        batch.run(0)
        for request in [r for r in batch.rows if len(r.tokens) - r.prompt >= r.left]:
            batch.drop(request.name)
    assert number > 20 and batch.accepted > 100
    assert len(proposer._named) + len(proposer._unnamed) <= 2 * ROWS and proposer.counters["accepted"] <= proposer.counters["proposed"]


def test_a_row_is_replaced_by_another_of_the_same_length(make, named):
    """Its tokens, and so its drafts, are another's; even where the last ones are the same."""
    end = [7, 8]
    old, new = [1, 2, 7, 8, 9, 5, 5, 5] * 9 + end, [3] + [1, 2, 7, 8, 9, 6, 6, 6] * 9 + end       # as long as the old one with a token drawn
    for names in (("a", "b"), ("a", "a")):
        batch = Batch(make(), named)
        batch.add(Request(names[0], old, lambda tokens: 9))
        batch.step()
        batch.drop(names[0])
        batch.add(Request(names[1], new, lambda tokens: 9))
        batch.step()
        proposer = batch.proposer
        known = proposer._rows[0]
        assert known.text.tokens.tolist() == new + [9] and known.text.ahead(known.text.find(), 3) == [6, 6, 6]


def test_near_the_end_of_a_context(make, named):
    for length in range(360, 371):
        batch = Batch(make(), named)
        batch.add(Request("r", ([5, 6, 7] * 126)[:length], copying(3), most=10**6))
        while len(batch.rows[0].tokens) < LENGTH:
            batch.step()
        assert len(batch.rows[0].tokens) == LENGTH and batch.accepted > 8


def test_ids_that_are_no_tokens_are_not_proposed(make, named):
    batch = Batch(make(), named)
    batch.add(Request("r", [5, 6, 7, VOCABULARY + 3, 9] * 20 + [5], copying(5)))
    batch.add(Request("s", [5, 6, 7, -1, 9] * 20 + [5], copying(5)))
    batch.step()
    assert all(request.draft in ([], [7], [6, 7]) for request in batch.rows)


def test_prompts_without_ids_get_no_drafts(make):
    batch = Batch(make(), True)
    batch.add(Request("r", [5, 6, 7] * 20, copying(3)))
    batch.rows[0].prompt_embeds = object()
    batch.add(Request("s", [5, 6, 7] * 20, copying(3)))
    batch.run(5)
    assert batch.rows[0].draft == [] and batch.rows[1].draft
    unnamed = Batch(make(enable_prompt_embeds=True), False)
    unnamed.add(Request("r", [5, 6, 7] * 20, copying(3)))
    unnamed.run(5)
    assert unnamed.proposed == 0


def test_what_was_cut_is_not_counted_as_refused(make, named):
    batch = Batch(make(), named, room=2)
    batch.add(Request("r", text(1, 30), copying(30), most=120))
    batch.run()
    c = batch.proposer.counters
    assert c["cut"] > 50 and c["accepted"] == batch.accepted and c["accepted"] + c["cut"] >= c["proposed"] - 2 * MOST


# ------------------------------------------------------------------------ tables

def seen(tokens):
    """The made-up model that the traces were recorded from."""
    return int(row_after(tokens).argmax())


def table_only(path, **more):
    return DraftSettings(table=str(path), prompt_lookup=False, **more)


def test_a_table_drafts(make, named, table_path):
    batch = Batch(make(table_only(table_path)), named)
    for n in range(3):
        batch.add(Request(f"r{n}", [1, 2, 3 + n, 4], seen, most=24))
    batch.run()
    c = batch.proposer.counters
    assert batch.steps <= 14 and c["accepted"] == c["accepted_table"] > 30 and c["proposed_text"] == 0 and c["reloads"] == 1


def test_a_table_of_another_tokenizer_is_not_used(table_path, caplog):
    other = Drafts(config(), table_only(table_path), wane.Origin("", "00" * 16, VOCABULARY))
    batch = Batch(other, True)
    batch.add(Request("r", [1, 2, 3, 4], seen, most=24))
    batch.run()
    other.close()
    assert batch.proposed == 0 and "another tokenizer" in caplog.text


def test_what_was_recorded_for_a_tenant_is_that_tenants(make, tmp_path):
    record(tmp_path / "traces", tenant="anna")
    wane.Table.build([tmp_path / "traces"], tmp_path / "x.slmt")
    for tenant, of_all, gets in (("anna", "", True), ("bert", "anna", False), ("", "anna", False), (5, "anna", False), (None, "anna", True),
                                 (None, "", False)):
        batch = Batch(make(table_only(tmp_path / "x.slmt", tenants="request", tenant=of_all)), True)
        batch.add(Request("r", [1, 2, 3, 4], seen, tenant=tenant, most=20))
        batch.run()
        assert (batch.proposed > 0) == gets, tenant
    for of_all, tenants, known in (("anna", "one", False), ("bert", "one", False), ("anna", "request", False), ("anna", "key", False),
                                   ("bert", "one", True), ("anna", "one", True)):
        batch = Batch(make(table_only(tmp_path / "x.slmt", tenants=tenants, tenant=of_all)), known)
        batch.add(Request("r", [1, 2, 3, 4], seen, tenant="anna", most=20))
        batch.run()
        assert (batch.proposed > 0) == (of_all == "anna" and tenants == "one")


def test_a_tenant_that_is_no_text_is_nobody(make, table_path):
    for tenant, gets in ((5, False), (None, True), ("", True)):
        batch = Batch(make(table_only(table_path, tenants="request")), True)
        batch.add(Request("r", [1, 2, 3, 4], seen, most=20))
        batch.rows[0].sampling_params.extra_args = {} if tenant is None else {"wane_tenant": tenant}
        batch.run()
        assert (batch.proposed > 0) == gets, tenant


def test_a_name_that_comes_again_for_another_tenant(make, tmp_path):
    record(tmp_path / "traces", tenant="anna")
    wane.Table.build([tmp_path / "traces"], tmp_path / "x.slmt")
    batch = Batch(make(table_only(tmp_path / "x.slmt", tenants="request")), True)
    batch.add(Request("r", [1, 2, 3, 4], seen, tenant="anna"))
    batch.step()
    assert batch.rows[0].draft
    batch.drop("r")
    batch.add(Request("r", [1, 2, 3, 4], seen, tenant="bert"))
    batch.run(8)
    assert batch.rows[0].draft == [] and batch.proposer._rows[0].tenant == "bert"


def test_tenants_text_and_habits_are_apart(make):
    """Two requests with the same tokens, of two tenants: neither becomes the other's sequence, nor learns from it."""
    batch = Batch(make(DraftSettings(tenants="request")), True)
    for tenant in ("anna", "bert"):
        batch.add(Request(tenant, [5, 6, 7] * 10, copying(3), tenant=tenant))
    batch.run(6)
    batch.arrange([1, 0])
    batch.run(3)
    rows = batch.proposer._rows
    assert rows[0].tenant == "bert" and rows[1].tenant == "anna" and rows[0].habits is not rows[1].habits
    for name, tenant in (("c", None), ("d", "bert")):
        batch.add(Request(name, [5, 6, 7] * 10, copying(3), tenant=tenant))
    batch.step()
    rows = batch.proposer._rows
    assert rows[2].tenant == "" and rows[3].habits is rows[0].habits
    assert len({id(rows[i].habits) for i in range(3)}) == 3


def test_equal_rows_are_two_sequences(make, named):
    batch = Batch(make(), named)
    for name in ("a", "b"):
        batch.add(Request(name, [5, 6, 7] * 10, copying(3), most=40))
    batch.run(5)
    rows = batch.proposer._rows
    assert rows[0] is not rows[1] and rows[0].text.equals(np.array(batch.rows[0].tokens, np.int32)) and rows[1].text.equals(rows[0].text.tokens)


def test_a_row_that_follows_another_is_not_that_one(make, named):
    """One is a token ahead of the other, and they change places: what the one has become is what the other was."""
    batch = Batch(make(), named)
    batch.add(Request("ahead", [5, 6, 7] * 10 + [5], copying(3)))
    batch.add(Request("behind", [5, 6, 7] * 10, copying(3)))
    for order in ([0, 1], [1, 0]):
        batch.arrange(order)
        for request in batch.rows:
            request.draft = []
        batch.step()
    rows = batch.proposer._rows
    assert rows[0] is not rows[1]
    assert all(rows[i].text.equals(np.array(batch.rows[i].tokens, np.int32)) for i in range(2))


def test_steps_without_a_call_judge_nothing(make, named):
    batch = Batch(make(), named)
    batch.add(Request("r", [5, 6, 7] * 10, copying(3), most=10**6))
    while not batch.rows[0].draft:
        batch.step()
    accepted = batch.proposer.counters["accepted"]
    for ask in (False, True):
        batch.rows[0].draft = [batch.rows[0].tokens[i - 3] for i in range(3)]          # not what was proposed, but accepted
        assert len(batch.step(ask=ask)[0]) > 1
    assert batch.proposer.counters["accepted"] == accepted


def test_many_tenants_are_forgotten(make, monkeypatch):
    monkeypatch.setattr(drafts, "_TENANTS_MOST", 5)
    batch = Batch(make(DraftSettings(tenants="key")), True)
    for n in range(20):
        batch.add(Request(f"r{n}", [5, 6, 7] * 10, copying(3), tenant=f"t{n}"))
        batch.step()
        batch.drop(f"r{n}")
    assert len(batch.proposer._habits) == 5 and len(batch.proposer._named) <= 2 * ROWS


def until(true):
    limit = time.monotonic() + 20
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_a_table_is_exchanged_while_rows_run(make, named, table_path, tmp_path, caplog):
    path = tmp_path / "now.slmt"
    proposer = make(table_only(path, every=0.05))
    batch = Batch(proposer, named)
    batch.add(Request("r", [1, 2, 3, 4], seen, most=10**6))
    batch.step()
    assert batch.proposed == 0 and "No table" in caplog.text                            # none yet
    (tmp_path / "next").write_bytes(table_path.read_bytes())
    (tmp_path / "next").replace(path)
    until(lambda: proposer._reloads.table is not None)
    batch.step()
    assert batch.rows[0].draft and proposer.counters["reloads"] == 1
    (tmp_path / "next").write_bytes(table_path.read_bytes()[:-50])                       # damaged: the old one stays
    (tmp_path / "next").replace(path)
    until(lambda: proposer._reloads.watch.reason)
    for _ in range(2):
        batch.step()
    assert proposer.counters["reloads"] == 1 and batch.accepted > 0
    record(tmp_path / "traces", tenant="another")
    wane.Table.build([tmp_path / "traces"], tmp_path / "next")
    (tmp_path / "next").replace(path)
    until(lambda: proposer._reloads.watch.reloads == 2)
    batch.step()
    batch.step()
    assert batch.rows[0].draft == [] and proposer.counters["reloads"] == 2               # what this one knows is another tenant's
    proposer.close()
    assert not any(thread.name == "wane-table" and thread is proposer._reloads._thread for thread in threading.enumerate())


def test_the_better_source_stands(make, named, table_path):
    batch = Batch(make(DraftSettings(table=str(table_path))), named)
    batch.add(Request("t", [1, 2, 3, 4], seen, most=24))
    batch.add(Request("c", [5, 6, 7] * 20, copying(3), most=60))
    batch.run()
    c = batch.proposer.counters
    assert c["accepted_table"] > 8 and c["accepted_text"] > 30 and c["accepted"] == c["accepted_table"] + c["accepted_text"]


# ---------------------------------------------------------------------- the rest

def test_a_fault_costs_the_draft_and_nothing_else(monkeypatch, caplog):
    proposer = Drafts(config(), DraftSettings(), ORIGIN)
    monkeypatch.setattr(drafts.Running, "from_text", lambda *args: 1 / 0)
    batch = Batch(proposer, True)
    batch.add(Request("r", [5, 6, 7] * 10, copying(3), most=20))
    batch.run()
    assert proposer.counters["faults"] == 20 and len(caplog.records) == 1 and batch.proposed == 0


def test_settings(monkeypatch):
    assert from_settings(read(None)) == DraftSettings() == from_settings(read('{"draft": {}}'))
    made = from_settings(read('{"table": "a.slmt", "table_key": "k.pub", "tenants": "key", "draft": {"least": 0.5, "prompt_lookup": false}}'))
    assert made == DraftSettings(table="a.slmt", key="k.pub", tenants="key", least=0.5, prompt_lookup=False)
    assert from_settings(read('{"table": "a.slmt", "draft": {"table": null}}')).table is None
    for wrong, said in (('{"lest": 1}', "draft: \"lest\" is not known"), ('{"most": 0}', "1 to 47"), ('{"least": 2}', "0.01 to 1"),
                        ('{"every": 0}', "more than 0"), ('"x"', "object"), ('{"tenants": "one"}', "draft: \"tenants\" is not known")):
        with pytest.raises(SettingsError, match=said):
            from_settings(read('{"draft": %s}' % wrong))
    monkeypatch.setattr(drafts, "current", lambda: read('{"draft": {"most": 3}}'))
    assert Drafts(config()).most == 3


def test_a_table_needs_a_tokenizer(table_path):
    with pytest.raises(ValueError, match="skip_tokenizer_init"):
        Drafts(config(skip_tokenizer_init=True), table_only(table_path))


def test_the_worker_hands_over_its_runner():
    class Base:
        def load_model(self, *, load_dummy_weights=False):
            self.model_runner = SimpleNamespace(drafter=self.drafter) if self.drafter is not None else SimpleNamespace()
            return "loaded"

    made, got = worker.bound(Base)(), []
    made.drafter = SimpleNamespace(bind=got.append)
    assert made.load_model(load_dummy_weights=True) == "loaded" and got == [made.model_runner]
    for drafter in (None, object()):
        made.drafter = drafter
        assert made.load_model() == "loaded" and len(got) == 1
    with pytest.raises(AttributeError):
        worker.Another
