"""A victim behind HTTP (extra `[http]`): each row it is sent counts, also when the answer was never heard.

Nothing is asked before there is a ledger to count it, not even a probe: what the server's metadata does not say must
be given by keyword. See `client.py` for what a repeated request costs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from leakmeter.errors import UsageError, VictimError
from leakmeter.victims.facts import Facts
from leakmeter.victims.kind import Request, VictimKind
from leakmeter.victims.remote.client import SLACK, BadAnswer, Client, Misdescribed, Unanswered, Unexplained
from leakmeter.victims.remote.explained import check_own, conform_maps, said
from leakmeter.victims.remote.pace import Abandoned
from leakmeter.victims.remote.settings import RemoteSettings
from leakmeter.victims.remote.wire import WireFormat, connect
from leakmeter.victims.spec import VictimSpec, from_array
from leakmeter.victims.victim import Charge, Question, Victim

_ROWS, _NUMBERS = 64, 1 << 17  # the most in one request, unless it is said
_NUMBER = 128  # bytes of JSON that one number may take, with the name of its class
_GLANCE = 0.2  # seconds between two looks at what is under way
_ROUNDS = 2  # requests a thread sends before all wait for the slowest; the more, the more a failure can lose


_Decode = Callable[[bytes, int], tuple[np.ndarray, ...]]
"""From a body and the number of rows asked to what was answered."""


class RemoteKind(VictimKind):
    """Addresses of the Open Inference Protocol, and `.toml` files that describe other APIs."""

    form = "an http:// address"
    text = remote = True
    ends = ("output",)

    def takes(self, source: object) -> bool:
        """Whether it is an address or the description of one."""
        return isinstance(source, str | Path) and is_remote(str(source))

    def open(self, source: object, request: Request) -> Victim:
        """The victim, of which nothing has been asked but its metadata."""
        text, settings, share = str(source), request.remote or RemoteSettings(), request.share
        pace = None if share is None else share.pace
        output = request.ends.output or settings.output
        client, wire = connect(text, settings, output, request.facts.class_names, pace)
        connections = settings.concurrency if share is None else share.connections
        _check_shape(request.facts.input_shape, wire.facts.input_shape)
        facts = replace(request.facts.or_else(wire.facts), model_shape=wire.facts.input_shape)
        try:
            return facts.trusted(lambda spec: RemoteVictim(spec, client, wire, settings, connections))
        except UsageError as error:
            if wire.facts != Facts():
                raise
            raise UsageError(f"{error}; it says nothing of {client.where}: check the address, too") from error


def _check_shape(given: Sequence[object] | None, said: Sequence[object] | None) -> None:
    """Refuses rows of another length than the server names; pictures may be prepared on their way."""
    if given is not None and said is not None and len(given) == len(said) == 1 and given[0] != said[0]:
        raise UsageError(f"expected inputs of shape ({said[0]},), as the server says, got ({given[0]},)")


def is_remote(text: str) -> bool:
    """Whether a source is an address or the description of one."""
    return text.lower().startswith(("http://", "https://")) or text.lower().endswith(".toml")


class RemoteVictim(Victim):
    """Sends rows in requests of bounded size, several at once, and puts the answers back in order.

    Args:
        spec: what it takes and gives.
        client: the connection.
        wire: how to speak over it.
        settings: the size of requests, and on whose word they are sent.
        connections: how many requests may be under way.
    """

    remote = True

    def __init__(
        self, spec: VictimSpec, client: Client, wire: WireFormat, settings: RemoteSettings, connections: int
    ) -> None:
        super().__init__(spec)
        if wire.own is not None:
            self.own_explanation, self.notes = check_own(wire.own, spec), (said(wire.own),)
        self._client, self._wire = client, wire
        self._understood = self._explained = False
        self._together = 0  # the most rows of one request that it answered
        rows = settings.rows or min(_ROWS, max(1, _NUMBERS // spec.features))
        self._rows = min(rows, wire.rows or rows)
        # Not of `connections`: the pieces must be the same for all, since their ids seed whatever noise a defense adds.
        self.batch = self._rows * settings.concurrency * _ROUNDS
        self.authorized_by = settings.authorized_by
        self._pool = ThreadPoolExecutor(connections, "leakmeter-http")

    def close(self) -> None:
        """Ends its threads; it cannot be asked afterwards."""
        self._pool.shutdown(wait=False)

    def compute(self, x: Tensor, question: Question) -> Tensor:
        """Answers in the order of the rows."""
        answers = self._answers(x, question, lambda body, n: (_conform(self._wire.decode(body), n, self.spec),))
        return _joined(answers, 0).to(x.device)

    def compute_explained(self, x: Tensor, question: Question) -> tuple[Tensor, Tensor]:
        """The same, with the explanation that stands in each answer."""
        answers = self._answers(x, question, self._both)
        return _joined(answers, 0).to(x.device), _joined(answers, 1).to(x)

    def _both(self, body: bytes, n: int) -> tuple[np.ndarray, ...]:
        assert self.own_explanation is not None
        outputs, maps = self._wire.decode_explained(body)
        return _conform(outputs, n, self.spec), conform_maps(maps, n, self.own_explanation, self.spec)

    def _answers(self, x: Tensor, question: Question, decode: _Decode) -> list[tuple[np.ndarray, ...]]:
        """What `decode` makes of each answer. The first failure ends the question, once nothing is under way."""
        rows, stop, charge = x.detach().cpu().numpy(), threading.Event(), question.charge
        starts = range(0, len(rows), self._rows)
        requests: list[Future[tuple[np.ndarray, ...]]] = []
        try:
            requests.extend(
                self._pool.submit(self._ask, rows[i : i + self._rows], charge, stop, decode) for i in starts
            )
            while wait(requests, _GLANCE).not_done:  # an interrupt that another thread took is seen between two waits
                pass
        except BaseException:  # interrupted
            stop.set()
            self._client.abort()
            while wait(requests, _GLANCE).not_done:
                self._client.abort()  # what was only being connected the time before
            raise
        failures = [error for request in requests if (error := request.exception()) is not None]
        for error in failures:
            if not isinstance(error, Abandoned):
                raise error
        return [request.result() for request in requests]

    def _ask(self, x: np.ndarray, charge: Charge, stop: threading.Event, decode: _Decode) -> tuple[np.ndarray, ...]:
        def read(body: bytes) -> tuple[np.ndarray, ...]:
            found = decode(body, len(x))
            self._understood, self._explained = True, self._explained or len(found) > 1
            self._together = max(self._together, len(x))
            return found

        def read_first(body: bytes) -> tuple[np.ndarray, ...]:
            """Before any answer was understood, a wrong shape is no accident and would come again."""
            try:
                return read(body)
            except Misdescribed as error:
                if self._explained if isinstance(error, Unexplained) else self._understood:
                    raise
                raise VictimError(f"the victim {self.spec.name} is not as described: {error}") from error

        try:
            shown = 0 if self.own_explanation is None else self.spec.features
            most = SLACK + _NUMBER * len(x) * self.spec.classes * (1 + shown)
            body = self._wire.encode(x)
            return self._client.post(self._wire.url, body, read_first, lambda: charge(len(x)), stop, most)
        except BaseException as error:
            stop.set()  # the other requests of this question are sent no more
            if isinstance(error, Unanswered) and len(x) > max(1, self._together):
                few = f"it was sent {len(x)} rows: if it takes one at a time, set rows, on the command line --rows 1"
                raise VictimError(f"{error}; {few}") from error
            raise


def _joined(answers: list[tuple[np.ndarray, ...]], column: int) -> Tensor:
    return from_array(np.concatenate([answer[column] for answer in answers]))


def _conform(outputs: np.ndarray, rows: int, spec: VictimSpec) -> np.ndarray:
    """The outputs as the spec promises them, or what is wrong with them."""
    labels = spec.outputs == "labels"
    wanted = (rows,) if labels else (rows, spec.classes)
    narrow = outputs.shape in ((rows,), (rows, 1))
    if narrow and spec.outputs == "probs" and spec.classes == 2:  # the probability of the second class
        outputs = np.stack([1 - outputs.reshape(rows), outputs.reshape(rows)], 1)
    if outputs.shape != wanted and not (narrow and (labels or spec.classes == 1)):
        wrong = f"its answer had the shape {outputs.shape} instead of {wanted}"
        if len(outputs.shape) == 0 or len(outputs) != rows:  # rows are lost now and then
            raise BadAnswer(wrong)
        raise Misdescribed(
            f"{wrong}; set classes and outputs, or choose another of its outputs with output=NAME, on the command line "
            "--output NAME"
        )
    outputs = outputs.reshape(wanted)
    if not np.isfinite(outputs).all():
        raise BadAnswer("its answer held NaN or infinity")
    if labels:
        if not np.isin(outputs, np.arange(max(2, spec.classes))).all():
            raise BadAnswer(f"its answer held labels other than 0 to {max(2, spec.classes) - 1}")
        return outputs.astype(np.int64)
    if spec.outputs == "probs" and not _may_be_probabilities(outputs):
        raise BadAnswer("its answer held numbers that are no probabilities, though outputs is probs")
    return outputs.astype(np.float64 if spec.dtype == torch.float64 else np.float32)


def _may_be_probabilities(outputs: np.ndarray) -> bool:
    """In [0, 1], and adding up to 1 but for the rounding of an API that shows two decimals."""
    slack = max(1e-3, 0.005 * outputs.shape[1])
    in_unit = (outputs >= 0) & (outputs <= 1 + 1e-6)
    return bool(in_unit.all()) and bool((np.abs(outputs.sum(1) - 1) <= slack).all())
