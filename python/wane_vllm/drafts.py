"""
Tokens ahead for vLLM: a proposer for its speculative decoding. It drafts from a table of what was recorded before, and from the running
text of each sequence. A draft is a guess; vLLM verifies it, so that a wrong one costs time and nothing else.

    speculative_config={"method": "custom_class", "model": "wane_vllm.drafts.Drafts", "num_speculative_tokens": 8}

Settings are those of settings.py, under "draft".

What vLLM's V1 runner does, and what is relied on here. `propose` is called after each step, in the process of the worker, with one entry
a row of the batch: the tokens that the step gave it, none where its prompt is not done. Row i of `token_ids_cpu` has
`num_tokens_no_spec[i]` tokens, the new ones among them; what lies behind is left over from drafts and from other requests, and is never
read. Drafts may have any length up to num_speculative_tokens, and none; vLLM cuts them to the room of a step, and drops those that a
grammar refuses and those of a preempted request. Rows move and have no names; worker.py gives them names. While a row is so near the end
of its context that a whole draft has no room, vLLM does not call at all, and verifies drafts of zeros for all rows.

How long a draft is. Each token that was drawn judges what every source had proposed for its place, sent or not, so that chances are
learned on text where nothing is drafted. A draft goes on while all of it is accepted with probability `least`: what one more token in a
step costs, in steps. A sequence that lost more than it gained drafts nothing until it has paid that off.
"""
from __future__ import annotations

import dataclasses
import logging
import threading
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

import wane

from . import copies, metrics
from .settings import Settings, SettingsError, current, group
from .tokens import origin_of

log = logging.getLogger("wane.drafts")

_SOURCES = ("text", "table")
#: A draft must be expected to gain so much of a step: to verify anything at all costs something.
_GAIN_LEAST = 0.1
#: Tokens' time that a sequence may lose, and may save up for that; and what it pays off with each token without a draft.
_DEBT_MOST, _CREDIT_MOST, _PAID = 4.0, 8.0, 0.02
#: Other tenants' habits are forgotten, the longest unused first.
_TENANTS_MOST = 256


@dataclass(frozen=True)
class DraftSettings:
    """Where drafts come from, and how long they are."""

    table: Optional[str] = None       # a .slmt file, followed while it changes
    key: Optional[str] = None         # the public key that must have signed it
    tenants: str = "one"              # "one": all rows are `tenant`'s; else each is that of the tenant that its request names
    tenant: str = ""                  # whose rows those are that name no tenant
    prompt_lookup: bool = True        # the running text is a source
    most: int = 47                    # tokens in a draft; num_speculative_tokens is a limit, too
    least: float = 0.3                # the chance that all of a draft so far is accepted; more: shorter drafts
    every: float = 1.0                # seconds between two looks at the table's file

    def __post_init__(self) -> None:
        if not 1 <= self.most <= 47:
            raise SettingsError(f"draft.most is {self.most}; it must be 1 to 47")
        if not 0.01 <= self.least <= 1:
            raise SettingsError(f"draft.least is {self.least}; it must be 0.01 to 1")
        if not self.every > 0:
            raise SettingsError(f"draft.every is {self.every}; it must be more than 0 seconds")


def from_settings(settings: Settings) -> DraftSettings:
    """The settings under "draft"; the table, its key and tenants are those of all parts. SettingsError: what is not known or not allowed."""
    of_all = {"table": settings.table, "key": settings.table_key, "tenants": settings.tenants}
    return group(DraftSettings, "draft", settings.draft, of_all, hidden=("tenants",))


# ------------------------------------------------------------------------ chances

#: Classes of like chances, and what is expected before anything is known: matches by their length, the broken copy's ways, and quarters
#: of what a table says.
_LENGTHS = (2, 3, 4, 6, 8, 16, copies.LENGTH_MOST)
_WAY, _BLIND, _TABLE = len(_LENGTHS), len(_LENGTHS) + 1, len(_LENGTHS) + 2
_PRIOR = (0.35, 0.45, 0.6, 0.7, 0.8, 0.9, 0.95, 0.5, 0.35)
_CLASSES = _TABLE + 4
_WEIGHT, _MEMORY = 8.0, 96.0


