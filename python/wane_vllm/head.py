"""
The certified head in vLLM's CPU path: the token of a greedy step, without the product with the whole vocabulary.

Owns the choice of the token, the watch over a batch's sampling parameters, and the layer that stands in the place of vLLM's
`LogitsProcessor` layer. vLLM is extended by what it offers for that: `PluggableLayer.register_oot`, called by a `vllm.general_plugins`
entry point, and a logits processor, which vLLM tells about a batch before the model runs. Nothing of vLLM is replaced behind its back.

Refuses whatever is not plainly greedy: a batch with one request that samples, wants logprobs, or has its logits read or changed, takes
vLLM's own product. So does a row whose winner hangs on roundings that nobody promises, a head that is not unquantized on one CPU, and a
batch size at which the product is the faster one. Weights must not change while they are served.
"""
from __future__ import annotations

import atexit
import dataclasses
import functools
import importlib
import logging
import os
import statistics
import threading
import time
from collections import deque
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

import wane

from .rows import Rows
from .settings import SettingsError, current, group

try:
    from vllm.v1.sample.logits_processor import LogitsProcessor as _Told
except ImportError:  # the choice and the watch work without vLLM, and are tested so
    _Told = object

log = logging.getLogger("vllm.wane.head")  # below vLLM's own logger, whose level and handlers it has

#: Candidates that are looked at; where all of them may win, the row is left open.
MOST = 8
#: Hidden rows that a sketch's statistics are made of.
SAMPLE = 2048
#: Steps of a batch size that run both ways at first, and how many the medians are of.
TRIES = 12
#: Each so many steps of a batch size run both ways again.
EVERY = 512
#: The head must be faster than the product by this much.
GAIN = 0.97

#: Fields of SamplingParams that neither read nor change the logits of a greedy step. Any other one, and any that a later vLLM adds, must
#: have its default.
HARMLESS = frozenset((
    "n", "temperature", "seed", "stop", "stop_token_ids", "ignore_eos", "max_tokens", "detokenize", "skip_special_tokens",
    "spaces_between_special_tokens", "include_stop_str_in_output", "output_kind", "stream_interval", "skip_clone",
    "output_text_buffer_length", "_eos_token_id", "_all_stop_token_ids", "skip_reading_prefix_cache", "repetition_detection",
    "flat_logprobs", "extra_args", "_watermarking_skipped",
    "watermarking",  # looked at below: vLLM makes it False where there is no watermark
    "top_k", "top_p", "min_p"))  # vLLM resets these three for a greedy request, and its greedy path never looks at them


@dataclass(frozen=True)
class Options:
    """What the settings say under "head": whether it is on, the sketch's file, threads and sigmas of wane.Head."""

    on: bool = False
    sketch: Optional[str] = None
    threads: int = 1
    sigmas: float = 6.0

    @classmethod
    def of_settings(cls) -> "Options":
        """Those of this process; SettingsError says what is wrong."""
        given = current().head
        made: Options = group(cls, "head", {"on": True, **given} if given else {})
        if not 1 <= made.threads <= 256 or not 1 <= made.sigmas <= 12:
            raise SettingsError(f"head: threads must be 1 to 256 and sigmas 1 to 12; they are {made.threads} and {made.sigmas}")
        return made


# ------------------------------------------------------------------------------------------------------------------------------- the choice


def rounded(values: NDArray[Any], kind: str) -> NDArray[np.float32]:
    """Float32 rounded to the nearest bf16, f16 or f32, ties to even, as float32."""
    values = np.asarray(values, np.float32)
    if kind == "f32":
        return values
    if kind == "f16":
        return values.astype(np.float16).astype(np.float32)
    bits = np.ascontiguousarray(values).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)).view(np.float32)


