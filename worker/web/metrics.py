"""Figures for Prometheus: what the daemon counts as it goes, and what the ledger says at the moment of the scrape.

One table of names, so that the docs, the alert rules and the dashboard can be checked against it. Labels are names of
the operator's own making (partners, rules) and closed sets of words; an event never is one, or the series would grow
without end.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from worker.engine.ports import CycleReport, Ledger
from worker.ledger.browsing import LedgerBrowser
from worker.ledger.reading import part_of
from worker.model.commits import Commit, DaemonStatus, Hold, Move, Record, Sending
from worker.model.errors import LedgerUnwritable
from worker.model.facts import Json
from worker.model.writes import State, Write
from worker.writes.life import MOVES

T = TypeVar("T")
PREFIX = "campaign_worker_"
METRICS: Mapping[str, str] = {
    "cycle_seconds": "time from the beginning of a poll of a partner to its decision",
    "cycles_total": "polls by partner and result: complete, incomplete, or error",
    "last_complete_cycle_timestamp_seconds": "when the last complete poll of a partner ended, in seconds since 1970; "
    "where none has, when the daemon began, and while it knows no partner, of none",
    "requests_total": "requests on the wire by partner, kind (read, write, sign_in) and status; none: no answer",
    "retry_after_seconds": "for how long a partner was asked to be left alone by its last answer; 0 where by none",
    "budget_requests_per_minute": "requests a partner may make in a minute now; 429s lower it",
    "used_requests_per_minute": "requests a partner made in the last minute",
    "writes": "writes in the ledger by state",
    "oldest_unknown_seconds": "for how long the write that has been longest in unknown has been so; 0 without one",
    "oldest_needs_human_seconds": "for how long an operator has been waited for; 0 where nobody is",
    "change_to_confirmed_seconds": "time from the poll at which a rule fired to the confirmed write",
    "fired_total": "firings by rule",
    "rule_evaluations_total": "conditions of rules that had anything to do, by rule and truth: true, false, unknown",
    "ledger_commit_seconds": "time of a commit, its sync to disk included",
    "ledger_failures_total": "commits that failed; nothing is sent until one succeeds",
    "messages_total": "messages to people by result: sent, failed",
    "sign_ins_refused_total": "wrong passwords and tokens at the page",
    "halts": "halts in force",
    "rules_refused": "1 while the rule files do not load and the last good set stays in force",
    "ledger_refused": "1 while nothing is sent because the ledger was restored, lost or exchanged",
    "replicas": "workers of a fleet that were heard of in the last seconds; 0 where one runs alone",
    "partners_unowned": "partners of a fleet that no worker has; 0 where one runs alone",
    "log_records": "records in each chain of the action log",
    "log_head": "the first 13 hexadecimal digits of the hash that each chain ends with, as a number; see the head",
}
HEAD_DIGITS = 13
"""Of a hash, as many as a figure holds exactly: 53 bits. As a label it would be a new series for each record."""
COMMITS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
CYCLES = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 6.0, 12.0, 30.0)
CONFIRMS = (1.0, 3.0, 6.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)


class Meter:
    """Counts while the daemon runs, and answers scrapes. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._cycle = self._made(partial(Histogram, buckets=CYCLES), "cycle_seconds", "partner")
        self._cycles = self._made(Counter, "cycles_total", "partner", "result")
        self._requests = self._made(Counter, "requests_total", "partner", "kind", "status")
        self._retry_after = self._made(Gauge, "retry_after_seconds", "partner")
        self._confirmed = self._made(partial(Histogram, buckets=CONFIRMS), "change_to_confirmed_seconds")
        self._fired = self._made(Counter, "fired_total", "rule")
        self._evaluations = self._made(Counter, "rule_evaluations_total", "rule", "truth")
        self._commits = self._made(partial(Histogram, buckets=COMMITS), "ledger_commit_seconds")
        self._failures = self._made(Counter, "ledger_failures_total")
        self._messages = self._made(Counter, "messages_total", "result")
        self._sign_ins = self._made(Counter, "sign_ins_refused_total")

    def cycle(self, report: CycleReport) -> None:
        """A poll has ended."""
        result = "error" if report.error else "complete" if report.complete else "incomplete"
        self._cycles.labels(report.partner, result).inc()
        self._cycle.labels(report.partner).observe(report.took_ms / 1000)
        for (rule, truth), count in report.judged.items():
            self._evaluations.labels(rule, truth.value).inc(count)

    def request(self, kind: str, partner: str, status: str, wait: timedelta | None) -> None:
        """A request was answered, or not. ``wait``: its Retry-After."""
        self._requests.labels(partner, kind, status).inc()
        self._retry_after.labels(partner).set(0.0 if wait is None else wait.total_seconds())

    def record(self, record: Record) -> None:
        """A record was stored."""
        if record.kind == "fired" and record.rule is not None:
            self._fired.labels(record.rule).inc()

    def timed(self, ledger: Ledger, seconds: Callable[[], float]) -> Ledger:
        """The same ledger, its commits timed. ``seconds`` is a monotonic clock."""
        return cast("Ledger", _TimedLedger(ledger, self, seconds))

    def commit(self, took: float, moves: Iterable[Move] = ()) -> None:
        """A commit has succeeded."""
        self._commits.observe(took)
        for move in moves:
            if move.after.state == "confirmed" and move.before.state != "confirmed":
                waited = move.after.changed_at - move.after.planned_at
                self._confirmed.observe(max(timedelta(0), waited).total_seconds())

    def failed(self) -> None:
        """A commit has failed."""
        self._failures.inc()

    def message(self, *, taken: bool) -> None:
        """A message was handed over, or could not be."""
        self._messages.labels("sent" if taken else "failed").inc()

    def sign_in_refused(self) -> None:
        """Somebody gave a wrong password or token to the page."""
        self._sign_ins.inc()

    def measured(self, ledger: LedgerBrowser, now: datetime) -> bytes:
        """The answer to a scrape."""
        registry = CollectorRegistry()
        registry.register(_Stored(ledger, now))
        return generate_latest(self._registry) + generate_latest(registry)

    def _made(self, kind: Callable[..., T], name: str, *labels: str) -> T:
        return kind(PREFIX + name, METRICS[name], labels, registry=self._registry)