def _class_of(kind: int, length: int) -> int:
    """Of a copy's token with so many equal ones before it."""
    if kind != copies.MATCH and length < _LENGTHS[2]:
        return _WAY if kind == copies.WAY else _BLIND
    at = 0
    while at + 1 < len(_LENGTHS) and length >= _LENGTHS[at + 1]:
        at += 1
    return at


class Habits:
    """How one tenant's proposals fared, by class; old trials fade."""

    def __init__(self) -> None:
        self.tried, self.right = [0.0] * _CLASSES, [0.0] * _CLASSES

    def chance(self, kind: int, prior: float) -> float:
        """`prior` counts as eight trials."""
        return min(0.99, (self.right[kind] + _WEIGHT * prior) / (self.tried[kind] + _WEIGHT))

    def judge(self, kind: int, hit: bool) -> None:
        self.tried[kind] += 1
        self.right[kind] += hit
        if self.tried[kind] > _MEMORY:
            self.tried[kind] /= 2
            self.right[kind] /= 2


@dataclass
class Proposal:
    """What a source proposed, all of it; `classes[i]` and `chances[i]` of token i, as far as it was worth a look."""

    source: int
    tokens: List[int]
    classes: List[int]
    chances: List[float]
    priors: List[float]
    worth: float = 0.0
    count: int = 0

    def measure(self, least: float, room: int) -> None:
        """How many tokens are worth to be verified, and what is gained by it, in steps."""
        all_of_it, self.worth, self.count = 1.0, 0.0, 0
        for chance in self.chances[:room]:
            all_of_it *= chance
            if all_of_it < least:
                break
            self.worth += all_of_it - least
            self.count += 1


# --------------------------------------------------------------------- a sequence

class Running:
    """One sequence: its text, its name in the table, what stands proposed for it, and its account."""

    def __init__(self, row: np.ndarray, tenant: Optional[str], habits: Habits, named: bool) -> None:
        self.tenant, self.habits = tenant, habits
        self.text = copies.Text(row)
        self.context = wane.Context(row, tenant) if named and tenant is not None else None
        self.standing: List[Proposal] = []
        self.sent: List[int] = []
        self.source = 0
        self.debt = 0.0
        self.missed, self.expected = 2.0, 1.5
        self.seen = 0

    def add(self, tokens: Sequence[int]) -> None:
        self.text.add(tokens)
        if self.context is not None:
            self.context.add(tokens)

    def judge(self, drawn: Sequence[int]) -> None:
        """The drawn tokens judge what stood: each source up to its first miss."""
        for proposal in self.standing:
            for token, expected, kind, prior in zip(drawn, proposal.tokens, proposal.classes, proposal.priors):
                hit = token == expected
                self.expected += 1 - self.habits.chance(kind, prior)
                self.habits.judge(kind, hit)
                if not hit:
                    self.missed += 1
                    break
        self.standing = []

    def chance(self, kind: int, prior: float) -> float:
        """Of a class, in this sequence: one that misses more than its classes let expect has less."""
        return max(0.0, 1 - (1 - self.habits.chance(kind, prior)) * self.missed / self.expected)

    def forget_some(self) -> None:
        """What was long ago counts less."""
        if self.expected > 16:
            self.expected /= 2
            self.missed /= 2

    def from_text(self, most: int, least: float) -> Optional[Proposal]:
        copy = self.text.find()
        run = self.text.ahead(copy, most) if copy is not None else []
        if copy is None or not run:
            return None
        made, all_of_it = Proposal(0, run, [], [], []), 1.0
        for i in range(len(run)):
            kind = _class_of(copy.kind, copy.length + i)
            made.classes.append(kind)
            made.priors.append(_PRIOR[kind])
            made.chances.append(self.chance(kind, _PRIOR[kind]))
            all_of_it *= made.chances[-1]
            if all_of_it < least and i >= 2:
                break
        return made

    def from_table(self, table: wane.Table, most: int) -> Optional[Proposal]:
        assert self.context is not None
        draft = table.draft(self.context, most)
        if not len(draft):
            return None
        priors = [float(chance) for chance in draft.chances]
        classes = [_TABLE + min(3, int(4 * chance)) for chance in priors]
        return Proposal(1, draft.tokens.tolist(), classes, [self.chance(k, p) for k, p in zip(classes, priors)], priors)