class Chooser:
    """
    The token that a dense head chooses whose logits are sums in float32, in any order, rounded to the type of the weights, the first among
    equals.

    A sum of d products in float32 lies within g = d·u / (1 - d·u) times the sum of their sizes of the exact one, u = 2^-24, in whatever
    order it is made. So the exact logit says between which two rounded ones the dense logit lies. A row has a winner where the winner's
    lower one beats the others' upper ones. Else it is open: the order of the sum would decide.

    `weights`: (V, d), float32, float16, or the bits of bfloat16 as int16 or uint16.
    """

    def __init__(self, weights: NDArray[Any], kind: str, head: wane.Head) -> None:
        self.weights, self.kind, self.head = weights, kind, head
        vocab, d = weights.shape
        self.most = min(MOST, vocab)
        self.whole = self.most == vocab
        self.share = d * 2.0**-24 / (1 - d * 2.0**-24)
        self.longest = max(float(np.linalg.norm(self._floats(slice(i, i + 4096)), axis=1).max()) for i in range(0, vocab, 4096)) * 1.0001

    def _floats(self, rows: Any) -> NDArray[np.float32]:
        taken = self.weights[rows]
        if self.kind == "bf16":
            return (taken.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
        return taken.astype(np.float32)

    def _between(self, logits: NDArray[Any], slack: NDArray[Any]) -> Tuple[NDArray[np.float32], NDArray[np.float32]]:
        slack = slack * 1.0001 + np.abs(logits) * 2.0**-21  # and what the exact logit, and these sums, are rounded by themselves
        return rounded(logits - slack, self.kind), rounded(logits + slack, self.kind)

    def choose(self, hidden: NDArray[np.float32]) -> Tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Tokens of rows (n, d), -1 where a row is open, and their logits, near enough to be looked at."""
        ids, logits = self.head.topk(hidden, self.most)
        length = np.sqrt(np.einsum("ij,ij->i", hidden, hidden, dtype=np.float64))
        low, high = self._between(logits, (self.share * self.longest) * length[:, np.newaxis])
        rivals = high >= low[:, :1]
        tokens = ids[:, 0].astype(np.int64)
        for row in np.flatnonzero(rivals[:, 1:].any(axis=1)):
            tokens[row] = self._settle(hidden[row], ids[row], logits[row], rivals[row])
        return tokens, rounded(logits[:, 0], self.kind)

    def _settle(self, hidden: NDArray[np.float32], ids: NDArray[np.int32], logits: NDArray[np.float32], rivals: NDArray[np.bool_]) -> int:
        """Of several rivals, with the sizes of their own products; -1: open."""
        if rivals.all() and not self.whole:
            return -1  # there may be more of them
        ids, logits = ids[rivals], logits[rivals]
        low, high = self._between(logits, self.share * (np.abs(self._floats(ids)).astype(np.float64) @ np.abs(hidden).astype(np.float64)))
        best = np.flatnonzero(low == low.max())
        best = best[ids[best].argmin()]
        others = np.arange(ids.size) != best
        beaten = (high < low[best]) | ((high == low[best]) & (ids > ids[best]))
        return int(ids[best]) if beaten[others].all() else -1


# -------------------------------------------------------------------------------------------------------------------------------- the watch


def _same(value: Any, default: Any) -> bool:
    if value is default:
        return True
    if isinstance(value, np.ndarray):
        return False
    if isinstance(value, (bool, int, float, str)):
        return type(value) is type(default) and value == default or (value == default and isinstance(default, (int, float)))
    return value is None and not default or default is None and hasattr(value, "__len__") and len(value) == 0 \
        or type(value) is type(default) and value == default


@functools.lru_cache(maxsize=4)
def _defaults(kind: type) -> Dict[str, Any]:
    made = kind(temperature=0.0)
    return {name: getattr(made, name) for name in kind.__struct_fields__ if name not in HARMLESS}  # type: ignore[attr-defined]


def plain(params: Any) -> bool:
    """Is this request's token the first of the largest logits, and do its logits serve nothing else?"""
    if params is None or params.temperature >= 1e-5 or getattr(params, "watermarking", None):
        return False
    return all(_same(getattr(params, name), value) for name, value in _defaults(type(params)).items())


class Watch:
    """Which requests the next step's batch holds, by row, and whether they are plain."""

    def __init__(self, judge: Callable[[Any], bool] = plain) -> None:
        self.judge, self.rows, self.plain = judge, 0, False
        self._of: Rows[bool] = Rows()

    def update(self, change: Any) -> None:
        """A BatchUpdate of vLLM's; None: the batch is as it was."""
        if change is None:
            return
        self._of.update(change, lambda params, *_: self.judge(params))
        self.rows = change.batch_size
        self.plain = self.rows > 0 and all(self._of.of.get(row, False) for row in range(self.rows))


_step = threading.local()  # .watch: the watch of the step that this thread is in, until its logits are made


def _take(rows: int) -> bool:
    """Are the logits that are to be made those of a plain batch, of so many rows? Once a step: whatever asks again wants other rows."""
    watch, _step.watch = getattr(_step, "watch", None), None
    return watch is not None and watch.plain and watch.rows == rows


def _others(config: Any) -> List[type]:
    """Classes of the other logits processors that vLLM loads."""
    named: List[Any] = list(metadata.entry_points(group="vllm.logits_processors"))
    found = [entry.load() for entry in named]
    for given in getattr(config.model_config, "logits_processors", None) or ():
        if isinstance(given, str):
            module, _, path = given.partition(":")
            given = functools.reduce(getattr, path.split("."), importlib.import_module(module))
        found.append(given)
    return [kind for kind in found if kind is not HeadWatch]


class HeadWatch(_Told):  # type: ignore[misc, valid-type]
    """
    The logits processor that changes nothing: vLLM tells it which requests a step has, before the model runs. Another one that is loaded
    keeps the head off, unless its class has `leaves_best(params)`, True for requests whose logits it neither reads nor changes.
    """

    def __init__(self, vllm_config: Any, device: Any = None, is_pin_memory: bool = False) -> None:
        self.watch: Optional[Watch] = None
        if not Options.of_settings().on:
            return
        askers = []
        for kind in _others(vllm_config):
            if not hasattr(kind, "leaves_best"):
                log.warning("wane head: off, as the logits processor %s may read logits", kind.__name__)
                return
            askers.append(kind.leaves_best)
        self.watch = Watch(lambda params: plain(params) and all(ask(params) for ask in askers))

    def is_argmax_invariant(self) -> bool:
        """It is: a greedy step never calls apply."""
        return True

    def update_state(self, batch_update: Any) -> None:
        """Called before each forward pass."""
        if self.watch is not None:
            self.watch.update(batch_update)
            _step.watch = self.watch

    def apply(self, logits: Any) -> Any:
        """Nothing."""
        return logits


# -------------------------------------------------------------------------------------------------------------------------------- the place


class Pace:
    """Times of both ways at one batch size: which is the faster one, and when to look again."""

    def __init__(self) -> None:
        self.times: Dict[str, Deque[float]] = {"dense": deque(maxlen=TRIES), "head": deque(maxlen=TRIES)}
        self.steps = 0

    def both(self) -> bool:
        """Is this step to run both ways?"""
        self.steps += 1
        return len(self.times["head"]) < TRIES or self.steps % EVERY == 0

    @property
    def head(self) -> bool:
        """Is the head the faster one?"""
        return statistics.median(self.times["head"]) < GAIN * statistics.median(self.times["dense"])


class Place:
    """
    One layer's certified head, from the rows that its sketch is made of to the step-by-step choice. `logits` is its only question.
    `counts` says what answered: "gather" (no sketch yet), "dense" (the faster one), "both", "open" (a row had no certain winner), "head".
    """

    def __init__(self, options: Options, cores: Optional[Sequence[int]] = None) -> None:
        self.options, self.cores = options, cores
        self.off: Optional[str] = None
        self.chooser: Optional[Chooser] = None
        self.paces: Dict[int, Pace] = {}
        self.counts = dict.fromkeys(("gather", "dense", "both", "open", "head"), 0)
        self._sample: List[NDArray[np.float32]] = []
        self._thread: Optional[threading.Thread] = None
        self._weights: Optional[Tuple[NDArray[Any], str]] = None
        self._seek = options.sketch is not None
        self._ending = False
        atexit.register(self.close)

    def close(self) -> None:
        """Wait for what is being built, and free the head."""
        self._ending = True
        if self._thread is not None:
            self._thread.join()
        if self.chooser is not None:
            self.off = "closed"
            self.chooser.head.close()
            self.chooser = None

    def stop(self, reason: str) -> None:
        """Dense from now on."""
        self.off = reason
        self._sample.clear()
        log.warning("wane head: off, %s", reason)

    def prepare(self, weights: NDArray[Any], kind: str, hidden: NDArray[np.float32]) -> None:
        """One step on the way to a sketch: look for its file, then gather rows, then build; the work is another thread's."""
        if self._thread is not None and self._thread.is_alive():
            return
        rows = None
        if not self._seek:
            self._sample.append(hidden.copy())
            if sum(map(len, self._sample)) < SAMPLE:
                return
            rows = np.concatenate(self._sample)
            self._sample.clear()
        self._thread = threading.Thread(target=self._open, args=(weights, kind, rows), name="wane-head", daemon=True)
        self._thread.start()

    def _open(self, weights: NDArray[Any], kind: str, rows: Optional[NDArray[np.float32]]) -> None:
        if self.cores and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, self.cores)  # of this thread and of those that the head starts: vLLM has tied its own to one core
        packed = wane.Weights.packed(weights, kind, *weights.shape)
        asked: Dict[str, Any] = {"threads": self.options.threads, "sigmas": self.options.sigmas}
        try:
            if rows is None:
                self._seek = False
                head = wane.Head.open(packed, self.options.sketch, **asked)
            else:
                head = wane.Head(packed, self.options.sketch, sample=rows, rebuild=self.options.sketch is not None,
                                 progress=lambda *_: not self._ending, **asked)
            self.chooser = Chooser(weights, kind, head)
            log.info("wane head: on, %s", head.facts)
        except (wane.NotFound, wane.FormatError) as reason:
            log.info("wane head: no sketch yet: %s", reason)
        except (wane.WaneError, OSError, ValueError) as reason:
            if not self._ending:
                self.stop(str(reason))

    def logits(self, hidden: NDArray[np.float32], dense: Callable[[], Any], fill: Callable[[NDArray[Any], NDArray[Any]], Any],
               best: Callable[[Any], NDArray[Any]]) -> Any:
        """
        Logits of a plain batch. `dense()` makes all of them, `fill(tokens, logits)` some, `best(logits)` names each row's first largest.
        Only after `prepare` has led to a chooser.
        """
        pace = self.paces.setdefault(len(hidden), Pace())
        if pace.both():
            return self._both(pace, hidden, dense, best)
        if not pace.head:
            self.counts["dense"] += 1
            return dense()
        found = self._choose(hidden)
        if found is None:
            self.counts["open"] += 1
            return dense()
        self.counts["head"] += 1
        return fill(*found)

    def _choose(self, hidden: NDArray[np.float32]) -> Optional[Tuple[NDArray[np.int64], NDArray[np.float32]]]:
        assert self.chooser is not None
        try:
            tokens, logits = self.chooser.choose(hidden)
        except (wane.WaneError, ValueError):  # a row that holds what is no number
            return None
        return None if (tokens < 0).any() else (tokens, logits)

    def _both(self, pace: Pace, hidden: NDArray[np.float32], dense: Callable[[], Any], best: Callable[[Any], NDArray[Any]]) -> Any:
        self.counts["both"] += 1
        ways: List[Tuple[str, Callable[[], Any]]] = [("dense", dense), ("head", lambda: self._choose(hidden))]
        got: Dict[str, Any] = {}
        for name, way in ways if pace.steps % 2 else reversed(ways):
            start = time.perf_counter()
            got[name] = way()
            pace.times[name].append(time.perf_counter() - start)
        if got["head"] is not None and not np.array_equal(got["head"][0], best(got["dense"])):
            self.stop(f"it chose {got['head'][0].tolist()}, and vLLM {best(got['dense']).tolist()}")
        return got["dense"]


