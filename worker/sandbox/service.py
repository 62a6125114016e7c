"""The whole service behind one method: a request and a moment in, a delivery out.

Order of things for each request: what is due by now happens first (the story, effects that were to land late, the
weekly reset); the watch notes manners; the faults are asked; then token, partner, rate and row decide; at last the
answer may be spoiled. What took effect and what was answered are two different things here, on purpose.

Never reads a clock (time comes with each call and cannot run backwards), never sleeps, never opens a socket.
"""

from __future__ import annotations

import heapq
import json
import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Literal, assert_never
from urllib.parse import unquote

from starlette.routing import compile_path

from worker.sandbox import reads, writes
from worker.sandbox.changes import (
    Change,
    EventChange,
    FaultChange,
    PartnerChange,
    ResetChange,
    SettingsChange,
    SignOutChange,
    StoryStep,
    change_event,
    change_partner,
)
from worker.sandbox.faults import Fault, FaultPlan, spoiled
from worker.sandbox.reads import Result, RowCall
from worker.sandbox.settings import (
    Cut,
    Delivery,
    Hang,
    Host,
    Json,
    SandboxInputError,
    TwinAnswer,
    TwinRequest,
    TwinSettings,
    changed_settings,
)
from worker.sandbox.world import ClientWatch, Refusal, SeenRequest, Sessions, TwinBooks, TwinWorld, Violation

MINUTE_S = 60.0
SIGN_IN_BUDGET = "sign-in"
UNPROCESSED = ("answer_before", "no_connection", "cut_before", "hang_before", "expired_token", "late_effect")
"""Faults that come before the service has looked at the request; a storm does, too, unless it hides an effect."""


# Every row of the document's endpoint tables (API section 4), as one table.
#
# One place answers "does this path exist, who may call it, is its shape shown or ours". A path that is not here is a
# 404, a method that is not here a 405; a trailing slash counts, because the document writes it in some rows and not in
# others. Fixed words win over `{eid}`, so that `/events/venues` is not the event called venues.

Who = Literal["anyone", "partner", "admin"]
ANY_METHOD = "*"


@dataclass(frozen=True, slots=True)
class ApiRow:
    """One endpoint: its methods, its path spelled as Starlette spells paths. `answer` gives JSON, or a `Result` where
    there is more to say. `shown` False: the shape is our own."""

    methods: str
    path: str
    answer: Callable[[RowCall], Json]
    host: Host = "api"
    who: Who = "partner"
    shown: bool = True

    def names(self, path: str) -> Mapping[str, str] | None:
        """What the placeholders stand for in a raw path, in which a slash of a name is encoded; None: another path."""
        found = _pattern(self.path).match(path)
        return None if found is None else {name: unquote(part) for name, part in found.groupdict().items()}


@cache
def _pattern(path: str) -> re.Pattern[str]:
    return compile_path(path)[0]


OURS = False

