"""docs/api-coverage.md, made from the tables of the client and the twin: every row of the service's document, who calls
it here, how the twin answers it, and which assumptions it leans on.

It says what the code does: a fact stands in a row because its reading has that path, an action because its request is
one of that row. tests/contract/test_coverage.py plays each of these claims against the twin.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from tests.builders import a_scope
from tests.reference.spelling import table
from worker.api.assumptions import ASSUMPTIONS, Assumptions
from worker.api.facts import FACT_SOURCES
from worker.api.requests import write_request
from worker.model.actions import ACTIONS, EVERY_WRITE
from worker.model.endpoints import ENDPOINTS, Endpoint, row_of
from worker.model.facts import EventId, PartnerId
from worker.rules.load import read_rules
from worker.sandbox.service import ROWS, ApiRow
from worker.writes.intents import Planned, plan_steps

ROOT: Final = Path(__file__).resolve().parents[2]
FILE: Final = ROOT / "docs" / "api-coverage.md"
EVENT: Final = EventId("e1")

OWN: Final[Mapping[tuple[str, str], tuple[str, tuple[str, ...]]]] = {
    ("GET", "/status/"): ("`probe`", ()),
    ("POST", "/auth"): ("signing in", ("auth.refresh",)),
    ("GET", "/events/"): ("the list of events, every cycle: the fact `event`", ("events.page_parameter",)),
    ("GET", "/events/{eid}/client_campaign_status/task"): (
        "after a PUT, at most 6 times",
        ("task.succeeded", "task.failed"),
    ),
}
"""What the worker calls for itself, and what that leans on."""
_SENDS_JSON: Final = "action `write`, where it takes JSON; files are not sent"
FILES: Final[Mapping[tuple[str, str], str]] = {
    ("POST", "/ingest/transaction_summary/from_excel"): "not called: it takes a file, which a rule cannot send",
    (
        "GET",
        "/daily_revenue_summary/sales_edit_export",
    ): "not called: it gives a spreadsheet, of which no fact can be made",
    ("POST", "/daily_revenue_summary/sales_edit_export"): _SENDS_JSON,
    ("POST", "/media"): _SENDS_JSON,
}
"""Rows that carry files, which nothing here makes or reads."""
SECTIONS: Final[Mapping[str, str]] = {
    "4.1": "Service and partner",
    "4.2": "Events",
    "4.3": "Sales data",
    "4.4": "Recommendations",
    "4.5": "Campaigns",
}

_HEAD: Final = """\
<!-- Made by `make docs` from the code. Edit the tables that a word comes from, not this file. -->

# Every row of the service's document

What the worker and its simulator do with each endpoint of section 4 of the document. *Open* marks what the document
does not specify: of the input, of the output. Such an input is an assumption, or a rule gives it. Such an output is
taken as JSON of any form; a 2xx to a write counts whatever its body says, unless that is a web page, which comes from
something before the service. A *fact* is read by naming it in a rule; any other GET can be read as a fact of the config
(`facts:`). The simulator serves every row; where the document shows no form its answers are its own, and tell nothing
of the real service.

Three refusals are told apart. `error.auth.missing_token`: no token that the service accepts came along.
`error.auth.not_authorized`: this account may not do this for this partner. `error.unauthorized`: only administrators
of the service may. The worker never calls the rows for administrators, and `check` refuses a fact that
would. Which answers are such refusals is the assumption `auth.denied`, on which all rows but `/status/` and `/auth`
depend.
"""


def text() -> str:
    parts = [_HEAD]
    for section, title in SECTIONS.items():
        rows = [_row(row) for row in ENDPOINTS if row.section == section]
        head = ("row", "open", "the worker", "the simulator", "depends on")
        parts += [f"## {section} {title}\n", table(head, rows)]
    return "\n".join(parts)


def facts_of(row: Endpoint) -> list[str]:
    """The facts that are read from a row."""
    return [
        name for name, one in FACT_SOURCES.items() if row.method == "GET" and one.path == row.path and row.host == "api"
    ]


def actions_of(row: Endpoint) -> list[str]:
    """The actions that write to a row."""
    return [name for name in ACTIONS if row in rows_written(name)]


@cache
def rows_written(action: str) -> list[Endpoint]:
    """The rows that an action's requests are of."""
    if not ACTIONS[action].target:
        return []  # a message is no request
    requests = [write_request(PartnerId("p"), EVENT, one.intent, one.item, Assumptions()) for one in planned(action)]
    found = [row_of(request.method, request.path, "cr" if request.host == "cr" else "api") for request in requests]
    return [row for row in found if row is not None]