# -------------------------------------------------------------------------------------------------------------------------------- the layer

#: The places of this process, for whoever wants to look at their counts.
places: List[Place] = []


def _unfit(layer: Any, lm_head: Any, bias: Any, config: Any) -> Optional[str]:
    """Why the head cannot stand in this layer's place; None: it can."""
    import torch
    from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod

    weight = getattr(lm_head, "weight", None)
    if bias is not None or layer.soft_cap is not None or layer.scale != 1.0 or layer.logits_as_input:
        return "its logits are more than a product"
    if lm_head.tp_size > 1:
        return "the vocabulary is split over several workers"
    if config is not None and config.lora_config is not None:
        return "adapters may change logits"
    if not isinstance(lm_head.quant_method, UnquantizedEmbeddingMethod) or weight is None or weight.device.type != "cpu":
        return "the weights are quantized, or on another device"
    if weight.dtype not in (torch.bfloat16, torch.float16, torch.float32) or layer.head_dtype not in (None, weight.dtype):
        return f"weights of {weight.dtype} for logits of {layer.head_dtype}"
    if weight.dim() != 2 or weight.shape[0] < layer.org_vocab_size or not weight.is_contiguous():
        return "the weights do not lie row by row"
    return None


def _weights(weight: Any, rows: int) -> Tuple[NDArray[Any], str]:
    import torch

    kind = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}[weight.dtype]
    tensor = weight.detach()[:rows]
    return (tensor.view(torch.int16) if kind == "bf16" else tensor).numpy(), kind


