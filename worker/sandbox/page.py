"""One page that shows the sandbox at work: events, what was asked, what took effect.

Plain HTML that reloads itself. Never runs a script and never offers a button: changes go through the control paths.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from html import escape

from worker.sandbox.delivery import Json, Record
from worker.sandbox.faults import Fault
from worker.sandbox.service import Service
from worker.sandbox.settings import Settings

MAX_ROWS = 60
RELOAD_S = 2
STYLE = (
    "body{font:14px system-ui,sans-serif;margin:1.5rem;color:#222;background:#fff}"
    "table{border-collapse:collapse;margin:.4rem 0 1.6rem}th{text-align:left}"
    "td,th{padding:.15rem .7rem .15rem 0;border-bottom:1px solid #ddd;vertical-align:top}"
    ".bad{color:#a00;font-weight:600}"
)


def page(service: Service) -> str:
    """The whole page as it is now."""
    summary = service.books.summary()
    violations = service.violations()
    effects = list(service.books.effects)[-MAX_ROWS:][::-1]
    requests = list(service.books.requests)[-MAX_ROWS:][::-1]

    def at(clock_s: float) -> str:
        return f"{service.story_s(clock_s):.3f}"

    parts = [
        _verdict(summary, len(violations)),
        _otherwise(service),
        *(_events(service, partner) for partner in service.world.partners),
        "<p>Times are seconds from the first request, when the story began.</p>",
        "<h2>Effects</h2>",
        _table(
            ("seq", "at", "partner", "event", "operation", "before", "after", "repeated", "request"),
            (
                (e.seq, at(e.at_s), e.partner, e.eid, e.operation, e.before, e.after, e.repeated, e.request_id)
                for e in effects
            ),
        ),
        "<h2>Requests</h2>",
        _table(
            ("seq", "at", "method", "host", "path", "query", "partner", "status", "fault"),
            (
                (r.seq, at(r.at_s), r.method, r.host, r.path, _query(r.query), r.partner, r.status, r.fault or "")
                for r in requests
            ),
        ),
        "<h2>Violations</h2>",
        _table(
            ("at", "kind", "partner", "method", "path", "detail"),
            ((at(v.at_s), v.kind, v.partner, v.method, v.path, v.detail) for v in violations[-MAX_ROWS:][::-1]),
        ),
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Sandbox</title>'
        f'<meta http-equiv="refresh" content="{RELOAD_S}"><style>{STYLE}</style></head>'
        f"<body><h1>Sandbox</h1>{''.join(parts)}</body></html>"
    )


def _verdict(summary: Record, violations: int) -> str:
    return (
        f"<p>writes sent {summary['writes_sent']}, effects {summary['effects']}, "
        f"<span{_mark(summary['repeated'])}>repeated {summary['repeated']}</span>, "
        f"<span{_mark(violations)}>violations {violations}</span></p>"
    )


def _otherwise(service: Service) -> str:
    """What is not as usual here: settings, faults that are still to come, steps of the story that could not be told."""
    usual = Settings()
    names = [each.name for each in fields(Settings) if each.name != "users"]
    changed = [(name, getattr(service.settings, name), getattr(usual, name)) for name in names]
    changed = [row for row in changed if row[1] != row[2]]
    faults = [(fault.kind, _match(fault), fault.times, dict(fault.params)) for fault in service.faults.left]
    parts: list[tuple[str, tuple[str, ...], list[tuple[Json, ...]]]] = [
        ("Settings", ("setting", "is", "usually"), [*changed]),
        ("Faults to come", ("kind", "for", "times", "params"), [*faults]),
        ("Steps of the story that could not be told", ("step",), [(line,) for line in service.untold]),
    ]
    return "".join(f"<h2>{escape(title)}</h2>{_table(names, rows)}" for title, names, rows in parts if rows)


def _match(fault: Fault) -> str:
    match = fault.match
    return " ".join(part for part in (match.host, match.method, match.path, match.partner) if part) or "anything"


def _events(service: Service, partner: str) -> str:
    found = service.world.listing(partner)[:MAX_ROWS]
    names = ("status", "frontend_status", "campaign_status", "client_campaign_status")
    rows = (
        (
            each.eid,
            each.record.get("title"),
            *(each.record.get(name) for name in names),
            "NONE" if each.setup is None else "PUBLISHED" if each.published else "DRAFT",
            len(each.campaigns),
        )
        for each in found
    )
    return f"<h2>{escape(partner)}</h2>" + _table(("id", "title", *names, "setup", "campaigns"), rows)


def _query(pairs: tuple[tuple[str, str], ...]) -> str:
    return "&".join(f"{key}={value}" for key, value in pairs)


def _mark(many: Json) -> str:
    return ' class="bad"' if many else ""


def _table(names: tuple[str, ...], rows: Iterable[tuple[Json, ...]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = ("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"