ROWS: tuple[ApiRow, ...] = (
    # Section 4.1: service and partner. Signing in has its own door: it is the only call without a session.
    ApiRow("GET", "/status/", lambda _: {"status": "ok"}, who="anyone", shown=OURS),
    ApiRow("GET", "/partners/", lambda call: call.tenant.record),
    ApiRow("POST PUT", "/partners/", reads.turned_away, who="admin", shown=OURS),
    ApiRow(ANY_METHOD, "/auth/users/csv_export", reads.turned_away, who="admin", shown=OURS),
    ApiRow("PUT", "/rest_demo_data/{rest:path}", reads.turned_away, who="admin", shown=OURS),
    ApiRow("GET", "/permissions", lambda call: list(call.tenant.permissions)),
    ApiRow("GET", "/features", lambda call: list(call.tenant.features)),
    # Section 4.2: Events.
    ApiRow("GET", "/events/", reads.events),
    ApiRow("GET", "/events/flagged/", reads.flagged, shown=OURS),
    ApiRow("GET", "/events/venues", reads.venues, shown=OURS),
    ApiRow("GET", "/events/statistics", reads.statistics, shown=OURS),
    ApiRow("GET", "/events/{eid}", lambda call: call.event().record),
    ApiRow("GET", "/events/{eid}/lookout_prediction_benchmark", reads.lookout_prediction_benchmark, shown=OURS),
    ApiRow("GET", "/events/{eid}/lookout_prediction", reads.lookout_prediction, shown=OURS),
    ApiRow("GET", "/daily_revenue_summary/", reads.daily_revenue_summary, shown=OURS),
    ApiRow("GET", "/events/{eid}/tickets", reads.tickets, shown=OURS),
    ApiRow("GET", "/events/{eid}/series", reads.series, shown=OURS),
    ApiRow("POST", "/events/{eid}/series", writes.change_series, shown=OURS),
    ApiRow("DELETE", "/events/{eid}/series", writes.change_series, shown=OURS),
    ApiRow("GET", "/events/{eid}/available_events_for_series", reads.available_events_for_series, shown=OURS),
    ApiRow("PUT", "/events/{eid}/setup_frontend_status", writes.setup_frontend_status, shown=OURS),
    ApiRow("PUT", "/events/last_updated_on_fe/{eid}", writes.last_updated_on_fe, host="cr", shown=OURS),
    ApiRow("PUT", "/events/{eid}", writes.edit_event, host="cr", shown=OURS),
    # Section 4.3: Sales.
    ApiRow("POST", "/ingest/transaction_summary", writes.ingest_summary, shown=OURS),
    ApiRow("POST", "/ingest/transaction_summary/from_excel", writes.ingest_excel, shown=OURS),
    ApiRow("DELETE", "/daily_revenue_summary", writes.clear_sales, shown=OURS),
    ApiRow("GET", "/daily_revenue_summary/sales_edit_export", reads.sales_edit_export, shown=OURS),
    ApiRow("POST", "/daily_revenue_summary/sales_edit_export", writes.sales_edit_upload, shown=OURS),
    # Section 4.4: Recommendations.
    ApiRow("GET", "/events/{eid}/clusters", reads.clusters),
    ApiRow("GET", "/events/{eid}/suggested_tcs", reads.suggested_tcs),
    ApiRow("GET", "/events/{eid}/campaigns_expected_value", reads.expected_value),
    ApiRow("GET", "/events/{eid}/default_campaigns_parameters", reads.default_parameters),
    ApiRow("GET", "/events/{eid}/budget_min_max", reads.budget_range),
    ApiRow("GET", "/setup_processes/call_to_action/", reads.call_to_action),
    ApiRow("GET", "/adplatform_targeting/suggested_radius", reads.suggested_radius),
    # Section 4.5: Campaigns.
    ApiRow("GET", "/setup_processes/event_types", lambda _: ["Purchase", "Lead", "ViewContent"], shown=OURS),
    ApiRow("GET", "/setup_processes/{eid}", reads.setup_process),
    ApiRow("POST", "/setup_processes/{eid}", writes.create_setup, shown=OURS),
    ApiRow("PUT", "/setup_processes/{eid}", writes.update_setup, shown=OURS),
    ApiRow("POST", "/setup_processes/{eid}/boost", writes.boost),
    ApiRow("POST", "/campaigns_setup", writes.campaigns_setup, shown=OURS),
    ApiRow("POST", "/campaigns/", writes.create_campaign, shown=OURS),
    ApiRow("GET", "/events/{eid}/campaigns", reads.campaigns, shown=OURS),
    ApiRow("PUT", "/events/{eid}/reset_campaigns_setup", writes.reset_campaigns_setup, shown=OURS),
    ApiRow("PUT", "/events/{eid}/client_campaign_status", writes.client_campaign_status),
    ApiRow("GET", "/events/{eid}/client_campaign_status/task", reads.task),
    ApiRow("PUT", "/events/{eid}/campaign_optimisation_status", writes.optimisation_status, shown=OURS),
    ApiRow("PUT", "/events/{eid}/ad_campaign_optimisation_status", writes.optimisation_status, shown=OURS),
    ApiRow("GET", "/events/{eid}/attribution_model", reads.attribution_model, shown=OURS),
    ApiRow("GET", "/integrations/connect/adplatform/status", reads.adplatform_status, shown=OURS),
    ApiRow("GET", "/integrations/adplatform/events/{eid}/campaign_results", reads.campaign_results, shown=OURS),
    ApiRow("GET", "/integrations/adplatform/events/{eid}/adplatform_insights", reads.adplatform_insights, shown=OURS),
    ApiRow("GET", "/campaign_results/", reads.turned_away),
    ApiRow("GET", "/events/{eid}/statistics", reads.event_statistics, shown=OURS),
    ApiRow("POST", "/media", writes.upload_media, host="media", shown=OURS),
)


