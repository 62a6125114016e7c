"""The books: what was asked of the service, and what really took effect, kept apart from what was answered.

A client cannot tell from a 429 whether its write landed. The books can, and they are the judge of every claim about
repeated writes. An effect is *repeated* when the very same write takes effect again on its target while nothing else
has changed that target since: no other write, no person, no story. An effect that brings other targets along (a
publish starts the campaigns) counts as a change of those.

Never looks at answers, never forgets an effect, never forgives one.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass

from worker.sandbox.delivery import Json, TwinRequest

MAX_REQUESTS_KEPT = 200_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """One write that took place. `changed` is False when the value was so before."""

    seq: int
    at_s: float
    partner: str
    eid: str
    operation: str
    target: str
    request_id: str
    identity: str
    before: Json
    after: Json
    changed: bool
    repeated: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Deed:
    """What a write did, before it has its place in the books. `frees` are other targets that it changed with it."""

    eid: str
    operation: str
    target: str
    before: Json
    after: Json
    frees: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """One request as it came in. `status` None: no whole answer left. `reached` False: no byte left the client."""

    seq: int
    at_s: float
    method: str
    host: str
    path: str
    query: tuple[tuple[str, str], ...]
    partner: str
    status: int | None
    fault: str | None
    request_id: str
    reached: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Outside:
    """A change that no request made: the world's own doing or a person's."""

    at_s: float
    by: str
    partner: str
    eid: str
    target: str


class Books:
    """Effects, requests and outside changes, in the order in which they happened."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.outside: list[Outside] = []
        self.requests: deque[Seen] = deque(maxlen=MAX_REQUESTS_KEPT)
        self.writes_sent = 0
        self._seq = 0
        self._last: dict[tuple[str, str], dict[str, str]] = {}

    @property
    def repeated(self) -> tuple[Effect, ...]:
        return tuple(effect for effect in self.effects if effect.repeated)

    def effect(self, deed: Deed, request: TwinRequest, request_id: str, at_s: float) -> Effect:
        """Enters an effect and judges on the spot whether it is a repetition."""
        self._seq += 1
        last = self._last.setdefault((request.partner, deed.eid), {})
        effect = Effect(
            seq=self._seq,
            at_s=at_s,
            partner=request.partner,
            eid=deed.eid,
            operation=deed.operation,
            target=deed.target,
            request_id=request_id,
            identity=request.identity,
            before=deed.before,
            after=deed.after,
            changed=deed.before != deed.after,
            repeated=last.get(deed.target) == request.identity,
        )
        last[deed.target] = request.identity
        if not effect.repeated:
            for target in deed.frees:
                self._free(request.partner, deed.eid, target)
        self.effects.append(effect)
        return effect

    def changed_outside(self, by: str, partner: str, eid: str, target: str, at_s: float) -> None:
        """A person or the story changed a target: the same write may now rightly take effect again."""
        self.outside.append(Outside(at_s=at_s, by=by, partner=partner, eid=eid, target=target))
        self._free(partner, eid, target)

    def all_changed(self, at_s: float) -> None:
        """The weekly reset: nothing is as it was."""
        self.outside.append(Outside(at_s=at_s, by="world", partner="", eid="", target="*"))
        self._last.clear()

    def _free(self, partner: str, eid: str, target: str) -> None:
        # A name that ends in a colon stands for all targets of that kind, as in all campaigns of an event.
        last = self._last.get((partner, eid), {})
        for known in [
            known for known in last if known == target or (target.endswith(":") and known.startswith(target))
        ]:
            del last[known]

    def request(self, request: TwinRequest, seen: Seen) -> None:
        self.requests.append(seen)
        if seen.reached and not request.is_read and not request.is_sign_in:
            self.writes_sent += 1

    def summary(self) -> dict[str, Json]:
        """The judge's short verdict."""
        return {
            "writes_sent": self.writes_sent,
            "effects": len(self.effects),
            "repeated": len(self.repeated),
            "effects_by_target": dict(
                Counter(f"{effect.partner}/{effect.eid}/{effect.target}" for effect in self.effects)
            ),
        }
