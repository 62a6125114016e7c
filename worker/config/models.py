"""The keys of config.yaml: types, bounds, defaults and words. What is read is what the schema and the docs show.

Every key is described here once, with what it can be checked for by itself.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias
from urllib.parse import parse_qsl

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, WithJsonSchema, model_validator

from worker.api.assumptions import ASSUMPTIONS, path_objection
from worker.config.addresses import (
    embedded,
    header_of_name,
    is_local,
    ledger_address,
    media_of,
    network,
    service_address,
)
from worker.model.commits import MESSAGE, TOPICS
from worker.model.errors import Problem
from worker.model.facts import QUERY_VALUES, CustomFact, PartnerId
from worker.rules.actions import row_read
from worker.rules.binding import (
    DURATION,
    NAMED,
    SPELLED,
    TEXT,
    WHAT,
    WHOLE,
    AnyJson,
    Count,
    Duration,
    Loc,
    Money,
    SchemaOfFile,
    Section,
    Slip,
    Span,
    Text,
    Tree,
    lasting,
    partner_id,
    section_in,
)
from worker.rules.functions import FUNCTIONS, MACRO_ABOUT
from worker.rules.registry import BUILT_IN, BUILT_IN_REGISTRY, Registry, with_custom
from worker.rules.spelling import meant, nearest
from worker.rules.yaml import Scalar

INTERVAL_MIN = timedelta(seconds=3)
TIMEOUT_MIN, TIMEOUT_MAX = timedelta(milliseconds=100), timedelta(minutes=5)
"""Shorter, and no answer comes in time; longer, and a write is in flight, and holds its target, until nobody waits for
it any more."""
# What CEL keeps for itself; such a fact could never be named in a condition.
_RESERVED = frozenset(
    {
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"),
        *("namespace", "null", "package", "return", "true", "var", "void", "while"),
    }
)
_FACT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_LISTEN = re.compile(r"(\[[0-9a-fA-F:]+\]|[^:\s]+):\d{1,5}")


# what a single key is checked for


def _listen(text: str) -> str:
    if not _LISTEN.fullmatch(text):
        meant_so = f"127.0.0.1:{text.lstrip(':')}" if text.lstrip(":").isdecimal() else "127.0.0.1:8080"
        raise Slip(f"{WHAT} must be HOST:PORT, such as 127.0.0.1:8080", f"write listen: {meant_so}")
    return text


def _host_name(text: str) -> str:
    if not _HOST_NAME.fullmatch(text):
        hint = "a name as it stands in the browser's address, without https:// and without a port"
        raise Slip(f"{WHAT}: {text!r} is no host name", hint)
    return text.lower()


def _name(text: str) -> str:
    if not text.strip() or ":" in text or not text.isprintable():
        raise Slip(f"{text!r} is no name: it must be readable and have no colon", "write another name")
    return text


def _topic(text: str) -> str:
    if text not in TOPICS:
        near = MESSAGE if "message" in text else nearest(text, TOPICS)
        hint = f"write {near}" if near else "such as needs_human, waiting or surge; docs/reference.md has all of them"
        raise Slip(f"{WHAT}: there is no '{text}'" + (f"; did you mean '{near}'?" if near else ""), hint)
    return text


def _partner(value: Tree) -> Tree:
    """A bare number is a slip: no partner is called so, and 017 would be another one than 17."""
    if isinstance(value, Scalar) and isinstance(value.json, bool | int | float):
        raise Slip(f"{WHAT} must be a text, as in partner-id-the-hall; a number stands in quotes", "put it in quotes")
    return value


def _discover(value: Tree) -> Tree:
    if isinstance(value, Scalar) and value.text == "discover":
        return None
    if isinstance(value, list) and value:
        return value
    hint = "write partners: discover, or partners: [partner-id-the-hall]"
    raise Slip(f"{WHAT}: write `discover` or a list of partner ids", hint)


def _fact_name(name: str) -> str:
    if name in BUILT_IN or name in FUNCTIONS or name in MACRO_ABOUT or name in _RESERVED:
        raise Slip(f"the fact's name '{name}' is taken", f"write another one, such as my_{name}")
    if not _FACT_NAME.fullmatch(name):
        raise Slip(f"the fact's name '{name}' is no name: letters, digits and _", "write another one, such as ad_spend")
    return name


def _get(text: str) -> str:
    """A path that a fact can be read from."""
    row = row_read(text)
    given = dict(parse_qsl(text.partition("?")[2], keep_blank_values=True))
    for parameter in (one for one in (row.query if row is not None else ()) if one in given):
        value, allowed = given[parameter], QUERY_VALUES.get(parameter, ())
        if allowed and value not in allowed and "{" not in value:
            said = f"{parameter} is {' or '.join(allowed)}, not {value}{meant(value, allowed)}"
            raise Slip(f"{WHAT}: {said}", f"write {parameter}={nearest(value, allowed) or allowed[0]}")
    return text


def _jmespath(text: str) -> str:
    if said := path_objection(text):
        raise Slip(f"{WHAT}: {said}", "write the way to the value, such as spend")
    return text


def _secret_schema() -> dict[str, Any]:
    keys = {
        "env": ("the name of an environment variable", "CAMPAIGN_WORKER_PASSWORD"),
        "file": ("the path of a file that holds it, from the config's folder", "password.txt"),
    }
    branches: list[dict[str, Any]] = [
        {
            "type": "object",
            "required": [name],
            "additionalProperties": False,
            "properties": {name: {"type": "string", "description": about, "examples": [example]}},
        }
        for name, (about, example) in keys.items()
    ]
    return {"oneOf": [*branches, {"type": "string", "description": "a literal; only for the sandbox and loopback"}]}


class SecretPlace(Section):
    """Where a secret is found: exactly one of the three. ``key`` names it in errors."""

    env: Text | None = Field(default=None, description="name of an environment variable")
    file: Text | None = Field(default=None, description="path of a file that holds it")
    literal: Text | None = Field(default=None, repr=False, description="itself")
    _key: str = PrivateAttr(default="a secret")
    _folder: Path = PrivateAttr(default=Path())

    @model_validator(mode="before")
    @classmethod
    def _itself(cls, tree: Tree) -> Tree:
        if isinstance(tree, dict) and "literal" in tree:
            raise Slip(f"{WHAT} is either {{env: NAME}} or {{file: PATH}}", "a literal stands by itself")
        return {"literal": tree} if isinstance(tree, Scalar) else tree

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if [self.env, self.file, self.literal].count(None) != 2:
            raise Slip(f"{WHAT} is either {{env: NAME}} or {{file: PATH}}", "name one place")
        return self

    def stand_in(self, key: str, folder: Path) -> None:
        """Tells it where in which config it stands, once that is read."""
        self._key, self._folder = key, folder

    @property
    def key(self) -> str:
        """Its name in errors."""
        return self._key

    @property
    def path(self) -> Path:
        """The file, from the config's folder."""
        return self._folder / (self.file or "")