# ------------------------------------------------------------------- the proposer

class _Reloads:
    """The table that the path has now, opened by a thread of its own, so that no step waits for a file."""

    def __init__(self, settings: DraftSettings, of: wane.Origin) -> None:
        assert settings.table is not None
        self.watch = wane.TableWatch(settings.table, of=of, key=settings.key, every=settings.every)
        self.table = self.watch.table
        self._said = ""
        self._stop = threading.Event()
        self._say()
        self._thread = threading.Thread(target=self._follow, args=(settings.every,), name="wane-table", daemon=True)
        self._thread.start()

    def _say(self) -> None:
        if self.watch.reason and self.watch.reason != self._said:
            log.warning("No table from %s: %s", self.watch.path, self.watch.reason)
        self._said = self.watch.reason

    def _follow(self, every: float) -> None:
        while not self._stop.wait(every):
            if self.watch.refresh():
                log.info("Another table from %s.", self.watch.path)
            self.table = self.watch.table
            self._say()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


_COUNTERS = ("steps", "rows", "drafts", "proposed", "accepted", "cut", "backoffs", "reloads", "faults", "seconds",
             *(f"{what}_{source}" for what in ("drafts", "proposed", "accepted") for source in _SOURCES))

#: Under which names of metrics.py, and which of their labels' values.
_EXPORTED = {"drafts": ("wane_draft_blocks", ""), "backoffs": ("wane_draft_backoffs", ""), "reloads": ("wane_table_reloads", ""),
             **{f"{what}_{source}": (f"wane_draft_{what}", source) for what in ("proposed", "accepted") for source in _SOURCES}}


def _origin(model_config: Any) -> wane.Origin:
    """Of the tokenizer that vLLM loaded, and of any model with it: whatever a table proposes is verified."""
    if getattr(model_config, "skip_tokenizer_init", False):
        raise ValueError("a table needs the tokenizer, which skip_tokenizer_init leaves out")
    from vllm.tokenizers import cached_tokenizer_from_config
    return origin_of(cached_tokenizer_from_config(model_config), "", model_config.get_vocab_size())


