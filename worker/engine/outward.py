"""Where a write goes, and what a rule's own `confirm` makes of an answer.

A write is a request to the service, but for a message, which is handed to whoever takes messages. And the client knows
what was answered and not what a rule makes of it, while evidence and guards know what a target reads as and not how CEL
is judged: between them the answer becomes a fact like any other, whether the rule's condition is true of it, and what
it was, so that "exactly as before" can be told.
"""

import asyncio
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from worker.engine.parts import Parts
from worker.model.actions import ACTIONS
from worker.model.exchange import Message, WriteRequest
from worker.model.facts import Fact, FactKey, Json, Known, Observation, Unknown
from worker.model.ids import EventId, PartnerId
from worker.model.outcomes import Accepted, Answered, NotSent, Outcome, Uncertain
from worker.model.rules import Condition, Scope, Truth
from worker.model.topics import HANDED_OVER
from worker.model.writes import Write
from worker.rules.conditions import condition
from worker.writes.evidence import CONFIRM

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
        self._timeout_s = parts.settings.timeout.total_seconds()

    def request_for(self, write: Write) -> WriteRequest:
        """What is sent, without secrets."""
        key, intent = write.key, write.intent
        if ACTIONS[intent.action].shown == "handover":
            return WriteRequest(host=MESSAGE, method="NOTIFY", path=MESSAGE, body=intent.params.get("value"))
        return self._service.request_for(key.partner, key.event, intent, key.item)

    def spelled(self, request: WriteRequest) -> dict[str, Json]:
        """The request as the log keeps it."""
        return request.as_json(request.path if request.host == MESSAGE else self._service.url(request))

    async def send(self, write: Write, request: WriteRequest, *, not_after: float) -> Outcome:
        """One attempt. Never raises but when it is cancelled."""
        if request.host != MESSAGE:
            return await self._service.send(write.key.partner, request, not_after=not_after)
        key = write.key
        message = Message(partner=key.partner, event=key.event, rule=key.rule, write=write.id, text=str(request.body))
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
    if not isinstance(fact, Known) or not isinstance(fact.value, Mapping):
        return fact
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
    return condition(source)


def _kept(body: Json) -> Json:
    text = json.dumps(body, sort_keys=True, ensure_ascii=False)
    return body if len(text) <= KEPT_MAX else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