SecretSource = Annotated[SecretPlace, WithJsonSchema(_secret_schema())]


class Api(Section):
    """The service."""

    base_url: Annotated[Text, AfterValidator(lambda text: text if embedded(text) else service_address(text))] = Field(
        default="sandbox", description="sandbox (the embedded simulator), or https://HOST/api/v3"
    )
    cr_url: Annotated[Text, AfterValidator(service_address)] | None = Field(
        default=None,
        description="the event-ingest service; needed by the action frontend_status",
        examples=["https://CR-HOST/api"],
    )
    media_url: Annotated[Text, AfterValidator(service_address)] | None = Field(
        default=None, description="default: base_url with /api/media", examples=["https://MEDIA-HOST/api/media"]
    )
    timeout: Annotated[timedelta, lasting(TIMEOUT_MIN, most=TIMEOUT_MAX), DURATION] = Field(
        default=timedelta(seconds=10), description="how long one request may take; from 100ms to 5m", examples=["10s"]
    )


class Credentials(Section):
    """Where the sign-in is found."""

    username: SecretSource = Field(
        default_factory=lambda: SecretPlace.model_construct(env="CAMPAIGN_WORKER_USERNAME"),
        description="user name",
        examples=[{"env": "CAMPAIGN_WORKER_USERNAME"}],
    )
    password: SecretSource = Field(
        default_factory=lambda: SecretPlace.model_construct(env="CAMPAIGN_WORKER_PASSWORD"),
        description="password",
        examples=[{"file": "password.txt"}],
    )