@cache
def planned(action: str) -> tuple[Planned, ...]:
    """The writes of an action, as its own example asks for them."""
    return _writes_of(ACTIONS[action].example)


def by_hand(row: Endpoint) -> Planned:
    """The write of a row that has no action of its own, as a rule writes it."""
    query = "{eid: '{eid}', event_type: concert, partner_product: x}"
    body = "" if row.method == "DELETE" else ", body: {eid: '{eid}', rows: []}"
    step = f"{{host: {row.host}, method: {row.method}, path: '{row.path}', query: {query}{body}, spends: false}}"
    return _writes_of(f"do: [{{write: {step}}}]")[0]


def _writes_of(do: str) -> tuple[Planned, ...]:
    text = f"rules:\n  - id: a\n    when: event.status == 'active'\n    {do}\n"
    (rule,) = read_rules({"r.yaml": text}).rules.rules
    return plan_steps(rule, a_scope({}), {})


def twin_row(row: Endpoint) -> ApiRow | None:
    """The twin's own row for a row of the client's table."""
    path = row.path.replace("{rest}", "{rest:path}")
    for one in ROWS:
        if one.host == row.host and one.path == path and (row.method in one.methods.split() or one.methods == "*"):
            return one
    return None


def called_by(row: Endpoint) -> str:
    """Who calls a row, in words."""
    if row.refused:
        return "never: a partner's token is turned away"
    found = [OWN[row.method or "", row.path][0]] if (row.method or "", row.path) in OWN and row.host == "api" else []
    found += [f"fact `{name}`" for name in facts_of(row) if f"`{name}`" not in " ".join(found)]
    found += [f"action `{name}`" for name in actions_of(row)]
    if found:
        return "; ".join(found)
    if (row.method or "", row.path) in FILES:
        return FILES[row.method or "", row.path]
    if row.method == "GET":
        return "a fact of the config"
    return "action `write`" if "write" in ACTIONS else "not called in this version"


def leans_on(row: Endpoint) -> list[str]:
    """The assumptions behind the calls of a row, but for the one behind nearly all of them."""
    own = OWN.get((row.method or "", row.path), ("", ()))[1] if row.host == "api" else ()
    facts = set(facts_of(row)) - {"event"}  # its list is paged, and it is not
    of_facts = [key for key, one in ASSUMPTIONS.items() if set(one.needed_by) & facts]
    of_actions = [key for name in actions_of(row) for key in ACTIONS[name].assumptions if _about(key, row)]
    return list(dict.fromkeys((*own, *of_facts, *of_actions)))


def _about(key: str, row: Endpoint) -> bool:
    """Actions of several requests lean on an assumption for each of them."""
    if key in EVERY_WRITE:
        return False
    return not key.startswith(("frontend_status.", "last_updated_on_fe.")) or key.partition(".")[0] in row.path


def _row(row: Endpoint) -> tuple[str, ...]:
    host = {"api": "", "cr": "[cr] ", "media": "[media] "}[row.host]
    method = row.method or "any method"
    rest = row.path.replace("{rest}", "…")
    leaning = ", ".join(f"`{key}`" for key in leans_on(row))
    return (f"{method} {host}`{rest}`", row.open, called_by(row), _twin(row), leaning)


def _twin(row: Endpoint) -> str:
    if row.path == "/auth":
        return "as the document shows"
    twin = twin_row(row)
    if twin is None:
        return "not served"
    if row.refused:
        return "refuses: " + " or ".join(f"`{code}`" for code in row.refused)
    return "as the document shows" if twin.shown else "a form of its own"
