"""One request on its way through a row of the table: what a row may see and what it may do.

Rows answer and take effect; both go through here, so that no effect can bypass the books and no row needs to know
about tokens, faults or sockets.

Never decides whether a request is allowed: that happened before.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from worker.sandbox.books import Books, Deed
from worker.sandbox.delivery import Json, Record, TwinRequest
from worker.sandbox.sessions import Refusal
from worker.sandbox.settings import Settings, filled
from worker.sandbox.world import Happening, Tenant, World

Landing = Callable[[float], None]
MAX_DIGITS = 12


def is_whole(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= MAX_DIGITS


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large")
    return value


@dataclass(frozen=True, kw_only=True, slots=True)
class Later:
    """Something that takes place after the answer was given."""

    after_s: float
    land: Landing


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a row answers. `content` is for what is not JSON."""

    status: int = 200
    body: Json = None
    content: tuple[str, bytes] | None = None
    later: tuple[Later, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """The request with the parts of its path, the world, the books and the moment."""

    world: World
    books: Books
    settings: Settings
    request: TwinRequest
    request_id: str
    now_s: float
    as_of_s: float | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def partner(self) -> str:
        return self.request.partner

    @property
    def tenant(self) -> Tenant:
        tenant = self.world.tenant(self.partner)
        if tenant is None:
            raise Refusal(self.settings.denied_partner_status, "error.auth.not_authorized", "no such partner")
        return tenant

    @property
    def eid(self) -> str:
        return self.names["eid"]

    def event(self, eid: str | None = None) -> Happening:
        """The event of the path (or a named one), or the service's 404."""
        found = self.world.at(self.partner, self.eid if eid is None else eid, self.as_of_s)
        if found is None:
            raise Refusal(404, "error.not_found", "no such event")
        return found

    def listing(self) -> list[Happening]:
        return self.world.listing(self.partner, self.as_of_s)

    def take_effect(self, deed: Deed, after: Happening | None = None, at_s: float | None = None) -> None:
        """The one door to the world: the event's new version and its entry in the books."""
        moment = self.now_s if at_s is None else at_s
        if after is not None:
            self.world.put(self.partner, after.eid, after, moment)
        self.books.effect(deed, self.request, self.request_id, moment)

    # What came with the request

    def one(self, name: str) -> str | None:
        return next((value for key, value in self.request.query if key == name), None)

    def several(self, name: str) -> tuple[str, ...]:
        return tuple(value for key, value in self.request.query if key == name)

    def needed(self, name: str) -> str:
        value = self.one(name)
        if value is None:
            raise self.invalid(f"query parameter {name} is required")
        return value

    def number(self, name: str) -> float:
        try:
            value = float(self.needed(name))
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self.invalid(f"query parameter {name} is a number")
        return value

    def whole(self, name: str, default: int) -> int:
        value = self.one(name)
        if value is None:
            return default
        if not is_whole(value) or int(value) < 1:
            raise self.invalid(f"query parameter {name} is a whole number from 1")
        return int(value)

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        value = self.needed(name)
        if value not in allowed:
            raise self.invalid(f"query parameter {name} is one of {', '.join(allowed)}")
        return value

    def json_body(self) -> Record:
        """The body as an object; an empty body is an empty object."""
        if not self.request.body:
            return {}
        try:
            body = json.loads(self.request.body, parse_constant=_no_constant, parse_float=_finite)
            # A half of a surrogate pair can be read but never be written again.
            json.dumps(body, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise self.invalid("the body is not JSON") from None
        if not isinstance(body, dict):
            raise self.invalid("the body is a JSON object")
        return body

    def templated(self, template: Mapping[str, str]) -> dict[str, str]:
        """What the query says in the place of a template's placeholders."""
        return self._filled(template, dict(self.request.query), "query parameters")

    def templated_either(self, query: Mapping[str, str] | None, body: Mapping[str, str] | None) -> dict[str, str]:
        """The same for a write that takes its input in the query or in the body."""
        if body is not None:
            return self._filled(body, self.json_body(), "body fields")
        return self.templated(query or {})

    def _filled(self, template: Mapping[str, str], given: Mapping[str, Json], what: str) -> dict[str, str]:
        found = filled(template, given)
        if found is None or found.get("eid", self.names.get("eid")) != self.names.get("eid", found.get("eid")):
            raise self.invalid(f"{what} needed: {', '.join(template)}")
        return found

    def invalid(self, message: str) -> Refusal:
        return Refusal(self.settings.invalid_status, "error.validation", message)