class Poll(Section):
    """How often is looked."""

    interval: Annotated[timedelta, lasting(INTERVAL_MIN, "; the service asks for no faster polling"), DURATION] = Field(
        default=timedelta(seconds=3), description="between two reads of one resource; 3s or more", examples=["3s"]
    )
    page_size: Annotated[int, Field(ge=1, le=1000), WHOLE] = Field(default=100, description="events a request asks for")


class Requests(Section):
    """What a partner may cost the service."""

    per_minute: Count = Field(
        default=300, description="most requests per partner, reads and writes; 429s find what the service allows"
    )


class SurgeLimit(Section):
    """How many events a rule may fire for before an operator is asked."""

    events: Count = Field(default=25, description="distinct events")
    within: Duration = Field(default=timedelta(minutes=10), description="the window they are counted in")


class Spend(Section):
    """The most that writes may add to budgets, in the partner's currency."""

    per_event: Money | None = Field(default=None, description="for one event, ever", examples=[1000])
    per_day: Money | None = Field(default=None, description="for the partner, in 24 rolling hours", examples=[5000])
    per_week: Money | None = Field(default=None, description="for the partner, in 168 rolling hours", examples=[20000])


class Gap(Section):
    """What a long silence means."""

    longer_than: Duration = Field(default=timedelta(hours=1), description="a silence longer than this is a gap")
    then: Annotated[Literal["ask", "act", "reobserve"], SPELLED] = Field(
        default="ask", description="what happens at the first poll after it"
    )


class Safety(Section):
    """What keeps an effect from happening twice, and a mistake from happening often."""

    on_unknown: Annotated[Literal["settle", "ask"], SPELLED] = Field(
        default="settle", description="settle: reads decide, then an operator; ask: an operator"
    )
    settle: Duration = Field(default=timedelta(minutes=2), description="the latest that a write may still take effect")
    evidence_reads: Count = Field(default=3, description="reads in a row that must show a write's absence")
    evidence_within: Duration = Field(
        default=timedelta(minutes=15), description="unknown for longer goes to an operator"
    )
    confirm_within: Duration = Field(
        default=timedelta(minutes=2), description="how long reads may take to show a write"
    )
    max_attempts: Count = Field(default=3, description="attempts of one write that may have left")
    writes_per_hour: Count = Field(default=120, description="per partner; writes that only stop spending are exempt")
    surge: SurgeLimit = Field(
        default_factory=SurgeLimit, description="per partner and rule", examples=[{"events": 25, "within": "10m"}]
    )
    spend: Spend = Field(
        default_factory=Spend, description="budgets sent", examples=[{"per_event": 1000, "per_day": 5000}]
    )
    gap: Gap = Field(default_factory=Gap, description="silences", examples=[{"longer_than": "1h", "then": "ask"}])


class Observations(Section):
    """What the polls leave behind in the ledger."""

    keep: Span = Field(
        default=timedelta(days=8),
        description="how long changes of facts are kept, which is how far `backtest` can look back",
    )


class FactText(Section):
    """A fact of the installation's own."""

    get: Annotated[Text, AfterValidator(_get)] = Field(
        description="path to GET; {eid} makes it a fact of each event", examples=["/events/{eid}/statistics"]
    )
    value: Annotated[Text, AfterValidator(_jmespath)] = Field(
        default="@", description="JMESPath into the answer", examples=["spend"]
    )
    every: Duration | None = Field(
        default=None,
        description="asked no more often than this; a write that depends on it takes it for fresh as long",
        examples=["10m"],
    )
    type: Annotated[Literal["number", "text", "bool", "list", "record"], SPELLED] | None = Field(
        default=None, description="what its value is; another one is unknown", examples=["number"]
    )