def _layer(base: Any, options: Options, cores: Optional[Sequence[int]]) -> Any:
    import torch
    from vllm.config import get_current_vllm_config

    class CertifiedLogits(base):  # type: ignore[misc, valid-type]
        """vLLM's layer; of a plain batch the best logit alone, -inf for all others, where that is certain and faster."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.wane_config, self.wane_place, self.wane_weights = get_current_vllm_config(), Place(options, cores), None
            places.append(self.wane_place)

        def forward(self, lm_head: Any, hidden_states: Any, embedding_bias: Any = None, skip_gather: bool = False) -> Any:
            """As vLLM's."""
            def dense() -> Any:
                return base.forward(self, lm_head, hidden_states, embedding_bias, skip_gather)

            place: Optional[Place] = getattr(self, "wane_place", None)  # None: a wrapper of vLLM's calls this for itself
            if place is None or skip_gather or hidden_states.dim() != 2 or not _take(hidden_states.shape[0]) or place.off:
                return dense()
            if self.wane_weights is None:
                reason = _unfit(self, lm_head, embedding_bias, self.wane_config)
                if reason is not None:
                    place.stop(reason)
                    return dense()
                self.wane_weights = _weights(lm_head.weight, self.org_vocab_size)
            hidden = hidden_states.float().numpy()
            if place.chooser is None:
                place.counts["gather"] += 1
                place.prepare(*self.wane_weights, hidden)
                return dense()

            def fill(tokens: NDArray[Any], logits: NDArray[Any]) -> Any:
                made = torch.full((len(tokens), self.org_vocab_size), -torch.inf, dtype=hidden_states.dtype)
                made[torch.arange(len(tokens)), torch.from_numpy(tokens)] = torch.from_numpy(logits).to(made.dtype)
                return made
            return place.logits(hidden, dense, fill, lambda made: made.float().numpy().argmax(axis=1))

    return CertifiedLogits


def register() -> None:
    """For the entry point group `vllm.general_plugins`; HeadWatch belongs into `vllm.logits_processors`. Off unless switched on."""
    options = Options.of_settings()
    if not options.on:
        return
    from vllm.model_executor.custom_op import PluggableLayer, op_registry_oot
    from vllm.model_executor.layers.logits_processor import LogitsProcessor

    name = LogitsProcessor.__name__
    if name in op_registry_oot:  # vLLM may load plugins several times; or another plugin was first
        if op_registry_oot[name].__name__ != "CertifiedLogits":
            log.warning("wane head: off, as %s stands in the place of %s", op_registry_oot[name].__name__, name)
        return
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    PluggableLayer.register_oot(name=name)(_layer(LogitsProcessor, options, cores))