class Drafts:
    """
    vLLM's proposer. `counters`: what was proposed and accepted so far, numbers that never fall. Threads: `propose` is called by one;
    `counters` may be read by any.

    `bind` hands it the runner whose rows it sees: then a row's request is known, and with it its tenant:
    sampling_params.extra_args["wane_tenant"] (over HTTP: "vllm_xargs": {"wane_tenant": "anna"}). Without it rows are recognised by their
    tokens, all of them; where there are several tenants, nobody knows whose they are, and only their own text is drafted from.
    """

    def __init__(self, vllm_config: Any, settings: Optional[DraftSettings] = None, origin: Optional[wane.Origin] = None) -> None:
        self.settings = from_settings(current()) if settings is None else settings
        model, speculative = vllm_config.model_config, vllm_config.speculative_config
        self.most = min(int(speculative.num_speculative_tokens), self.settings.most)
        self.length_most, self.vocab_size = int(model.max_model_len), int(model.get_vocab_size())
        self.embeds = bool(getattr(model, "enable_prompt_embeds", False))
        self.kept_most = 2 * int(vllm_config.scheduler_config.max_num_seqs)
        self.counters: Dict[str, float] = dict.fromkeys(_COUNTERS, 0)
        self._reloads = None
        if self.settings.table is not None:
            self._reloads = _Reloads(self.settings, _origin(model) if origin is None else origin)
        parallel = getattr(vllm_config, "parallel_config", None)
        self._exports = metrics.counters() if getattr(parallel, "rank", 0) == 0 else None
        self._told: Dict[str, int] = {}
        self._runner: Any = None
        self._named: Dict[str, Running] = {}
        self._unnamed: List[Running] = []
        self._rows: Dict[int, Running] = {}
        self._habits: Dict[Optional[str], Habits] = {}

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """There is no model to load."""

    def bind(self, runner: Any) -> None:
        """From now on rows are named as this runner names them."""
        self._runner = runner

    def close(self) -> None:
        """The table's file is followed no longer."""
        if self._reloads is not None:
            self._reloads.close()

    def propose(self, sampled_token_ids: List[List[int]], num_tokens_no_spec: np.ndarray, token_ids_cpu: np.ndarray,
                slot_mappings: Any = None) -> List[List[int]]:
        """Of each row the tokens that may come next; none where nothing is worth a try."""
        begun = time.perf_counter()
        self.counters["steps"] += 1
        table = None
        if self._reloads is not None:
            table, self.counters["reloads"] = self._reloads.table, self._reloads.watch.reloads
        rows, out = {}, []
        for i, sampled in enumerate(sampled_token_ids):
            draft: List[int] = []
            if sampled:
                try:
                    sequence = self._sequence(i, sampled, token_ids_cpu[i, :int(num_tokens_no_spec[i])])
                    if sequence is not None:
                        rows[i] = sequence
                        draft = self._draft(sequence, table)
                except Exception:                                # a draft is never worth a request
                    if not self.counters["faults"]:
                        log.exception("A draft failed; the row goes on without one.")
                    self.counters["faults"] += 1
            out.append(draft)
        self._rows = rows
        self._forget()
        self.counters["seconds"] += time.perf_counter() - begun
        self._export()
        return out

    def _export(self) -> None:
        """What was counted since the last time joins the numbers of all parts, once for all ranks."""
        if self._exports is None:
            return
        for name, (family, label) in _EXPORTED.items():
            more = int(self.counters[name]) - self._told.get(name, 0)
            if more > 0:
                self._exports.add(family, label, more)
                self._told[name] = self._told.get(name, 0) + more

    # ------------------------------------------------------------------ whose row

    def _request(self, i: int) -> Tuple[Optional[str], Optional[str], bool]:
        """A row's name and tenant (None: nobody knows it), and whether its ids are all that the model sees of it."""
        one = self.settings.tenants == "one"
        if self._runner is None:
            return None, self.settings.tenant if one else None, not self.embeds
        name = self._runner.input_batch.req_ids[i]
        request = self._runner.requests[name]
        extra = getattr(request.sampling_params, "extra_args", None) or {}
        tenant = self.settings.tenant if one else extra.get("wane_tenant", self.settings.tenant)
        return name, tenant if isinstance(tenant, str) else None, getattr(request, "prompt_embeds", None) is None

    def _sequence(self, i: int, sampled: Sequence[int], row: np.ndarray) -> Optional[Running]:
        name, tenant, whole = self._request(i)
        before = len(row) - len(sampled)
        if not whole or before < 0:
            return None
        found = self._by_tokens(i, row[:before], tenant) if name is None else self._by_name(name, row, tenant)
        if found is None:
            found = Running(row, tenant, self._habits_of(tenant), self._reloads is not None)
            if name is None:
                self._unnamed.append(found)
            else:
                self._named[name] = found
        else:
            self._take(found, sampled, row, before)
        found.seen = int(self.counters["steps"])
        self.counters["rows"] += 1
        return found

    def _by_name(self, name: str, row: np.ndarray, tenant: Optional[str]) -> Optional[Running]:
        """A name may come again, and a request's tokens may be taken back: the last ones are compared."""
        found = self._named.get(name)
        return found if found is not None and found.tenant == tenant and found.text.ends(row) else None

    def _by_tokens(self, i: int, before: np.ndarray, tenant: Optional[str]) -> Optional[Running]:
        """The sequence that was this row before the step: in the same place, else wherever; all tokens are compared. Each is found once."""
        now, last = int(self.counters["steps"]), self._rows.get(i)
        for known in ([last] if last is not None else []) + self._unnamed:
            if known.seen != now and known.tenant == tenant and len(known.text) == len(before) and known.text.equals(before):
                return known
        return None

    def _take(self, sequence: Running, sampled: Sequence[int], row: np.ndarray, before: int) -> None:
        """The step's tokens join. Only where they follow what stood do they judge it: after a step without a call they do not."""
        had = len(sequence.text)
        if had == before:
            self._settle(sequence, sampled)
            sequence.judge(sampled)
        else:
            sequence.standing = []
        sequence.sent = []
        sequence.add(row[had:].tolist())
        sequence.forget_some()

    def _settle(self, sequence: Running, sampled: Sequence[int]) -> None:
        """
        What became of the draft: all sampled tokens but the last were drafted. Where the last one is the draft's, too, vLLM had cut the
        draft before it: no sampler draws again what was just refused.
        """
        sent, accepted = sequence.sent, min(len(sampled) - 1, len(sequence.sent))
        if not sent:
            sequence.debt = max(0.0, sequence.debt - _PAID) if sequence.debt > 0 else sequence.debt
            return
        verified = accepted if accepted < len(sent) and sampled[accepted] == sent[accepted] else len(sent)
        sequence.debt = max(-_CREDIT_MOST, sequence.debt + self.settings.least * verified - accepted)
        self.counters["accepted"] += accepted
        self.counters["accepted_" + _SOURCES[sequence.source]] += accepted
        self.counters["cut"] += len(sent) - verified

    def _habits_of(self, tenant: Optional[str]) -> Habits:
        habits = self._habits.pop(tenant, None) or Habits()
        self._habits[tenant] = habits                            # the one used last stands last
        if len(self._habits) > _TENANTS_MOST:
            del self._habits[next(iter(self._habits))]
        return habits

    def _forget(self) -> None:
        """Requests that ended go; then those that were not seen for longest: one that comes back is read anew."""
        if len(self._named) > self.kept_most // 2:
            self._named = {name: known for name, known in self._named.items() if name in self._runner.requests}
        if len(self._named) > self.kept_most:
            kept = sorted(self._named.items(), key=lambda item: -item[1].seen)[:self.kept_most // 2]
            self._named = dict(kept)
        if len(self._unnamed) > self.kept_most:
            self._unnamed = sorted(self._unnamed, key=lambda known: -known.seen)[:self.kept_most // 2]

    # ------------------------------------------------------------------ a draft

    def _draft(self, sequence: Running, table: Optional[wane.Table]) -> List[int]:
        room = min(self.most, self.length_most - 1 - len(sequence.text))     # the token behind the draft needs a place, too
        if room < 1:
            return []
        least, standing = self.settings.least, sequence.standing
        if self.settings.prompt_lookup:
            standing.append(sequence.from_text(self.most, least))
        if table is not None and sequence.context is not None:
            standing.append(sequence.from_table(table, self.most))
        sequence.standing = standing = [proposal for proposal in standing if proposal is not None]
        for proposal in standing:
            proposal.measure(least, room)
        best = max(standing, key=lambda proposal: proposal.worth, default=None)
        if best is None or best.worth < _GAIN_LEAST:
            return []
        if sequence.debt > _DEBT_MOST:
            self.counters["backoffs"] += 1
            return []
        return self._send(sequence, best)

    def _send(self, sequence: Running, best: Proposal) -> List[int]:
        draft = best.tokens[:best.count]
        outside = next((i for i, token in enumerate(draft) if not 0 <= token < self.vocab_size), len(draft))
        draft = draft[:outside]
        if draft:
            sequence.sent, sequence.source, source = draft, best.source, _SOURCES[best.source]
            for what, much in (("drafts", 1), ("proposed", len(draft))):
                self.counters[what] += much
                self.counters[f"{what}_{source}"] += much
        return list(draft)