class Rights(Section):
    """Who may come in: what that opens, and the most that one approved write may spend."""

    may: Annotated[
        tuple[Annotated[Literal["view", "approve", "operate"], SPELLED], ...],
        Field(min_length=1, description="view; approve: approve and reject; operate: halt, resume, undo and resolve"),
    ] = ("view",)
    up_to: Money | None = Field(
        default=None,
        description="the most that one approved write may spend, in the partner's currency; null: any amount",
        examples=[500],
    )

    @model_validator(mode="before")
    @classmethod
    def _with_rights(cls, tree: Tree) -> Tree:
        if isinstance(tree, Scalar) or (isinstance(tree, dict) and tree and set(tree) <= {"env", "file"}):
            hint = f"write {{{cls.model_fields['secret'].alias}: {{env: NAME}}, may: [view]}}, or more than to view"
            raise Slip(f"{WHAT} says what somebody may do, too", hint)
        return tree

    @model_validator(mode="after")
    def _amount_to_approve(self) -> Self:
        if self.up_to is not None and "approve" not in self.may:
            hint = f"write may: [{', '.join((*self.may, 'approve'))}], or take it away"
            raise Slip(f"{WHAT}.up_to is how much somebody may approve, and this one may not", hint)
        return self


class WebUser(Rights):
    """Somebody who signs in to the page."""

    secret: SecretSource | None = Field(
        alias="password",
        default=None,
        description="where the password is found; 12 characters or more; null: only with a name from the proxy",
        examples=[{"env": "CAMPAIGN_WORKER_PASSWORD_ANN"}],
    )


class WebToken(Rights):
    """A program that asks with `Authorization: Bearer`."""

    secret: SecretSource = Field(
        alias="token",
        description="where the token is found; 12 characters or more",
        examples=[{"env": "CAMPAIGN_WORKER_PAGE_TOKEN"}],
    )


SignIn: TypeAlias = WebUser | WebToken
_SignInName = Annotated[str, AfterValidator(_name)]


class WebProxy(Section):
    """A proxy that signs people in and tells the page who they are."""

    header: Annotated[Text, AfterValidator(header_of_name)] = Field(
        description="the header with the name, which the proxy must set itself, whatever came from outside",
        examples=["X-Remote-User"],
    )
    addresses: tuple[Annotated[Text, AfterValidator(network)], ...] = Field(
        min_length=1,
        description="where the proxy asks from; whoever else sends the header is not believed",
        examples=[["10.0.0.5"]],
    )


class WebPage(Section):
    """The page: its address, who may come in, and the names under which it is reached."""

    listen: Annotated[Text, AfterValidator(_listen)] = Field(
        description="HOST:PORT", examples=["127.0.0.1:8080"], json_schema_extra={"pattern": f"^{_LISTEN.pattern}$"}
    )
    users: Annotated[dict[_SignInName, WebUser], NAMED] = Field(
        default_factory=dict,
        description="who may come in, and do what; none: open to this machine, and only shows",
        examples=[{"ann": {"password": {"env": "PAGE_PASSWORD"}, "may": ["view", "approve"], "up_to": 500}}],
    )
    tokens: Annotated[dict[_SignInName, WebToken], NAMED] = Field(
        default_factory=dict,
        description="programs that may come in, such as Prometheus, by a name for the log",
        examples=[{"prometheus": {"token": {"env": "CAMPAIGN_WORKER_PAGE_TOKEN"}}}],
    )
    hosts: tuple[Annotated[Text, AfterValidator(_host_name)], ...] = Field(
        default=(),
        description="names under which the page is reached; addresses need none",
        examples=[["worker.example"]],
    )

    proxy: WebProxy | None = Field(
        default=None,
        description="a proxy that is believed who somebody is; what they may stands under users; null: none",
        examples=[{"header": "X-Remote-User", "addresses": ["10.0.0.5"]}],
    )

    @model_validator(mode="after")
    def _each_comes_in(self) -> Self:
        without = next((name for name, user in self.users.items() if user.secret is None), None)
        if without is not None and self.proxy is None:
            raise Slip(f"{WHAT}.users.{without} has no password", "write password: {env: NAME}, or name a proxy")
        return self


class Notify(Section):
    """Who is told of what. A message of a rule that names one (`to`) goes to that one alone, whatever it is told of."""

    name: Text | None = Field(default=None, description="what `to` of a message calls it", examples=["ops"])
    url: SecretSource = Field(description="an Apprise address", examples=[{"env": "ALERT_URL"}])
    on: Annotated[tuple[Annotated[Text, AfterValidator(_topic)], ...], Field(min_length=1)] = Field(
        description="kinds and reasons, as in the log", examples=[["needs_human", "waiting", "surge"]]
    )


