"""The whole service behind one method: a request and a moment in, a delivery out.

Order of things for each request: what is due by now happens first (the story, effects that were to land late, the
weekly reset); the watch notes manners; the faults are asked; then token, partner, rate and row decide; at last the
answer may be spoiled. What took effect and what was answered are two different things here, on purpose.

Never reads a clock (time comes with each call and cannot run backwards), never sleeps, never opens a socket.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from worker.sandbox import reads
from worker.sandbox.changes import (
    Change,
    ChangeError,
    EventChange,
    FaultChange,
    PartnerChange,
    ResetChange,
    SettingsChange,
    SignOutChange,
    Step,
    change_event,
    change_partner,
)
from worker.sandbox.faults import UNPROCESSED, Fault, FaultPlan, spoiled
from worker.sandbox.reads import Call, Result
from worker.sandbox.rows import Found, find
from worker.sandbox.settings import (
    Answer,
    Cut,
    Delivery,
    Hang,
    Json,
    Settings,
    TwinRequest,
    changed_settings,
    json_answer,
)
from worker.sandbox.world import Books, Refusal, Seen, Sessions, Violation, Watch, World

MINUTE_S = 60.0
SIGN_IN_BUDGET = "sign-in"


class Service:
    """The twin of the remote service. `origin_s` is when the story begins; None: with the first request."""

    def __init__(
        self,
        world: World,
        *,
        settings: Settings | None = None,
        faults: Iterable[Fault] = (),
        story: Iterable[Step] = (),
        origin_s: float | None = None,
    ) -> None:
        self.world = world
        self.settings = settings if settings is not None else Settings()
        self.books = Books()
        self.faults = FaultPlan(faults)
        self.sessions = Sessions()
        self._watch = Watch()
        self.untold: list[str] = []
        self._story = tuple(story)
        self._origin_s: float | None = None
        self._now_s = -math.inf
        self._requests = 0
        self._due: list[tuple[float, int, Callable[[float], None]]] = []
        self._scheduled = 0
        self._arrivals: dict[str, deque[float]] = {}
        if origin_s is not None:
            self._begin(origin_s)

    # From outside

    def answer(self, request: TwinRequest, now_s: float) -> Delivery:
        """What comes of a request that arrives now."""
        now_s = self.advance(now_s)
        self._requests += 1
        request_id = f"twin-{self._requests:06d}"
        fault = self.faults.pick(request, now_s - (self._origin_s or 0.0))
        reached = fault is None or fault.kind != "no_connection"
        if reached:
            self._watch.arrived(request, now_s)
        delivery = self._deliver(request, request_id, now_s, fault)
        if fault is not None and not isinstance(delivery, Hang):
            delivery = replace(delivery, delay_s=delivery.delay_s + fault.number("delay_s", _own_delay(fault)))
        seen = Seen(
            seq=self._requests,
            at_s=now_s,
            method=request.method,
            host=request.host,
            path=request.path,
            query=request.query,
            partner=request.partner,
            status=delivery.status if isinstance(delivery, Answer) else None,
            fault=None if fault is None else fault.kind,
            request_id=request_id,
            reached=reached,
        )
        self.books.request(request, seen)
        if reached:
            self._watch.left(request, delivery, now_s)
        return delivery

    def change(self, change: Change, now_s: float) -> None:
        """A change that no request makes, now. Raises ChangeError and changes nothing when it cannot be."""
        self._carry_out(change, self.advance(now_s))

    def violations(self) -> list[Violation]:
        return list(self._watch.violations)

    def story_s(self, at_s: float) -> float:
        """Seconds from the begin of the story, which is the first request, to a moment of the clock."""
        return round(at_s - (at_s if self._origin_s is None else self._origin_s), 3)

    def advance(self, now_s: float) -> float:
        """Lets everything happen that was due by now, in its order, each at its own moment."""
        if self._origin_s is None:
            self._begin(now_s)
        self._now_s = max(self._now_s, now_s)
        while self._due and self._due[0][0] <= self._now_s:
            at_s, _, happen = heapq.heappop(self._due)
            happen(at_s)
        return self._now_s

    # Time

    def _begin(self, origin_s: float) -> None:
        self._origin_s = origin_s
        for step in self._story:
            self._schedule(origin_s + step.at_s, partial(self._tell, step))
        if self.settings.reset_every_s is not None:
            self._reset_again(origin_s)

    def _tell(self, step: Step, at_s: float) -> None:
        """A step whose event is gone by then (a reset, a removal) is left out and noted: the show goes on."""
        try:
            self._carry_out(step.change, at_s)
        except ChangeError as wrong:
            self.untold.append(f"{step.at_s:g}s (line {step.line}): {wrong}")

    def _schedule(self, at_s: float, happen: Callable[[float], None]) -> None:
        self._scheduled += 1
        heapq.heappush(self._due, (at_s, self._scheduled, happen))

    def _reset_again(self, at_s: float) -> None:
        every_s = self.settings.reset_every_s
        if every_s is None:
            return

        def happen(at_s: float) -> None:
            self._carry_out(ResetChange(), at_s)
            self._reset_again(at_s)

        self._schedule(at_s + every_s, happen)

    def _carry_out(self, change: Change, at_s: float) -> None:
        match change:
            case EventChange():
                change_event(self.world, self.books, change, at_s)
            case PartnerChange():
                change_partner(self.world, change)
            case FaultChange():
                self.faults.add(change.fault)
            case SettingsChange():
                self.settings = changed_settings(self.settings, change.settings)
            case ResetChange():
                self._reset(at_s)
            case SignOutChange():
                self.sessions.revoke_all()

    def _reset(self, at_s: float) -> None:
        """Everything is gone, at once or for a while, and then as the settings say."""
        takes_s, result = self.settings.reset_takes_s, self.settings.reset_result
        self.world.reset("empty" if takes_s > 0.0 else result, at_s)
        self.books.all_changed(at_s)
        if takes_s > 0.0:
            self._schedule(at_s + takes_s, lambda then_s: self.world.reset(result, then_s))

    # One request

    def _deliver(self, request: TwinRequest, request_id: str, now_s: float, fault: Fault | None) -> Delivery:
        if fault is None:
            return self._process(request, request_id, now_s, None)
        if fault.kind in UNPROCESSED:
            return self._unprocessed(request, request_id, now_s, fault)
        answer = self._process(request, request_id, now_s, fault)
        match fault.kind:
            case "answer_after":
                return self._instead(fault, request_id)
            case "cut_after":
                return Cut(at="before_response", reset=fault.flag("reset", default=True))
            case "hang_after":
                return Hang()
            case _:
                return spoiled(answer, fault)

    def _unprocessed(self, request: TwinRequest, request_id: str, now_s: float, fault: Fault) -> Delivery:
        """Faults that come before the service has looked at the request."""
        match fault.kind:
            case "no_connection":
                return Cut(at="before_request")
            case "cut_before":
                return Cut(at="before_response", reset=fault.flag("reset", default=True))
            case "hang_before":
                return Hang()
            case "expired_token":
                if fault.flag("revoke", default=True):
                    self.sessions.revoke_access()
                return self._refused(self._no_token(), request_id)
            case "late_effect":
                late = replace(request, headers=dict(request.headers))
                self._schedule(
                    now_s + fault.number("after_s", 30.0), lambda at_s: self._land(late, request_id, at_s, now_s)
                )
                return self._instead(fault, request_id)
            case "storm" if fault.flag("hidden", default=False) and not request.is_read:
                self._process(request, request_id, now_s, None)
                return self._instead(fault, request_id)
            case _:
                return self._instead(fault, request_id)

    def _land(self, request: TwinRequest, request_id: str, at_s: float, sent_s: float) -> None:
        """An effect that lands late: judged by the state it meets then, let in by the token it came with."""
        try:
            self._routed(request, request_id, at_s, None, admitted_s=sent_s)
        except Refusal:
            return

    def _process(self, request: TwinRequest, request_id: str, now_s: float, fault: Fault | None) -> Answer:
        """The service at work: the true answer, after all effects."""
        if self._too_many(request, now_s):
            after_s = self.settings.retry_after_s
            headers = {} if after_s is None else {"retry-after": str(after_s)}
            return self._error(429, "error.too_many_requests", "slow down", request_id, headers)
        try:
            result = self._routed(request, request_id, now_s, fault, admitted_s=now_s)
        except Refusal as refusal:
            return self._refused(refusal, request_id)
        if result.content is not None:
            kind, content = result.content
            headers = {"x-request-id": request_id, "content-type": kind}
            return Answer(status=result.status, headers=headers, body=content)
        return json_answer(result.status, result.body, request_id)

    def _routed(
        self, request: TwinRequest, request_id: str, now_s: float, fault: Fault | None, *, admitted_s: float
    ) -> Result:
        found = find(request)
        call = Call(
            world=self.world,
            books=self.books,
            settings=self.settings,
            request=request,
            request_id=request_id,
            now_s=now_s,
            as_of_s=now_s - fault.number("by_s", 30.0)
            if fault is not None and fault.kind == "stale_reads" and request.is_read
            else None,
            names={} if isinstance(found, str) else found.names,
        )
        if request.host == "api" and request.method == "POST":
            if request.path == "/auth":
                return Result(body=self.sessions.sign_in(call.json_body(), *self._for_sign_in(now_s)))
            if request.path == self.settings.refresh_path:
                return Result(body=self.sessions.refresh(call.json_body(), *self._for_sign_in(now_s)))
        if found == "no_path":
            raise Refusal(404, "error.not_found", "no such path")
        if found == "no_method":
            raise Refusal(405, "error.method_not_allowed", "not with this method")
        self._admit(request, found, admitted_s)
        result = self._row_result(call, found, fault)
        for later in result.later:
            self._schedule(now_s + later.after_s, later.land)
        return result

    def _row_result(self, call: Call, found: Found, fault: Fault | None) -> Result:
        if found.row.answer is reads.events and fault is not None:
            return reads.events(call, moved=lambda eids, page, limit: _moved(eids, page, limit, fault))
        if found.row.answer is None:
            raise Refusal(self.settings.denied_admin_status, "error.unauthorized", "for admins only")
        return found.row.answer(call)

    # Who may

    def _for_sign_in(self, now_s: float) -> tuple[Settings, tuple[str, ...], float]:
        return self.settings, self.world.partners, now_s

    def _admit(self, request: TwinRequest, found: Found, at_s: float) -> None:
        if found.row.who == "anyone":
            return
        user = self.sessions.user_of(request.headers.get("authorization"), at_s)
        if user is None:
            raise self._no_token()
        if found.row.who == "admin":
            raise Refusal(self.settings.denied_admin_status, "error.unauthorized", "for admins only")
        allowed = self.world.partners if user.partners is None else user.partners
        if request.partner not in allowed or self.world.tenant(request.partner) is None:
            raise Refusal(self.settings.denied_partner_status, "error.auth.not_authorized", "not for this partner")

    def _no_token(self) -> Refusal:
        return Refusal(self.settings.denied_token_status, "error.auth.missing_token", "no valid access token")

    def _too_many(self, request: TwinRequest, now_s: float) -> bool:
        settings = self.settings
        limit = settings.sign_in_limit_per_minute if request.is_sign_in else settings.rate_limit_per_minute
        if limit is None:
            return False
        arrivals = self._arrivals.setdefault(SIGN_IN_BUDGET if request.is_sign_in else request.partner, deque())
        while arrivals and arrivals[0] <= now_s - MINUTE_S:
            arrivals.popleft()
        if len(arrivals) >= limit:
            return True
        arrivals.append(now_s)
        return False

    # Error answers

    def _instead(self, fault: Fault, request_id: str) -> Answer:
        code = fault.params.get("code")
        default = "error.too_many_requests" if fault.status == 429 else "error.internal"
        return self._error(fault.status, str(code or default), "as asked for", request_id, fault.headers)

    def _refused(self, refusal: Refusal, request_id: str) -> Answer:
        return self._error(refusal.status, refusal.code, refusal.message, request_id, {})

    def _error(self, status: int, code: str, message: str, request_id: str, headers: dict[str, str]) -> Answer:
        """The structure of error bodies is not shown; three likely ones can be chosen from."""
        body: Json = {"error": code, "message": message}
        if self.settings.error_shape == "nested":
            body = {"error": {"code": code, "message": message}}
        answer = json_answer(status, body, request_id)
        if self.settings.error_shape == "text":
            answer = replace(answer, headers={**answer.headers, "content-type": "text/plain"}, body=code.encode())
        return replace(answer, headers={**answer.headers, **headers})


def _own_delay(fault: Fault) -> float:
    return 5.0 if fault.kind == "slow" else 0.0


def _moved(eids: list[str], page: int, limit: int, fault: Fault) -> list[str]:
    """The listing as a disturbed service sees it: shifted from page to page, or without some events."""
    if fault.kind == "vanish":
        gone = set(fault.names("eid"))
        return [eid for eid in eids if eid not in gone]
    if fault.kind == "reordered_pages" and eids:
        places = int(fault.number("shift", max(1, limit // 2))) * (page - 1) % len(eids)
        return [*eids[places:], *eids[:places]]
    return eids
