"""The request of each write: pure, from what the document says and what the operator vouches for.

The same intent gives the same request, byte for byte, so that what was approved, what was logged and what is sent
cannot differ. Headers and credentials are not in it: the client adds them when it sends.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import parse_qsl, quote

import httpx

from worker.api.assumptions import Assumptions, path_objection
from worker.api.decoding import (
    Asking,
    Decoder,
    adplatform_fact,
    benchmark_fact,
    budget_range_fact,
    campaigns_fact,
    clusters_fact,
    defaults_fact,
    event_fact,
    expected_value_fact,
    list_fact,
    open_fact,
    partner_fact,
    radius_fact,
    setup_fact,
    suggested_tcs_fact,
)
from worker.api.wire import Malformed, found_at, leaf_of, lists_in, must_be_whole
from worker.model.actions import ACTIONS
from worker.model.endpoints import Endpoint, endpoint
from worker.model.errors import UsageError
from worker.model.exchange import WriteRequest
from worker.model.facts import EventId, Fact, FactKey, Json, PartnerId, Scalar
from worker.model.writes import Intent

# From names to the bytes on the wire: hosts, path segments, queries, and a URL that nobody normalises afterwards.
#
# An event id or a taste cluster may hold a slash, a dot, an ampersand or any script; each must arrive as one segment.
# HTTP libraries like to help with that, and a helpful one that resolves ``..`` sends a write to another resource. So
# the target is built here, byte by byte, and a library that would change it is refused before anything is sent.

_BASE = re.compile(r"https?://[^/?#@\s]+(?:/[^?#\s]*)?")
URLS_KEPT = 4096
_DOTS = {".": "%2E", "..": "%2E%2E"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """Where the three hosts of the document are (API section 1), without a slash at the end."""

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


def hosts_from(base_url: str, cr_url: str | None = None, media_url: str | None = None) -> Hosts:
    """The hosts of a config. Raises `UsageError` for an address that cannot be one."""
    api = _base("api.base_url", base_url)
    media = _base("api.media_url", media_url) if media_url is not None else re.sub(r"/v\d+$", "/media", api)
    return Hosts(api=api, cr=_base("api.cr_url", cr_url) if cr_url is not None else None, media=media)


def segment(text: str) -> str:
    """One path segment, whatever is in it. ``.`` and ``..`` are spelled out, or they would mean a place."""
    return _DOTS.get(text) or quote(text, safe="", errors="replace")


def path_of(template: str, **names: str) -> str:
    """A path of the document with its names filled in."""
    for name, text in names.items():
        template = template.replace("{" + name + "}", segment(text))
    return template


def query_text(query: Iterable[tuple[str, str]]) -> str:
    """A query in the repeat style: the same key again for each value of an array (API section 4)."""
    return "&".join(
        f"{quote(name, safe='', errors='replace')}={quote(value, safe='', errors='replace')}" for name, value in query
    )


def target_of(path: str, query: Iterable[tuple[str, str]] = ()) -> str:
    """Path and query as they go over the wire, and as the log shows them."""
    text = query_text(query)
    return f"{path}?{text}" if text else path


@lru_cache(maxsize=URLS_KEPT)
def exact_url(base: str, target: str) -> httpx.URL:
    """A URL whose target is sent as it stands. Raises `UsageError` where the library would send another one.

    Reads ask for the same again and again, and taking an address apart and together takes longer than most answers."""
    root = httpx.URL(base)
    raw = root.raw_path.rstrip(b"/") + target.encode("ascii")
    url = root.copy_with(raw_path=raw)
    if url.raw_path != raw:
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


def _base(key: str, text: str) -> str:
    if not _BASE.fullmatch(text):
        raise UsageError(
            f"{key}: {_without_password(text)!r} is not an address",
            hint="an address is https://HOST/PATH, with no user name, no password and no query in it",
        )
    try:
        httpx.URL(text)
    except httpx.InvalidURL as error:
        raise UsageError(f"{key}: {error}", hint="an address is https://HOST/PATH") from None
    return text.rstrip("/")


def _without_password(text: str) -> str:
    return re.sub(r"//[^/@]*@", "//…@", text)


# Each fact that the worker can read: the request that asks for it, and what its answer means. Pure.
#
# One table, from the fact's name to its row of the document, its parameters and its decoder, so that a new fact is one
# row. Facts of the operator's own making go through the same door.

CONFIRM = "confirm"
"""The name of a fact that no table has: what a write's own ``confirm`` reads."""
PLACEHOLDERS: frozenset[str] = frozenset({"eid", "partner_id", "client_id"})
"""What is filled in where a fact of the operator's own names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One fact: its path, its query parameters and its decoder. ``per_event``: whether the path names an event."""

    path: str
    query: tuple[tuple[str, str], ...] = ()
    params: tuple[str, ...] = ()
    decode: Decoder

    @property
    def per_event(self) -> bool:
        """Whether it takes an event to ask."""
        return self.names("eid")

    def names(self, placeholder: str) -> bool:
        """Whether a placeholder stands in it."""
        return any(f"{{{placeholder}}}" in text for text in (self.path, *(text for _, text in self.query)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A reading made concrete: what goes on the wire. ``path`` is encoded, ``query`` is not. ``params``: the fact's own
    parameters. ``shared``: nothing in it names an event, so that several events may ask the very same."""

    path: str
    query: tuple[tuple[str, str], ...]
    decode: Decoder
    params: tuple[tuple[str, Scalar], ...] = ()
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomFact:
    """A fact of the operator's own: what to GET, with {eid}, {partner_id} and {client_id} filled in, and a JMESPath
    into its answer."""

    name: str
    get: str
    value: str


def decoded(question: Question, value: Json, asking: Asking) -> Fact:
    """What an answer says. Never raises."""
    try:
        return question.decode(value, asking)
    except Malformed as error:
        return asking.unknown(error)


def question_for(
    readings: Mapping[str, Reading], partner: PartnerId, event: EventId | None, key: FactKey, client: str = ""
) -> Question | str:
    """The request of a fact; a text says why it has none. ``client``: the partner's internal id, for {client_id}."""
    if key.name == CONFIRM:
        return _confirmation(partner, event, dict(key.params))
    reading = readings.get(key.name)
    if reading is None:
        return f"there is no fact {key.name}"
    if reading.per_event and event is None:
        return f"{key.name} is read for one event"
    given = dict(key.params)
    if lacking := [name for name in reading.params if name not in given]:
        return f"{key.name} needs {' and '.join(lacking)}"
    asked = tuple((name, spelled(given[name])) for name in reading.params)
    names = {"eid": event or "", "partner_id": partner, "client_id": client}
    fixed = tuple((name, filled_text(text, names)) for name, text in reading.query)
    return Question(
        path=path_of(reading.path, **names),
        query=(*fixed, *asked),
        decode=reading.decode,
        params=key.params,
        shared=not reading.per_event,
    )


def _confirmation(partner: PartnerId, event: EventId | None, given: Mapping[str, Scalar]) -> Question:
    """What a rule's own ``confirm`` reads. Its answer is a fact as it is, with its status: what it says of the write is
    for the rule's condition to tell; of a part of a list it could tell nothing."""
    path, _, query = str(given["get"]).partition("?")
    names = {"eid": event or "", "partner_id": partner, "client_id": str(given.get("client_id", ""))}

    def decode(value: Json, asking: Asking) -> Fact:
        for items in lists_in(value):
            must_be_whole(leaf_of(items, value, asking.headers), "a list that confirm reads")
        return asking.known({"status": asking.trace.status, "body": value})

    return Question(
        path=path_of(written_path(path), **names),
        query=tuple((name, filled_text(text, names)) for name, text in parse_qsl(query, keep_blank_values=True)),
        decode=decode,
    )


def written_path(path: str) -> str:
    """A path as somebody wrote it, with what no address may hold spelled out; its placeholders stay."""
    return quote(path, safe="/%{}:@!$&'()*+,;=-._~")


def spelled(value: Scalar) -> str:
    """A parameter as it goes into a query: 500.0 as 500, and no exponents."""
    if isinstance(value, str):
        return value
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def custom_objection(fact: CustomFact) -> str | None:
    """What is wrong with a fact of the config; None where nothing is."""
    if not fact.get.startswith("/"):
        return "get is a path of the service that begins with /"
    if unknown := [name for name in re.findall(r"\{([^{}]*)\}", fact.get) if name not in PLACEHOLDERS]:
        return f"nothing fills in {{{unknown[0]}}} in get"
    said = path_objection(fact.value)
    return None if said is None else f"value: {said}"


def readings_with(custom: Mapping[str, CustomFact]) -> Mapping[str, Reading]:
    """All facts by name: the documented ones and the operator's own."""
    return MappingProxyType({**READINGS, **{name: _custom(fact) for name, fact in custom.items()}})


def _custom(fact: CustomFact) -> Reading:
    path, _, query = fact.get.partition("?")

    def decode(value: Json, asking: Asking) -> Fact:
        found = found_at(fact.value, value)
        if found is None:
            raise Malformed(f"{fact.value} finds nothing, or null, in the answer")
        return asking.known(found)

    return Reading(
        path=written_path(path),
        query=tuple(parse_qsl(query, keep_blank_values=True)),
        decode=decode,
    )


def _documented(path: str, decode: Decoder = open_fact, *, without: tuple[str, ...] = (), **fixed: str) -> Reading:
    """A row of the document, asked with all its parameters but those that are optional or always the same."""
    params = tuple(name for name in endpoint("GET", path).query if name not in fixed and name not in without)
    return Reading(path=path, query=tuple(fixed.items()), params=params, decode=decode)


READINGS: Mapping[str, Reading] = MappingProxyType(
    {
        "event": _documented("/events/{eid}", event_fact),
        "partner": _documented("/partners/", partner_fact),
        "setup": _documented("/setup_processes/{eid}", setup_fact),
        "suggested_tcs": _documented("/events/{eid}/suggested_tcs", suggested_tcs_fact),
        "clusters": _documented("/events/{eid}/clusters", clusters_fact),
        "expected_value": _documented("/events/{eid}/campaigns_expected_value", expected_value_fact),
        "defaults": _documented("/events/{eid}/default_campaigns_parameters", defaults_fact),
        "budget_range": _documented("/events/{eid}/budget_min_max", budget_range_fact),
        "campaigns": _documented("/events/{eid}/campaigns", campaigns_fact),
        "permissions": _documented("/permissions", list_fact),
        "features": _documented("/features", list_fact),
        "adplatform": _documented("/integrations/connect/adplatform/status", adplatform_fact),
        "statistics": _documented("/events/{eid}/statistics"),
        "tenant_statistics": _documented("/events/statistics"),
        "lookout_prediction": _documented("/events/{eid}/lookout_prediction"),
        "lookout_prediction_benchmark": _documented("/events/{eid}/lookout_prediction_benchmark", benchmark_fact),
        "daily_revenue_summary": _documented("/daily_revenue_summary/", event_id="{eid}"),
        "tickets": _documented("/events/{eid}/tickets"),
        "series": _documented("/events/{eid}/series"),
        "available_events_for_series": _documented("/events/{eid}/available_events_for_series"),
        "flagged_events": _documented("/events/flagged/"),
        "venues": _documented("/events/venues", without=("city", "venue")),
        "call_to_action": _documented("/setup_processes/call_to_action/", list_fact),
        "suggested_radius": _documented("/adplatform_targeting/suggested_radius", radius_fact),
        "event_types": _documented("/setup_processes/event_types"),
        "campaign_results": _documented("/integrations/adplatform/events/{eid}/campaign_results"),
        "adplatform_insights": _documented("/integrations/adplatform/events/{eid}/adplatform_insights"),
        "attribution_model": _documented("/events/{eid}/attribution_model"),
    }
)


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