class Config(Section):
    """config.yaml. Durations are written 500ms, 3s, 10m, 2h or 7d; paths count from the config's folder."""

    _file: Path = PrivateAttr(default=Path("config.yaml"))
    _warnings: tuple[Problem, ...] = PrivateAttr(default=())
    noun: ClassVar[str] = "the config"
    otherwise: ClassVar[tuple[str, str]] = (
        "a config is a mapping, such as `mode: live`",
        "write key: value, a line each",
    )

    api: Api = Field(default_factory=Api, description="the service", examples=[{"base_url": "https://HOST/api/v3"}])
    credentials: Credentials = Field(
        default_factory=Credentials,
        description="where the sign-in is found",
        examples=[{"username": {"env": "CAMPAIGN_WORKER_USERNAME"}, "password": {"env": "CAMPAIGN_WORKER_PASSWORD"}}],
    )
    partners: Annotated[
        tuple[Annotated[PartnerId, TEXT, BeforeValidator(_partner), AfterValidator(partner_id)], ...] | None,
        BeforeValidator(_discover),
        WithJsonSchema(
            {
                "anyOf": [
                    {"const": "discover", "type": "string"},
                    {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
                ]
            }
        ),
    ] = Field(
        default=None,
        description="discover, or a list of partner ids",
        json_schema_extra={"default": "discover"},
        examples=["discover", ["partner-id-the-hall"]],
    )
    operator_prefix: Annotated[Text, AfterValidator(partner_id)] | None = Field(
        default=None, description="accepted beside partner-id-<slug> in discovery", examples=["operator-"]
    )
    mode: Annotated[Literal["shadow", "approve", "live"], SPELLED] = Field(
        default="live", description="what becomes of a decision"
    )
    poll: Poll = Field(
        default_factory=Poll, description="how often the service is polled", examples=[{"interval": "3s"}]
    )
    requests: Requests = Field(
        default_factory=Requests, description="request quota of each partner", examples=[{"per_minute": 300}]
    )
    rules_at: Text = Field(alias="rules", default="rules", description="folder of the rules, or one file")
    ledger: Annotated[Text, AfterValidator(ledger_address)] = Field(
        default="sqlite:///worker.db",
        description="where everything is remembered: a file, or a database that several workers share",
    )
    state_dir: Text | None = Field(
        default=None,
        description="a folder on this worker's own disk, needed with a database: what the ledger had reached",
        examples=["/var/lib/campaign-worker"],
    )
    stop_within: Span = Field(default=timedelta(seconds=20), description="how long a stopping worker awaits answers")
    safety: Safety = Field(default_factory=Safety, description="limits and evidence", examples=[{"settle": "2m"}])
    observations: Observations = Field(
        default_factory=Observations, description="what the polls leave behind in the ledger", examples=[{"keep": "8d"}]
    )
    assumptions: Annotated[dict[str, AnyJson], NAMED] = Field(
        default_factory=dict,
        description="facts that you confirm, by dotted key",
        examples=[{"client_campaign_status.semantics": "set"}],
    )
    facts: Annotated[dict[Annotated[str, AfterValidator(_fact_name)], FactText], NAMED] = Field(
        default_factory=dict,
        description="facts of your own, by name",
        examples=[{"ad_spend": {"get": "/integrations/adplatform/events/{eid}/adplatform_insights", "value": "spend"}}],
    )
    web: WebPage | None = Field(
        default=None, description="the page; null: none", examples=[{"listen": "127.0.0.1:8080"}]
    )
    notify: tuple[Notify, ...] = Field(
        default=(),
        description="who is told of what",
        examples=[[{"url": {"env": "ALERT_URL"}, "on": ["needs_human", "waiting"]}]],
    )

    @classmethod
    def about_unknown(cls, name: str) -> tuple[str, str]:
        """Of a key that stands elsewhere, how it is written there."""
        place = cls.place_of(name)
        return ("", f"write {place}") if place else super().about_unknown(name)

    @classmethod
    def place_of(cls, name: str) -> str:
        """How a key or an assumption is written at its place, named with its section or without; empty where there is
        none."""
        if name in ASSUMPTIONS:
            return f"assumptions: {{{name}: …}}"
        if cls.inside(name) is not None:
            return f"{name}: …"
        around, _, key = name.rpartition(".")
        inner = {one: section_in(field.annotation) or Section for one, field in cls.keys().items()}
        having = (one for one, section in inner.items() if around in ("", one) and section.inside(key) is not None)
        return next((f"{one}: {{{key}: …}}" for one in having), "")

    @property
    def file(self) -> Path:
        """The file it was read from."""
        return self._file

    @property
    def folder(self) -> Path:
        """The file's own, from which paths count."""
        return self._file.parent

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What is allowed, and probably not meant so."""
        return self._warnings

    @property
    def rules(self) -> Path:
        """The rules, as a path that can be opened."""
        return self.folder / self.rules_at

    @property
    def hash(self) -> str:
        """The same for all files that say the same, whatever their order, comments and defaults. Vouched for is what is
        written, also where it is the default."""
        said = {"config": self.model_dump(mode="json"), "vouched": sorted(self._confirmed_beside)}
        return sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()

    @property
    def embedded(self) -> bool:
        """The service is the embedded twin."""
        return embedded(self.api.base_url)

    @property
    def local(self) -> bool:
        """The service is the twin or on this machine: defaults nobody confirmed are enough."""
        return is_local(self.api.base_url)

    @property
    def media_url(self) -> str | None:
        """Where media is uploaded; None for the embedded twin."""
        return self.api.media_url or media_of(self.api.base_url)

    @property
    def confirmed(self) -> frozenset[str]:
        """The assumptions that the operator confirms; ``safety.settle`` is one where it is written."""
        return frozenset(self.assumptions) | self._confirmed_beside

    @property
    def _confirmed_beside(self) -> frozenset[str]:
        return frozenset({"safety.settle"} if "settle" in self.safety.model_fields_set else ())

    @property
    def own_facts(self) -> Mapping[str, CustomFact]:
        """The installation's own facts, by name."""
        return {
            name: CustomFact(name=name, get=fact.get, value=fact.value, every=fact.every, type=fact.type)
            for name, fact in self.facts.items()
        }

    @property
    def registry(self) -> Registry:
        """The names that rules can use here."""
        channels = frozenset(one.name for one in self.notify if one.name is not None)
        named = with_custom(self.own_facts, self.assumptions, channels)
        return replace(named, ingest=self.embedded or self.api.cr_url is not None)

    @property
    def secrets(self) -> Iterator[tuple[Loc, SecretPlace]]:
        """Every secret, and where it is named."""
        yield ("credentials", "username"), self.credentials.username
        yield ("credentials", "password"), self.credentials.password
        for number, one in enumerate(self.notify):
            yield ("notify", number, "url"), one.url
        for name, user in self.web.users.items() if self.web is not None else ():
            if user.secret is not None:
                yield ("web", "users", name, "password"), user.secret
        for name, token in self.web.tokens.items() if self.web is not None else ():
            yield ("web", "tokens", name, "token"), token.secret

    def stand_in(self, file: Path, warnings: tuple[Problem, ...] = ()) -> Self:
        """Tells it and its secrets where they stand."""
        self._file, self._warnings = file, warnings
        for loc, secret in self.secrets:
            key = ".".join(str(part) for part in loc).replace("notify.", "notify[").replace(".url", "].url")
            secret.stand_in(key, file.parent)
        return self


SchemaOf = Literal["config", "rules", "tests"]


def schema(of: SchemaOf, registry: Registry = BUILT_IN_REGISTRY) -> dict[str, Any]:
    """The JSON Schema of one kind of file, draft 2020-12."""
    # Their models take as long to load as all others together, and most commands read neither rules nor tests.
    from worker.rules.models import DIALECT, rules_schema  # noqa: PLC0415 - see above
    from worker.rules.tests import rule_tests_schema  # noqa: PLC0415 - see above

    if of == "rules":
        return rules_schema(registry)
    if of == "tests":
        return rule_tests_schema(registry)
    found = Config.model_json_schema(schema_generator=SchemaOfFile)
    return {"$schema": DIALECT, **found, "title": "config.yaml of campaign-worker"}
