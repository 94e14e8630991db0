"""
wane's logits processor in vLLM: keeps a reply for each row of the batch, draws where a request runs in another mode than off, records and audits. Owns what
is put off and comes back; refuses to do anything for requests that want nothing.
"""
from __future__ import annotations

import atexit
import time
from typing import TYPE_CHECKING, Any, List, Optional, Tuple

from . import metrics, requests
from .parts import Parts
from .reply import Reply
from .rows import Rows
from .settings import Settings, current

if TYPE_CHECKING:
    Base = object
else:
    try:
        from vllm.v1.sample.logits_processor import LogitsProcessor as Base
    except ImportError:  # the contract is tested without vLLM
        Base = object

#: A row that went without a reason may come back, for vLLM puts requests off when memory is short: so many, for so many seconds.
PARKED_MOST, PARKED_SECONDS = 256, 60.0


class Wane(Base):
    """The processor (entry point vllm.logits_processors)."""

    @classmethod
    def validate_params(cls, params: Any) -> None:
        """Before a request is queued: what is wrong with its wane_… arguments is a 400."""
        requests.read(params.extra_args, current())

    @staticmethod
    def leaves_best(params: Any) -> bool:
        """Are a request's logits neither read nor changed? Then the head may leave all but the best of them out."""
        now = current()
        return now.idle or (now.record is None and requests.read(params.extra_args, now).mode == "off")

    def __init__(self, vllm_config: Any, device: Any, is_pin_memory: bool) -> None:
        self.settings: Settings = current()
        self.counters = metrics.counters()
        self.rows: Rows[Reply] = Rows()
        self.parked: List[Tuple[float, Reply]] = []
        self._parts: Optional[Parts] = None
        if self.settings.idle:
            return
        model = vllm_config.model_config
        self._room = int(model.max_model_len)
        self._parts = Parts(self.settings, self._tokenizer(model), model.model, int(model.get_vocab_size()), self.counters)
        atexit.register(self.close)

    @staticmethod
    def _tokenizer(model: Any) -> Any:
        from transformers import AutoTokenizer
        return AutoTokenizer.from_pretrained(model.tokenizer, trust_remote_code=model.trust_remote_code)

    def is_argmax_invariant(self) -> bool:
        """No: rules hold the best token down, and the fuse puts the end in its place."""
        return False

    # ------------------------------------------------------------------ rows that come, go and move

    def update_state(self, batch_update: Any) -> None:
        """The batch changed: removed, then added, then moved."""
        if self._parts is None or batch_update is None:
            return
        self.rows.update(batch_update, self._come, self._leave)
        self._forget(time.monotonic())

    def _come(self, params: Any, prompt: Optional[List[int]], output: List[int]) -> Optional[Reply]:
        return self._back(params, output) or self._new(params, prompt, output)

    def _new(self, params: Any, prompt: Optional[List[int]], output: List[int]) -> Optional[Reply]:
        wish = requests.read(params.extra_args, self.settings)
        assert self._parts is not None
        if not prompt or (wish.mode == "off" and self.settings.record is None and self.settings.audit is None):
            return None
        return Reply(self._parts, wish, params, prompt, output, self.counters, self._room)

    def _leave(self, reply: Reply) -> None:
        """A row is gone: it ended, or was put off; its tokens tell which, mostly."""
        reply.settle()
        finish = reply.finish_of()
        if finish is not None:
            reply.end(finish)
        else:
            self.parked.append((time.monotonic(), reply))

    def _back(self, params: Any, output: List[int]) -> Optional[Reply]:
        """The reply that was put off, whose request comes again."""
        for at, (_, reply) in enumerate(self.parked):
            if reply.params is params:
                del self.parked[at]
                reply.output = output
                return reply
        return None

    def _forget(self, now: float) -> None:
        while self.parked and (len(self.parked) > PARKED_MOST or now - self.parked[0][0] > PARKED_SECONDS):
            reply = self.parked.pop(0)[1]
            reply.end("stop" if reply.params.stop else "cancelled")

    # ------------------------------------------------------------------ rows of logits

    def apply(self, logits: Any) -> Any:
        """Draw for the rows that are wane's, and leave one token in each of them."""
        if not self.rows.of:
            return logits
        rows = logits.detach().numpy() if logits.device.type == "cpu" else None  # the tensor's own memory
        for index, reply in self.rows.of.items():
            row = rows[index] if rows is not None else logits[index].float().cpu().numpy()
            token = reply.draw(row)
            if token is not None:
                logits[index].fill_(float("-inf"))
                logits[index, token] = 0
        return logits

    def close(self) -> None:
        """End what is still there: the process does."""
        for reply in (*self.rows.of.values(), *(reply for _, reply in self.parked)):
            reply.settle()
            reply.end(reply.finish_of() or "shutdown")
        self.rows, self.parked = Rows(), []
        if self._parts is not None:
            self._parts.close()
