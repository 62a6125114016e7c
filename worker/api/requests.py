"""The request of each write: pure, from what the document says and what the operator vouches for.

The same intent gives the same request, byte for byte, so that what was approved, what was logged and what is sent
cannot differ. Headers and credentials are not in it: the client adds them when it sends.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from worker.api.addresses import filled, filled_text, path_of
from worker.api.assumptions import Assumptions
from worker.api.readings import spelled, written_path
from worker.model.actions import ACTIONS
from worker.model.endpoints import Endpoint, endpoint
from worker.model.errors import UsageError
from worker.model.exchange import WriteRequest
from worker.model.facts import Json
from worker.model.ids import EventId, PartnerId
from worker.model.writes import Intent


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a request is made from: the event, what is wanted of it, and what is assumed of the service."""

    partner: PartnerId
    event: EventId
    intent: Intent
    item: str
    assumptions: Assumptions

    @property
    def value(self) -> str:
        """The value that the action sets: the one that its name implies, or the one it was given."""
        implied = ACTIONS[self.intent.action].value
        value = implied if implied is not None else self.intent.params.get("value")
        if not isinstance(value, str):
            raise UsageError(f"{self.intent.action} needs a value, not {value!r}")
        return value

    def made(self, row: Endpoint, *, query: tuple[tuple[str, str], ...] = (), body: Json = None) -> WriteRequest:
        """The request of a row of the document."""
        path = path_of(row.path, eid=self.event)
        return WriteRequest(host=row.host, method=row.method or "", path=path, query=query, body=body)


def write_request(
    partner: PartnerId, event: EventId, intent: Intent, item: str, assumptions: Assumptions
) -> WriteRequest:
    """The request of one write. Raises `UsageError` for an action that has none."""
    build = _REQUESTS.get(intent.action)
    if build is None:
        raise UsageError(f"the action {intent.action} makes no request")
    return build(Asked(partner=partner, event=event, intent=intent, item=item, assumptions=assumptions))


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


def _status(name: str) -> Callable[[Asked], WriteRequest]:
    """One of the three status fields, which all take their value in the query (API section 3.2)."""
    row = endpoint("PUT", f"/events/{{eid}}/{name}")

    def build(asked: Asked) -> WriteRequest:
        template = asked.assumptions.template(f"{name}.query") or {}
        return asked.made(row, query=filled(template, {"value": asked.value, "eid": asked.event}))

    return build


def _frontend_status(asked: Asked) -> WriteRequest:
    """Two writes (API section 3.2): the second says CANCELLED only where the first does, and RUNNING otherwise."""
    if asked.item == "cr":
        told = "CANCELLED" if asked.value == "CANCELLED" else "RUNNING"
        return _either(asked, endpoint("PUT", "/events/last_updated_on_fe/{eid}", "cr"), "last_updated_on_fe", told)
    if asked.item == "event":
        return _either(asked, endpoint("PUT", "/events/{eid}/setup_frontend_status"), "frontend_status", asked.value)
    raise UsageError(f"frontend_status has the items event and cr, not {asked.item!r}")


def _either(asked: Asked, row: Endpoint, name: str, value: str) -> WriteRequest:
    values = {"value": value, "eid": asked.event}
    query = filled(asked.assumptions.template(f"{name}.query") or {}, values)
    return asked.made(row, query=query, body=filled_body(asked.assumptions.values[f"{name}.body"], values))


def _draft(method: str) -> Callable[[Asked], WriteRequest]:
    row = endpoint(method, "/setup_processes/{eid}")
    return lambda asked: asked.made(row, body=dict(asked.intent.params))


def _boost(asked: Asked) -> WriteRequest:
    body = filled_body(asked.assumptions.values["boost.body"], {"eid": asked.event})
    return asked.made(endpoint("POST", "/setup_processes/{eid}/boost"), body=body)


def _reset(asked: Asked) -> WriteRequest:
    return asked.made(endpoint("PUT", "/events/{eid}/reset_campaigns_setup"))


def _edit_cluster(asked: Asked) -> WriteRequest:
    """Event, cluster and run are named in the body (API section 2.6)."""
    return asked.made(endpoint("POST", "/campaigns_setup"), body={"eid": asked.event, **asked.intent.params})


def _create_campaign(asked: Asked) -> WriteRequest:
    """Everything is in the query; what the template does not name is added under its own name."""
    template = asked.assumptions.template("create_campaign.query") or {}
    params = asked.intent.params
    values = {"eid": asked.event, **{name: _text(value) for name, value in params.items()}}
    named = {found for text in template.values() for found in values if "{" + found + "}" in text}
    more = tuple(pair for name, value in params.items() if name not in named for pair in _pairs(name, value))
    return asked.made(endpoint("POST", "/campaigns/"), query=(*filled(template, values), *more))


def _series(method: str) -> Callable[[Asked], WriteRequest]:
    """The events in the repeat style (API section 4)."""
    row = endpoint(method, "/events/{eid}/series")
    return lambda asked: asked.made(row, query=_pairs(row.query[0], asked.intent.params.get("value")))


def _by_hand(asked: Asked) -> WriteRequest:
    """What a rule wrote itself, with the names of the event and its partner filled in, each as one segment."""
    params = asked.intent.params
    names = {"eid": asked.event, "partner_id": asked.partner, "client_id": str(params.get("client_id", ""))}
    query = filled_body(params.get("query"), names)
    return WriteRequest(
        host=str(params.get("host", "api")),
        method=str(params["method"]),
        path=path_of(written_path(str(params["path"])), **names),
        query=tuple(pair for name, value in query.items() for pair in _pairs(name, value))
        if isinstance(query, dict)
        else (),
        body=filled_body(params.get("body"), names),
    )


def _pairs(name: str, value: Json) -> tuple[tuple[str, str], ...]:
    """One query parameter: an array repeats its key."""
    return tuple((name, _text(one)) for one in (value if isinstance(value, list) else [value]))


def _text(value: Json) -> str:
    """A value as it stands in a query: numbers without an exponent, booleans and null as JSON spells them."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return spelled(value)
    return json.dumps(value, ensure_ascii=False)


_REQUESTS: Mapping[str, Callable[[Asked], WriteRequest]] = {
    "pause": _status("client_campaign_status"),
    "run": _status("client_campaign_status"),
    "optimisation": _status("campaign_optimisation_status"),
    "ad_optimisation": _status("ad_campaign_optimisation_status"),
    "frontend_status": _frontend_status,
    "create_draft": _draft("POST"),
    "update_draft": _draft("PUT"),
    "boost": _boost,
    "reset_setup": _reset,
    "edit_cluster": _edit_cluster,
    "create_campaign": _create_campaign,
    "series_add": _series("POST"),
    "series_remove": _series("DELETE"),
    "write": _by_hand,
}