class _TimedLedger:
    """Everything but the two commits is passed on as it is, whatever else a ledger can do."""

    def __init__(self, ledger: Ledger, meter: Meter, seconds: Callable[[], float]) -> None:
        self._ledger = ledger
        self._meter = meter
        self._seconds = seconds

    def __getattr__(self, name: str) -> object:
        return getattr(self._ledger, name)

    def apply(self, commit: Commit) -> tuple[Write, ...]:
        """Timed, unless there is nothing to store."""
        if commit.empty:
            return self._ledger.apply(commit)
        return self._timed(lambda: self._ledger.apply(commit), commit.moves)

    def record_sending(self, sending: Sending) -> Hold | None:
        """Timed."""
        return self._timed(lambda: self._ledger.record_sending(sending), ())

    def _timed(self, work: Callable[[], T], moves: Iterable[Move]) -> T:
        began = self._seconds()
        try:
            result = work()
        except LedgerUnwritable:
            self._meter.failed()
            raise
        self._meter.commit(self._seconds() - began, moves)
        return result


class _Stored(Collector):
    """What the ledger says at the moment of a scrape."""

    def __init__(self, ledger: LedgerBrowser, now: datetime) -> None:
        self._ledger = ledger
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """Every figure that is not counted but looked up."""
        counts = self._ledger.state_counts()
        yield _gauge("writes", (((state,), counts.get(state, 0)) for state in MOVES), "state")
        yield _gauge("oldest_unknown_seconds", [((), self._age("unknown"))])
        yield _gauge("oldest_needs_human_seconds", [((), self._age("needs_human"))])
        yield _gauge("halts", [((), len(self._ledger.halts(self._now)))])
        heads = self._ledger.heads().values()
        yield _gauge("log_records", (((head.chain,), head.seq) for head in heads), "chain")
        yield _gauge("log_head", (((head.chain,), int(head.hash[:HEAD_DIGITS], 16)) for head in heads), "chain")
        yield _gauge("ledger_refused", [((), int(self._ledger.refused() is not None))])
        status = self._ledger.status()
        body: Mapping[str, Json] = {} if status is None else status.body
        yield _gauge("rules_refused", [((), int(bool(part_of(body, "rules").get("error"))))])
        complete = () if status is None else _complete(status)
        yield _gauge("last_complete_cycle_timestamp_seconds", complete, "partner")
        yield _gauge("budget_requests_per_minute", _said_of_partners(body, "budget"), "partner")
        yield _gauge("used_requests_per_minute", _said_of_partners(body, "requests_per_minute"), "partner")
        replicas = self._ledger.replicas()
        watched = part_of(body, "partners") if replicas else {}
        free = sum(one.owner is None and one.partner in watched for one in self._ledger.owned())
        yield _gauge("replicas", [((), sum(one.alive for one in replicas))])
        yield _gauge("partners_unowned", [((), free)])

    def _age(self, state: State) -> float:
        since = self._ledger.oldest(state)
        return 0.0 if since is None else max(0.0, (self._now - since).total_seconds())


def _complete(status: DaemonStatus) -> Iterator[tuple[tuple[str, ...], float]]:
    """When each partner was last seen whole, by what outlives a poll that fails and the process: who was never seen has
    a time as well, or nobody would be told of it."""
    for partner in (partners := part_of(status.body, "partners") or {"": {}}):
        last = part_of(partners, partner).get("last_ok_at")
        yield (partner,), (datetime.fromisoformat(last) if isinstance(last, str) else status.since).timestamp()


def _said_of_partners(body: Mapping[str, Json], name: str) -> Iterator[tuple[tuple[str, ...], float]]:
    """What the daemon's last word says of each partner's pace."""
    for partner in (partners := part_of(body, "partners")):
        value = part_of(partners, partner).get(name)
        if isinstance(value, int | float):
            yield (partner,), float(value)


def _gauge(name: str, values: Iterable[tuple[tuple[str, ...], float]], *labels: str) -> Metric:
    family = GaugeMetricFamily(PREFIX + name, METRICS[name], labels=labels)
    for given, value in values:
        family.add_metric(given, value)
    return family