def find(request: TwinRequest) -> tuple[ApiRow, Mapping[str, str]]:
    """The row for a request, with the names in its path. Raises the service's refusal where there is none."""
    path_exists = False
    for row in ROWS:
        if row.host != request.host or (names := row.names(request.path)) is None:
            continue
        if row.methods == ANY_METHOD or request.method in row.methods.split():
            return row, names
        path_exists = True
    if path_exists:
        raise Refusal(405, "error.method_not_allowed", "not with this method")
    raise Refusal(404, "error.not_found", "no such path")


class Twin:
    """The twin of the remote service. `origin_s` is when the story begins; None: with the first request."""

    def __init__(
        self,
        world: TwinWorld,
        *,
        settings: TwinSettings | None = None,
        faults: Iterable[Fault] = (),
        story: Iterable[StoryStep] = (),
        origin_s: float | None = None,
    ) -> None:
        self.world = world
        self.settings = settings if settings is not None else TwinSettings()
        self.books = TwinBooks()
        self.faults = FaultPlan(faults)
        self.sessions = Sessions()
        self._watch = ClientWatch()
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
        fault = self.faults.pick(request, now_s - (self._origin_s or 0.0))
        call = RowCall(
            world=self.world,
            books=self.books,
            settings=self.settings,
            request=request,
            request_id=f"twin-{self._requests:06d}",
            now_s=now_s,
            fault=fault,
        )
        reached = fault is None or fault.kind != "no_connection"
        if reached:
            self._watch.arrived(request, now_s)
        delivery: Delivery = self._process(call) if fault is None else self._harmed(call, fault)
        seen = SeenRequest(
            seq=self._requests,
            at_s=now_s,
            method=request.method,
            host=request.host,
            path=request.path,
            query=request.query,
            partner=request.partner,
            status=delivery.status if isinstance(delivery, TwinAnswer) else None,
            fault=None if fault is None else fault.kind,
            request_id=call.request_id,
            reached=reached,
        )
        self.books.request(request, seen)
        if reached:
            self._watch.left(request, delivery, now_s)
        return delivery

    def change(self, change: Change, now_s: float) -> None:
        """A change that no request makes, now. Raises SandboxInputError and changes nothing when it cannot be."""
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
            self._schedule(origin_s + self.settings.reset_every_s, self._reset_as_every_week)

    def _schedule(self, at_s: float, happen: Callable[[float], None]) -> None:
        self._scheduled += 1
        heapq.heappush(self._due, (at_s, self._scheduled, happen))

    def _tell(self, step: StoryStep, at_s: float) -> None:
        """A step whose event is gone by then (a reset, a removal) is left out and noted: the show goes on."""
        try:
            self._carry_out(step.change, at_s)
        except SandboxInputError as wrong:
            self.untold.append(f"{step.at_s:g}s (line {step.line}): {wrong}")

    def _reset_as_every_week(self, at_s: float) -> None:
        self._reset(at_s)
        if self.settings.reset_every_s is not None:
            self._schedule(at_s + self.settings.reset_every_s, self._reset_as_every_week)

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
            case _:
                assert_never(change)

    def _reset(self, at_s: float) -> None:
        """Everything is gone, at once or for a while, and then as the settings say."""
        takes_s, result = self.settings.reset_takes_s, self.settings.reset_result
        self.world.reset("empty" if takes_s > 0.0 else result, at_s)
        self.books.all_changed(at_s)
        if takes_s > 0.0:
            self._schedule(at_s + takes_s, lambda then_s: self.world.reset(result, then_s))

    # One request

    def _harmed(self, call: RowCall, fault: Fault) -> Delivery:
        """What comes of a request that a fault has: with its effect or without, and answered or not."""
        delay_s = fault.number("delay_s", 5.0 if fault.kind == "slow" else 0.0)
        hides = not call.request.is_read and fault.flag("hidden", default=False)
        answer = self._instead(fault, call.request_id)
        if fault.kind not in UNPROCESSED and (fault.kind != "storm" or hides):
            answered = self._process(call)
            if fault.kind not in ("answer_after", "storm"):
                answer = answered
        if fault.kind == "no_connection":
            return Cut(at="before_request", delay_s=delay_s)
        if fault.kind in ("cut_before", "cut_after"):
            return Cut(at="before_response", reset=fault.flag("reset", default=True), delay_s=delay_s)
        if fault.kind in ("hang_before", "hang_after"):
            return Hang()
        if fault.kind == "expired_token":
            if fault.flag("revoke", default=True):
                self.sessions.revoke_access()
            answer = self._refused(self._no_token(), call.request_id)
        if fault.kind == "late_effect":
            self._schedule(call.now_s + fault.number("after_s", 30.0), partial(self._land, call))
        return spoiled(replace(answer, delay_s=delay_s), fault)

    def _land(self, call: RowCall, at_s: float) -> None:
        """An effect that lands late: judged by the state it meets then, let in by the token it came with."""
        with suppress(Refusal):
            self._routed(replace(call, settings=self.settings, now_s=at_s, fault=None), admitted_s=call.now_s)

    def _process(self, call: RowCall) -> TwinAnswer:
        """The service at work: the true answer, after all effects."""
        if self._too_many(call.request, call.now_s):
            refusal = Refusal(429, "error.too_many_requests", "slow down")
            return self._refused(refusal, call.request_id, self.settings.retry_after_s)
        try:
            result = self._routed(call, admitted_s=call.now_s)
        except Refusal as refusal:
            return self._refused(refusal, call.request_id)
        return _answer(result, call.request_id)

    def _routed(self, call: RowCall, *, admitted_s: float) -> Result:
        request, sessions = call.request, self.sessions
        door = {"/auth": sessions.sign_in, self.settings.refresh_path: sessions.refresh}.get(request.path)
        if door is not None and request.host == "api" and request.method == "POST":
            return Result(body=door(call.json_body(), self.settings, tuple(self.world.tenants), call.now_s))
        row, names = find(request)
        self._admit(request, row, admitted_s)
        found = row.answer(replace(call, names=names))
        result = found if isinstance(found, Result) else Result(body=found)
        if result.later is not None:
            after_s, land = result.later
            self._schedule(call.now_s + after_s, land)
        return result

    # Who may

    def _admit(self, request: TwinRequest, row: ApiRow, at_s: float) -> None:
        if row.who == "anyone":
            return
        user = self.sessions.user_of(request.headers.get("authorization"), at_s)
        if user is None:
            raise self._no_token()
        if row.who == "admin":
            raise Refusal(self.settings.denied_admin_status, "error.unauthorized", "for admins only")
        own = user.partners is None or request.partner in user.partners
        if not own or request.partner not in self.world.tenants:
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

    def _instead(self, fault: Fault, request_id: str) -> TwinAnswer:
        """What a fault answers in the service's place."""
        status = int(fault.number("status", 429))
        code = fault.params.get("code") or ("error.too_many_requests" if status == 429 else "error.internal")
        return self._refused(Refusal(status, str(code), "as asked for"), request_id, fault.params.get("retry_after"))

    def _refused(self, refusal: Refusal, request_id: str, after_s: Json = None) -> TwinAnswer:
        """The structure of error bodies is not shown; three likely ones can be chosen from."""
        body: Json = {"error": refusal.code, "message": refusal.message}
        if self.settings.error_shape == "nested":
            body = {"error": {"code": refusal.code, "message": refusal.message}}
        answer = _answer(Result(status=refusal.status, body=body), request_id)
        if self.settings.error_shape == "text":
            text = {**answer.headers, "content-type": "text/plain"}
            answer = replace(answer, headers=text, body=refusal.code.encode())
        wait = {} if after_s is None else {"retry-after": str(after_s)}
        return replace(answer, headers={**answer.headers, **wait})


def _answer(result: Result, request_id: str) -> TwinAnswer:
    """A response as the service gives it: every one carries its trace header (API section 7)."""
    headers = {"x-request-id": request_id}
    if result.status == 204:
        return TwinAnswer(status=204, headers=headers, body=b"")
    if isinstance(result.body, bytes):
        headers["content-type"] = "text/csv; charset=utf-8"
        return TwinAnswer(status=result.status, headers=headers, body=result.body)
    text = json.dumps(result.body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    headers["content-type"] = "application/json"
    return TwinAnswer(status=result.status, headers=headers, body=text.encode())
