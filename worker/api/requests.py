"""The request of each write, and the addresses of all requests: pure, from the document and what the operator says.

The same intent gives the same request, byte for byte, so that what was approved, what was logged and what is sent
cannot differ. Headers and credentials are not in it: the client adds them when it sends.

An event id or a taste cluster may hold a slash, a dot, an ampersand or any script; each must arrive as one segment.
HTTP libraries like to help with that, and a helpful one that resolves ``..`` sends a write to another resource. So
the target is built here, byte by byte, and a library that would change it is refused before anything is sent.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import quote

import httpx

from worker.api.assumptions import Assumptions
from worker.model.actions import ACTIONS
from worker.model.endpoints import Endpoint
from worker.model.errors import UsageError
from worker.model.exchange import WriteRequest
from worker.model.facts import EventId, Json, PartnerId, Scalar
from worker.model.writes import Intent

_DOTS = {".": "%2E", "..": "%2E%2E"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """The addresses of the three hosts of the document (API section 1), as the config has checked them."""

    api: str
    cr: str | None = None
    media: str | None = None

    def base(self, host: str) -> str:
        """The base URL of a host. Raises `UsageError` where the config does not give it."""
        found = {"api": self.api, "cr": self.cr, "media": self.media}.get(host)
        if found is None:
            raise UsageError(
                f"the {host} host is needed, and its address is not known",
                hint=f"write api.{host}_url in the config; the operator of the service knows the address",
            )
        return found


def segment(text: str) -> str:
    """One path segment, whatever is in it. ``.`` and ``..`` are spelled out, or they would mean a place."""
    return _DOTS.get(text) or _quoted(text)


def path_of(template: str, **names: str) -> str:
    """A path of the document with its names filled in."""
    for name, text in names.items():
        template = template.replace("{" + name + "}", segment(text))
    return template


def target_of(path: str, query: Iterable[tuple[str, str]] = ()) -> str:
    """Path and query as they go over the wire, and as the log shows them. An array repeats its key (API section 4)."""
    text = "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in query)
    return f"{path}?{text}" if text else path


def exact_url(base: str, target: str) -> httpx.URL:
    """A URL whose target is sent as it stands. Raises `UsageError` where the library would send another one."""
    url = httpx.URL(base.rstrip("/") + target)
    if not url.raw_path.endswith(target.encode("ascii")):
        raise UsageError(
            f"{target} would not be sent as it is written",
            hint="this is a fault of the program: please report it with the line above",
        )
    return url


def filled(template: Mapping[str, str], values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """A query template with its placeholders filled in."""
    return tuple((name, filled_text(text, values)) for name, text in template.items())


def filled_text(text: str, values: Mapping[str, str]) -> str:
    """One text with its placeholders filled in, in one pass: a value that holds braces is not filled in again."""
    return re.sub(r"\{([a-z_]+)\}", lambda found: values.get(found[1], found[0]), text)


def written_path(path: str) -> str:
    """A path as somebody wrote it, with what no address may hold spelled out; its placeholders stay."""
    return quote(path, safe="/%{}:@!$&'()*+,;=-._~")


def spelled(value: Scalar) -> str:
    """A parameter as it goes into a query: 500.0 as 500, and no exponents."""
    if isinstance(value, str):
        return value
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def filled_body(template: Json, values: Mapping[str, str]) -> Json:
    """A JSON template with its placeholders filled in, wherever a text stands."""
    match template:
        case str():
            return filled_text(template, values)
        case dict():
            return {name: filled_body(part, values) for name, part in template.items()}
        case list():
            return [filled_body(part, values) for part in template]
        case _:
            return template


Query = tuple[tuple[str, str], ...]


def write_request(
    partner: PartnerId, event: EventId, intent: Intent, item: str, assumptions: Assumptions
) -> WriteRequest:
    """The request of one write. Raises `UsageError` for an action that has none."""
    action, params = intent.action, intent.params
    if action == "write":
        return _by_hand(partner, event, params)
    calls = ACTIONS[action].calls if action in ACTIONS else ()
    if not calls:
        raise UsageError(f"the action {action} makes no request")
    row = calls[0]
    query: Query = ()
    body: Json = None
    match action:
        case "pause" | "run" | "optimisation" | "ad_optimisation":  # by the query (API section 3.2)
            template = assumptions.template(f"{row.path.rpartition('/')[2]}.query")
            query = filled(template or {}, {"value": _value(intent), "eid": event})
        case "frontend_status":
            row, name, value = _frontend_status(calls, _value(intent), item)
            values = {"value": value, "eid": event}
            query = filled(assumptions.template(f"{name}.query") or {}, values)
            body = filled_body(assumptions.values[f"{name}.body"], values)
        case "create_draft" | "update_draft":
            body = dict(params)
        case "boost":
            body = filled_body(assumptions.values["boost.body"], {"eid": event})
        case "edit_cluster":  # event, cluster and run are named in the body (API section 2.6)
            body = {"eid": event, **params}
        case "create_campaign":
            query = _campaign_query(event, params, assumptions.template("create_campaign.query") or {})
        case "series_add" | "series_remove":
            query = _pairs(row.query[0], params.get("value"))
        case _:
            pass
    path = path_of(row.path, eid=event)
    return WriteRequest(host=row.host, method=row.method or "", path=path, query=query, body=body)


def _value(intent: Intent) -> str:
    """The value that the action sets: the one that its name implies, or the one it was given."""
    implied = ACTIONS[intent.action].value
    value = implied if implied is not None else intent.params.get("value")
    if not isinstance(value, str):
        raise UsageError(f"{intent.action} needs a value, not {value!r}")
    return value


def _frontend_status(calls: tuple[Endpoint, ...], value: str, item: str) -> tuple[Endpoint, str, str]:
    """Two writes (API section 3.2): the second says CANCELLED only where the first does, and RUNNING otherwise. The row
    of one, what its assumptions are called, and the value that it carries."""
    match item:
        case "event":
            return calls[0], "frontend_status", value
        case "cr":
            return calls[1], "last_updated_on_fe", "CANCELLED" if value == "CANCELLED" else "RUNNING"
        case _:
            raise UsageError(f"frontend_status has the items event and cr, not {item!r}")


def _campaign_query(event: EventId, params: Mapping[str, Json], template: Mapping[str, str]) -> Query:
    """Everything is in the query; what the template does not name is added under its own name."""
    values = {"eid": event, **{name: _text(value) for name, value in params.items()}}
    named = {found for text in template.values() for found in values if "{" + found + "}" in text}
    more = tuple(pair for name, value in params.items() if name not in named for pair in _pairs(name, value))
    return (*filled(template, values), *more)


def _by_hand(partner: PartnerId, event: EventId, params: Mapping[str, Json]) -> WriteRequest:
    """What a rule wrote itself, with the names of the event and its partner filled in, each as one segment."""
    names = {"eid": event, "partner_id": partner, "client_id": str(params.get("client_id", ""))}
    query = filled_body(params.get("query"), names)
    named = query.items() if isinstance(query, dict) else ()
    return WriteRequest(
        host=str(params.get("host", "api")),
        method=str(params["method"]),
        path=path_of(written_path(str(params["path"])), **names),
        query=tuple(pair for name, value in named for pair in _pairs(name, value)),
        body=filled_body(params.get("body"), names),
    )


def _pairs(name: str, value: Json) -> Query:
    """One query parameter: an array repeats its key."""
    return tuple((name, _text(one)) for one in (value if isinstance(value, list) else [value]))


def _text(value: Json) -> str:
    """A value as it stands in a query: numbers without an exponent, booleans and null as JSON spells them."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return spelled(value)
    return json.dumps(value, ensure_ascii=False)


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="replace")
