"""The twin as judge of manners: what a polite client must not do, noted while it happens.

The document asks clients to leave 3 seconds between reads of the same thing, to read a task only after its PUT and
with growing waits, to page modestly, to name token and partner on every call, and to keep quiet when told to
(API sections 5, 8). A real service would punish some of it at some time; the twin writes all of it down.

Never answers differently because of what it saw. Never judges what is inside the client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from worker.sandbox.delivery import Answer, Cut, Delivery, TwinRequest

READ_FLOOR_S = 3.0
FLOOR_TOLERANCE_S = 0.0
FIRST_TASK_WAIT_S = 2.0
MAX_TASK_READS = 6
MAX_LIMIT = 1000
# Requests that were already under way when the 429 was given are not held against anyone.
UNDER_WAY_S = 0.05

ViolationKind = Literal[
    "read_floor",
    "missing_authorization",
    "missing_partner",
    "task_without_put",
    "task_too_soon",
    "task_too_often",
    "limit_too_large",
    "retry_after",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    kind: ViolationKind
    at_s: float
    partner: str
    method: str
    path: str
    detail: str


@dataclass(slots=True)
class _TaskReads:
    """The reads of one task since its last PUT."""

    last_s: float
    reads: int = 0

    @property
    def wait_s(self) -> float:
        return FIRST_TASK_WAIT_S * 2.0**self.reads


class Watch:
    """Remembers when what was answered, and holds each new request against it."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self._read_ended_s: dict[tuple[str, ...], float] = {}
        self._tasks: dict[tuple[str, ...], _TaskReads] = {}
        self._quiet: dict[str, tuple[float, float]] = {}

    def arrived(self, request: TwinRequest, at_s: float) -> None:
        """Judges a request at the moment of its arrival."""
        if request.is_sign_in:
            return
        if request.segments != ("status", ""):
            self._judge_headers(request, at_s)
        self._judge_quiet(request, at_s)
        if request.method != "GET":
            return
        self._judge_limit(request, at_s)
        if _is_task(request):
            self._judge_task(request, at_s)
        else:
            self._judge_floor(request, at_s)

    def left(self, request: TwinRequest, delivery: Delivery, arrived_s: float) -> None:
        """Notes when the request ended: with its answer, with its cut, or (nobody knows) with its arrival."""
        ended_s = arrived_s + delivery.delay_s if isinstance(delivery, Answer | Cut) else arrived_s
        if request.method == "GET":
            self._read_ended_s[request.resource] = ended_s
            if _is_task(request) and (task := self._tasks.get(_task_key(request))):
                task.last_s = ended_s
                task.reads += 1
        elif request.method == "PUT" and request.segments[-1:] == ("client_campaign_status",):
            self._tasks[_task_key(request)] = _TaskReads(last_s=ended_s)
        if isinstance(delivery, Answer) and delivery.status == 429 and not request.is_sign_in:
            self._keep_quiet(request, delivery, ended_s)

    def _keep_quiet(self, request: TwinRequest, answer: Answer, ended_s: float) -> None:
        wait = answer.headers.get("retry-after", "")
        if wait.isdigit():
            self._quiet[request.partner] = (ended_s, ended_s + float(wait))

    def _note(self, kind: ViolationKind, request: TwinRequest, at_s: float, detail: str) -> None:
        self.violations.append(
            Violation(
                kind=kind, at_s=at_s, partner=request.partner, method=request.method, path=request.path, detail=detail
            )
        )

    def _judge_headers(self, request: TwinRequest, at_s: float) -> None:
        if not request.headers.get("authorization"):
            self._note("missing_authorization", request, at_s, "no Authorization header")
        if not request.partner:
            self._note("missing_partner", request, at_s, "no X-Preferred-Partner-Id header")

    def _judge_quiet(self, request: TwinRequest, at_s: float) -> None:
        since_s, until_s = self._quiet.get(request.partner, (0.0, 0.0))
        if since_s + UNDER_WAY_S < at_s < until_s:
            self._note("retry_after", request, at_s, f"asked to wait for {until_s - at_s:g} s more")

    def _judge_limit(self, request: TwinRequest, at_s: float) -> None:
        for key, value in request.query:
            if key == "limit" and value.isascii() and value.isdigit() and (len(value) > 9 or int(value) > MAX_LIMIT):
                self._note("limit_too_large", request, at_s, f"limit={value}, at most {MAX_LIMIT}")

    def _judge_floor(self, request: TwinRequest, at_s: float) -> None:
        ended_s = self._read_ended_s.get(request.resource)
        # Added and not subtracted: a client that waits until ended + 3 must not fail by a rounding error.
        if ended_s is not None and at_s < ended_s + READ_FLOOR_S - FLOOR_TOLERANCE_S:
            self._note("read_floor", request, at_s, f"{at_s - ended_s:g} s after its last answer")

    def _judge_task(self, request: TwinRequest, at_s: float) -> None:
        task = self._tasks.get(_task_key(request))
        if task is None:
            self._note("task_without_put", request, at_s, "no PUT came before")
        elif task.reads >= MAX_TASK_READS:
            self._note("task_too_often", request, at_s, f"read {task.reads} times since the PUT already")
        elif at_s < task.last_s + task.wait_s:
            self._note("task_too_soon", request, at_s, f"{at_s - task.last_s:g} s, expected {task.wait_s:g} s")


def _is_task(request: TwinRequest) -> bool:
    return request.segments[-2:] == ("client_campaign_status", "task")


def _task_key(request: TwinRequest) -> tuple[str, ...]:
    return (request.partner, *request.segments[:2])
