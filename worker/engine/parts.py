"""What every step of a cycle is built from, handed in as one: the three ports, the settings, the rules in force."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from worker.engine.decide import Decision
from worker.engine.looks import EngineSettings
from worker.engine.ports import Clock, Ledger, Notifier, Service
from worker.model.actions import ACTIONS
from worker.model.commits import HANDED_OVER
from worker.model.errors import UsageError
from worker.model.exchange import Accepted, Answered, Message, NotSent, Outcome, Uncertain, WriteRequest
from worker.model.facts import EventId, Fact, FactKey, Json, Known, Observation, PartnerId, Unknown
from worker.model.rules import Condition, RuleSet, Scope, Truth
from worker.model.writes import Write
from worker.rules.evaluate import expression
from worker.rules.facts import Fields, worth_keeping
from worker.writes.evidence import CONFIRM, text_of_message


class RulesInUse:
    """The rule set in force; replaced as a whole by a successful load and by nothing else."""

    def __init__(self, rules: RuleSet) -> None:
        self.current = rules
        self._needed: tuple[RuleSet, Fields] | None = None

    @property
    def needed(self) -> Fields:
        """The fields of an event's record that rules look at or that are kept; None for all of them."""
        if self._needed is None or self._needed[0] is not self.current:
            self._needed = (self.current, worth_keeping(self.current.rules).get("event"))
        return self._needed[1]


def _nobody(_write: Write, _defect: Exception) -> None:
    """Nobody is told; for tests that look at the state instead."""


class Nowhere:
    """The notifier of a worker that was given none: it takes no message, so that none is called delivered."""

    async def hand_over(self, message: Message) -> None:
        """Raises `UsageError`: the message is held."""
        raise UsageError(f"nobody takes messages here: {message.text}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """``notifier``: who takes the messages of rules. ``stopping``: nothing new may be recorded any more. ``defect``:
    told of an exception that should not exist. ``scrubbed``: takes the secrets that the service's client has in hand
    out of a text. ``decided``: told of every decision once it is stored. ``instead``: takes every attempt in the place
    of service and notifier, which send nothing then: what `plan` and rule tests have."""

    clock: Clock
    service: Service
    ledger: Ledger
    settings: EngineSettings
    notifier: Notifier = field(default_factory=Nowhere)
    rules: RulesInUse = field(default_factory=lambda: RulesInUse(RuleSet()))
    stopping: Callable[[], bool] = lambda: False
    defect: Callable[[Write, Exception], None] = _nobody
    scrubbed: Callable[[str], str] = str
    decided: Callable[[Decision], None] = lambda _decision: None
    instead: Callable[[Write, WriteRequest], Awaitable[Outcome]] | None = None


# Where a write goes, and what a rule's own `confirm` makes of an answer.
#
# A write is a request to the service, but for a message, which is handed to whoever takes messages. And the client
# knows what was answered and not what a rule makes of it, while evidence and guards know what a target reads as and
# not how CEL is judged: between them the answer becomes a fact like any other, whether the rule's condition is true of
# it, and what it was, so that "exactly as before" can be told.

MESSAGE = "message"
"""The host of a request that is a message."""
RESPONSE = FactKey(name="response")
KEPT_MAX = 2_000
"""Characters of an answer that are kept with a write; of a longer one, only what tells it from another."""


class Outward:
    """Makes the requests of writes, and sends them. One instance serves all partners."""

    def __init__(self, parts: Parts) -> None:
        self._service = parts.service
        self._notifier = parts.notifier
        self._instead = parts.instead
        self._timeout_s = parts.settings.timeout.total_seconds()

    def request_for(self, write: Write) -> WriteRequest:
        """What is sent, without secrets."""
        key, intent = write.key, write.intent
        if ACTIONS[intent.action].message:
            return WriteRequest(host=MESSAGE, method="NOTIFY", path=MESSAGE, body=text_of_message(intent.params))
        return self._service.request_for(key.partner, key.event, intent, key.item)

    def spelled(self, request: WriteRequest) -> dict[str, Json]:
        """The request as the log keeps it."""
        return request.as_json(request.path if request.host == MESSAGE else self._service.url(request))

    async def send(self, write: Write, request: WriteRequest, *, not_after: float) -> Outcome:
        """One attempt. Never raises but when it is cancelled."""
        if self._instead is not None:
            return await self._instead(write, request)
        if request.host != MESSAGE:
            return await self._service.send(write.key.partner, request, not_after=not_after)
        key = write.key
        to = write.intent.params.get("to")
        message = Message(
            partner=key.partner,
            event=key.event,
            rule=key.rule,
            write=write.id,
            text=str(request.body),
            to=None if to is None else str(to),
        )
        try:
            await asyncio.wait_for(self._notifier.hand_over(message), self._timeout_s)
        except TimeoutError:
            return Uncertain(why=f"nobody said within {self._timeout_s:g} s that the message was taken")
        except Exception as error:  # noqa: BLE001  # whatever a notifier fails with, the write is told and goes on
            return NotSent(cause="connect", why=f"the message was not taken: {error}")
        return Accepted(answer=Answered(status=202), why=HANDED_OVER + message.text)


def as_judged(key: FactKey, fact: Fact) -> Fact:
    """A fact as it was read, and a rule's own ``confirm`` as it was judged."""
    return confirmation(key, fact) if key.name == CONFIRM else fact


def confirmation(key: FactKey, fact: Fact) -> Fact:
    """What a read of a write's ``confirm`` says: ``{when, response}``, and ``absent`` where it answered 404.

    A 404 is null for the condition; where the condition makes nothing of null, it is not true.
    """
    if not isinstance(fact, Known) or not isinstance(fact.value, Mapping) or "when" in fact.value:
        return fact  # unknown, or judged already: a rule test says what a condition would be, and not what was read
    absent, body = fact.value.get("status") == 404, fact.value.get("body")
    seen = Observation(
        partner=PartnerId(""), event=EventId(""), facts={RESPONSE: Known(value=body, read_at=fact.read_at)}
    )
    judged = _compiled(str(dict(key.params)["when"])).judge(
        Scope(observation=seen, keys={RESPONSE.name: RESPONSE}, now=fact.read_at)
    )
    if judged.truth is Truth.UNKNOWN and not absent:
        why = f"confirm.when could not be judged: {judged.why}"
        return Unknown(code="malformed", why=why, read_at=fact.read_at, trace=fact.trace)
    value: dict[str, Json] = {"when": judged.truth is Truth.TRUE, "response": _kept(body)}
    return replace(fact, value={**value, "absent": True} if absent else value)


@lru_cache(maxsize=256)
def _compiled(source: str) -> Condition:
    return expression(source)


def _kept(body: Json) -> Json:
    text = json.dumps(body, sort_keys=True, ensure_ascii=False)
    return body if len(text) <= KEPT_MAX else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
