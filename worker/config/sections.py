"""The sections of config.yaml, with types, bounds, defaults and words: what is read is what the schema and docs show.

Every key is described here once. Pydantic stands at this door only; from here on the values are plain and frozen.
"""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from worker.rules.durations import parse_duration

INTERVAL_MIN = timedelta(seconds=3)
LISTEN_PATTERN = r"^(\[[0-9a-fA-F:]+\]|[^:\s]+):\d{1,5}$"
DURATION_PATTERN = r"^(\d+(\.\d+)?(ms|s|m|h|d))+$"


def _duration(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise ValueError("a duration has a unit; write it as 500ms, 3s, 10m, 2h, 7d")  # noqa: TRY004 - pydantic's way
    return parse_duration(value)


def _floor(interval: timedelta) -> timedelta:
    if interval < INTERVAL_MIN:
        raise ValueError("must be 3s or more; the service asks for no faster polling")
    return interval


def _text(value: object) -> object:
    """An id of digits is read as a number by YAML; here it is a text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _quoted(value: object) -> object:
    """A bare number is a slip: no partner is called so, and 017 would be another one than 17."""
    if isinstance(value, int | float):
        raise ValueError("must be a text, as in partner-id-the-hall; a number stands in quotes")  # noqa: TRY004
    return value


Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN, "examples": ["500ms", "3s", "10m", "2h", "7d"]}),
]
Name = Annotated[str, BeforeValidator(_text), Field(min_length=1)]
PartnerName = Annotated[str, BeforeValidator(_quoted), Field(min_length=1)]
Count = Annotated[int, Field(strict=True, ge=1)]
Money = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_SECRET_SCHEMA: dict[str, Any] = {
    "oneOf": [
        {
            "type": "object",
            "required": ["env"],
            "additionalProperties": False,
            "properties": {
                "env": {
                    "type": "string",
                    "description": "the name of an environment variable",
                    "examples": ["CAMPAIGN_WORKER_PASSWORD"],
                }
            },
        },
        {
            "type": "object",
            "required": ["file"],
            "additionalProperties": False,
            "properties": {
                "file": {
                    "type": "string",
                    "description": "the path of a file that holds it, from the config's folder",
                    "examples": ["password.txt"],
                }
            },
        },
        {"type": "string", "description": "a literal; only for the sandbox and loopback"},
    ]
}


class Section(BaseModel):
    """A mapping of the file: unknown keys are errors, and nothing changes afterwards."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class SecretText(Section):
    """Where a secret is found."""

    env: Annotated[str, Field(min_length=1)] | None = Field(None, description="name of an environment variable")
    file: Annotated[str, Field(min_length=1)] | None = Field(None, description="path of a file that holds it")


SecretSource = Annotated[SecretText | Name, WithJsonSchema(_SECRET_SCHEMA)]


class Api(Section):
    """The service."""

    base_url: str = Field("sandbox", description="sandbox (the embedded twin), or https://HOST/api/v3")
    cr_url: str | None = Field(None, description="the event-ingest service; needed by the action frontend_status")
    media_url: str | None = Field(None, description="default: base_url with /api/media")
    timeout: Duration = Field(timedelta(seconds=10), description="how long one request may take")


class Credentials(Section):
    """Where the sign-in is found."""

    username: SecretSource = Field(SecretText(env="CAMPAIGN_WORKER_USERNAME", file=None), description="user name")
    password: SecretSource = Field(SecretText(env="CAMPAIGN_WORKER_PASSWORD", file=None), description="password")


class Poll(Section):
    """How often is looked."""

    interval: Annotated[Duration, AfterValidator(_floor)] = Field(
        timedelta(seconds=3), description="between two reads of one resource; 3s or more"
    )
    page_size: Annotated[int, Field(strict=True, ge=1, le=1000)] = Field(100, description="events a request asks for")


class Requests(Section):
    """What a partner may cost the service."""

    per_minute: Count = Field(
        300, description="most requests per partner, reads and writes; 429s find what the service allows"
    )


class SurgeLimit(Section):
    """How many events a rule may fire for before a person is asked."""

    events: Count = Field(25, description="distinct events")
    within: Duration = Field(timedelta(minutes=10), description="the window they are counted in")


class Spend(Section):
    """The most that may be committed as budgets, in the partner's currency."""

    per_event: Money | None = Field(None, description="for one event, ever")
    per_day: Money | None = Field(None, description="for the partner, a day")


class Gap(Section):
    """What a long silence means."""

    longer_than: Duration = Field(timedelta(hours=1), description="a silence longer than this is a gap")
    then: Literal["ask", "act", "reobserve"] = Field("ask", description="what happens at the first look after it")


class Safety(Section):
    """What keeps an effect from happening twice, and a mistake from happening often."""

    on_unknown: Literal["settle", "ask"] = Field(
        "settle", description="settle: reads decide, then a person; ask: a person"
    )
    settle: Duration = Field(timedelta(minutes=2), description="the latest that a write may still take effect")
    evidence_reads: Count = Field(3, description="reads in a row that must show a write's absence")
    evidence_within: Duration = Field(timedelta(minutes=15), description="unknown for longer goes to a person")
    confirm_within: Duration = Field(timedelta(minutes=2), description="how long reads may take to show a write")
    max_attempts: Count = Field(3, description="attempts of one write that may have left")
    writes_per_hour: Count = Field(120, description="per partner; writes that only stop spending are exempt")
    surge: SurgeLimit = Field(default_factory=lambda: SurgeLimit.model_validate({}), description="per partner and rule")
    spend: Spend = Field(default_factory=lambda: Spend.model_validate({}), description="budgets sent")
    gap: Gap = Field(default_factory=lambda: Gap.model_validate({}), description="silences")


class Observations(Section):
    """What the looks leave behind in the ledger."""

    keep: Duration = Field(
        timedelta(days=7), description="how long changes of facts are kept, which is how far `backtest` can look back"
    )


class FactText(Section):
    """A fact of the installation's own."""

    get: Annotated[str, Field(min_length=1)] = Field(description="path to GET; {eid} makes it a fact of each event")
    value: Annotated[str, Field(min_length=1)] = Field("@", description="JMESPath into the answer")


May = Annotated[
    tuple[Literal["view", "approve", "operate"], ...],
    Field(min_length=1, description="view; approve: approve and reject; operate: halt, resume and resolve"),
]
UpTo = Annotated[
    Money | None,
    Field(
        description="the most that one approved write may spend, in the partner's currency; null: any amount",
        examples=[500],
    ),
]


class WebUser(Section):
    """Somebody who signs in to the page."""

    password: SecretSource = Field(
        description="where the password is found; 12 characters or more",
        examples=[{"env": "CAMPAIGN_WORKER_PASSWORD_ANN"}],
    )
    may: May = ("view",)
    up_to: UpTo = None


class WebToken(Section):
    """A program that asks with `Authorization: Bearer`."""

    token: SecretSource = Field(
        description="where the token is found; 12 characters or more", examples=[{"env": "CAMPAIGN_WORKER_PAGE_TOKEN"}]
    )
    may: May = ("view",)
    up_to: UpTo = None


def _signs_in(value: object) -> object:
    if isinstance(value, str) or (isinstance(value, dict) and set(value) <= {"env", "file"}):
        raise ValueError("says what somebody may do, too: {password: {env: NAME}, may: [view, approve, operate]}")
    return value


class Web(Section):
    """The page."""

    listen: str = Field(description="HOST:PORT", pattern=LISTEN_PATTERN, examples=["127.0.0.1:8080"])
    users: dict[str, Annotated[WebUser, BeforeValidator(_signs_in)]] = Field(
        default_factory=dict,
        description="who may come in, and do what; none: open to this machine, and only shows",
    )
    tokens: dict[str, WebToken] = Field(
        default_factory=dict,
        description="programs that may come in, such as Prometheus, by a name for the log",
        examples=[{"prometheus": {"token": {"env": "CAMPAIGN_WORKER_PAGE_TOKEN"}}}],
    )
    hosts: tuple[Name, ...] = Field((), description="names under which the page is reached; addresses need none")

    @model_validator(mode="before")
    @classmethod
    def _one_token(cls, value: object) -> object:
        if isinstance(value, dict) and "token" in value:
            raise ValueError("token has a name now, and reads: tokens: {prometheus: {token: {env: NAME}}}")
        return value


class Notify(Section):
    """Who is told of what."""

    url: SecretSource = Field(description="an Apprise address")
    on: Annotated[tuple[Name, ...], Field(min_length=1)] = Field(description="kinds and reasons, as in the log")


def _partners(value: object) -> object:
    if value == "discover" or (isinstance(value, list | tuple) and value):
        return value
    raise ValueError("write `discover` or a list of partner ids")


class ConfigText(Section):
    """config.yaml. Durations are written 500ms, 3s, 10m, 2h or 7d; paths count from the config's folder."""

    api: Api = Field(default_factory=lambda: Api.model_validate({}), description="the service")
    credentials: Credentials = Field(
        default_factory=lambda: Credentials.model_validate({}), description="where the sign-in is found"
    )
    partners: Annotated[Literal["discover"] | tuple[PartnerName, ...], BeforeValidator(_partners)] = Field(
        "discover", description="discover, or a list of partner ids"
    )
    operator_prefix: str | None = Field(None, description="accepted beside partner-id-<slug> in discovery")
    mode: Literal["shadow", "approve", "live"] = Field("live", description="what becomes of a decision")
    poll: Poll = Field(default_factory=lambda: Poll.model_validate({}), description="how often is looked")
    requests: Requests = Field(default_factory=lambda: Requests.model_validate({}), description="budget of requests")
    rules: Annotated[str, Field(min_length=1)] = Field("rules", description="folder of the rules, or one file")
    ledger: str = Field("sqlite:///worker.db", description="where everything is remembered")
    stop_within: Duration = Field(timedelta(seconds=20), description="how long a stopping worker awaits answers")
    safety: Safety = Field(default_factory=lambda: Safety.model_validate({}), description="brakes and evidence")
    observations: Observations = Field(
        default_factory=lambda: Observations.model_validate({}), description="what the looks leave behind in the ledger"
    )
    assumptions: dict[str, Any] = Field(default_factory=dict, description="facts that you vouch for, by dotted key")
    facts: dict[str, FactText] = Field(default_factory=dict, description="facts of your own, by name")
    web: Web | None = Field(None, description="the page; null: none")
    notify: tuple[Notify, ...] = Field((), description="who is told of what")
