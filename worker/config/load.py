"""From config.yaml to a `Config`, or to every mistake in it at once, each with line, column and the nearest right key.

The file is walked with places first and given to pydantic as plain values; what pydantic finds is put back at its place
and in our words. What spans several keys (literals only for the sandbox, floors, addresses) is checked as well. Reading
the one file is all it does to the world.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from worker.config.addresses import embedded, host_and_port, is_local, ledger_error, media_of
from worker.config.crosschecks import Wrong, crosscheck
from worker.config.places import Places, given, pydantic_problem
from worker.config.secrets import Secret
from worker.config.sections import (
    Api,
    ConfigText,
    Observations,
    Poll,
    Requests,
    Safety,
    SecretText,
    Web,
    WebToken,
    WebUser,
)
from worker.model.errors import InputErrors, Problem
from worker.model.exchange import SecretValue
from worker.model.facts import Json, PartnerId
from worker.model.writes import Mode
from worker.rules.registry import CustomFact, Registry, with_custom
from worker.rules.yaml import Document, Entries, Scalar, compose

FILE_BYTES_MAX = 1_000_000
NOT_YET_USED: Mapping[str, str] = {
    "api.media_url": "nothing in this version uploads media",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """One finding of the register of assumptions: which key, what is wrong, what to do."""

    key: str
    message: str
    hint: str = ""


AssumptionCheck = Callable[[Mapping[str, Json]], Iterable[Assumed]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Who is told of what: an Apprise address, and topics."""

    url: Secret
    on: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """Who may come in: where the secret is found, what it opens, and the most that one approved write may spend."""

    secret: Secret
    may: frozenset[str]
    up_to: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPage:
    """The page's address, who may come in, and the names under which it is reached."""

    host: str
    port: int
    users: Mapping[str, SignIn]
    tokens: Mapping[str, SignIn]
    hosts: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A checked config. ``folder`` is the config's own, from which paths count; ``rules`` is a path that can be opened.

    ``ledger`` is the address as written. ``written`` holds the dotted keys that the file gives. ``hash`` is the same
    for all files that say the same, whatever their order, comments and defaults.
    """

    file: Path
    folder: Path
    api: Api
    username: Secret
    password: Secret
    partners: tuple[PartnerId, ...] | None
    operator_prefix: str | None
    mode: Mode
    poll: Poll
    requests: Requests
    rules: Path
    ledger: str
    stop_within: timedelta
    safety: Safety
    observations: Observations
    assumptions: Mapping[str, Json]
    facts: Mapping[str, CustomFact]
    web: WebPage | None
    notify: tuple[Told, ...]
    written: frozenset[str]
    hash: str
    warnings: tuple[Problem, ...] = ()

    @property
    def embedded(self) -> bool:
        """The service is the embedded twin."""
        return embedded(self.api.base_url)

    @property
    def local(self) -> bool:
        """The service is the twin or on this machine: defaults nobody vouched for are enough."""
        return is_local(self.api.base_url)

    @property
    def media_url(self) -> str | None:
        """Where media is uploaded; None for the embedded twin."""
        return self.api.media_url or media_of(self.api.base_url)

    @property
    def vouched(self) -> frozenset[str]:
        """The assumptions that the operator vouches for; ``safety.settle`` is one where it is written."""
        return frozenset(self.assumptions) | ({"safety.settle"} & self.written)

    @property
    def registry(self) -> Registry:
        """The names that rules can use here."""
        return with_custom(self.facts, self.assumptions)

    def unused_keys(self) -> Mapping[str, str]:
        """Keys that the file sets and this version does not use yet, with why; for `run` and `check` to say. Not of the
        addresses that the sandbox prints for every client: whoever copies them has done nothing that is in vain."""
        if self.api.media_url is not None and is_local(self.api.media_url):
            return {}
        return {key: why for key, why in NOT_YET_USED.items() if key in self.written}


def load_config(path: Path, check_assumptions: AssumptionCheck = lambda _given: ()) -> Config:
    """The config of a file. Raises `InputErrors` with every mistake."""
    return read_config(path, _text_of(path), check_assumptions)


def read_config(path: Path, text: str, check_assumptions: AssumptionCheck = lambda _given: ()) -> Config:
    """The config of a text that stands, or would stand, in a file. Raises `InputErrors` with every mistake."""
    document = Document(file=str(path), text=text, quoted=False)
    value = compose(document)
    if isinstance(value, Scalar) and value.is_null:
        value = None
    if value is not None and not isinstance(value, Entries):
        raise InputErrors(
            (document.problem(value.start, "a config is a mapping, such as `mode: live`", code="config"),)
        )
    places = Places(document, value)
    checked, found = _validated({} if value is None else given(value))
    wrong_sections = {str(one["loc"][0]) for one in found}
    wrong = [pydantic_problem(places, one) for one in found] + [
        replace(places.problem(one.loc, one.message, one.hint, key=one.key), severity=one.severity)
        for one in (*crosscheck(checked), *_assumed(checked, check_assumptions))
        if one.loc[0] not in wrong_sections
    ]
    if any(one.severity == "error" for one in wrong):
        raise InputErrors(_in_order(wrong))
    return replace(_config(path, checked, places.written()), warnings=_in_order(wrong))


def repaired(path: Path) -> Config | None:
    """The config of a file with mistakes, as far as it can be read: what is wrong is as if it were not written, and a
    fact of its own keeps its name. None where the file cannot be read at all. For looking at rules, never for running.
    """
    try:
        values = _given_in(path) or {}
    except InputErrors:
        return None
    values.pop("assumptions", None)
    return _config(path, _validated(values)[0], frozenset())


def ledger_alone(path: Path) -> Config | None:
    """The same for who needs nothing of it but where the ledger is, as `halt` does. None where the file leaves that in
    doubt: it cannot be read, `ledger` is wrong, or is not written beside a key that nobody knows and that may be it.
    """
    try:
        values = _given_in(path)
    except InputErrors:
        return None
    if values is None:
        return None
    checked, found = _validated(values)
    wrong = {str(one["loc"][0]) for one in found}
    unknown = set(values) - set(ConfigText.model_fields)
    if "ledger" in wrong or ledger_error(checked.ledger) is not None or ("ledger" not in values and unknown):
        return None
    return _config(path, checked, frozenset())


def _given_in(path: Path) -> dict[str, Json] | None:
    """What the file gives, unchecked; None where it is no mapping. Raises `InputErrors` where it cannot be read."""
    root = compose(Document(file=str(path), text=_text_of(path), quoted=False))
    return given(root) if isinstance(root, Entries) else None


def _validated(values: dict[str, Json]) -> tuple[ConfigText, list[ErrorDetails]]:
    """The config of these values without the sections that are wrong, and what is wrong with them."""
    first: list[ErrorDetails] = []
    while True:
        try:
            return ConfigText.model_validate(values), first
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False)
        first = first or found
        wrong = {str(one["loc"][0]) for one in found}
        facts = values.get("facts")
        if "facts" in wrong and isinstance(facts, dict) and facts != _named_only(facts):
            values = {**values, "facts": _named_only(facts)}
            wrong.remove("facts")
        values = {name: value for name, value in values.items() if name not in wrong}


def _named_only(facts: Mapping[str, Json]) -> dict[str, Json]:
    return {name: {"get": "/{eid}"} for name in facts}


def _config(path: Path, text: ConfigText, written: frozenset[str]) -> Config:
    folder = path.parent
    partners = None if text.partners == "discover" else tuple(PartnerId(name) for name in text.partners)
    return Config(
        file=path,
        folder=folder,
        api=text.api,
        username=_secret("credentials.username", text.credentials.username, folder),
        password=_secret("credentials.password", text.credentials.password, folder),
        partners=partners,
        operator_prefix=text.operator_prefix,
        mode=text.mode,
        poll=text.poll,
        requests=text.requests,
        rules=folder / text.rules,
        ledger=text.ledger,
        stop_within=text.stop_within,
        safety=text.safety,
        observations=text.observations,
        assumptions=text.assumptions,
        facts={name: CustomFact(name=name, get=fact.get, value=fact.value) for name, fact in text.facts.items()},
        web=None if text.web is None else _web(text.web, folder),
        notify=tuple(
            Told(url=_secret(f"notify[{place}].url", one.url, folder), on=frozenset(one.on))
            for place, one in enumerate(text.notify)
        ),
        written=written,
        hash=_hash(text, written),
    )


def _hash(text: ConfigText, written: frozenset[str]) -> str:
    """Vouched for is what is written, also where it is the default."""
    said = {"config": text.model_dump(mode="json"), "vouched": sorted({"safety.settle"} & written)}
    return sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def _web(text: Web, folder: Path) -> WebPage:
    host, port = host_and_port(text.listen)

    def signs_in(key: str, source: SecretText | str, one: WebUser | WebToken) -> SignIn:
        return SignIn(secret=_secret(key, source, folder), may=frozenset(one.may), up_to=one.up_to)

    return WebPage(
        host=host,
        port=port,
        users={name: signs_in(f"web.users.{name}.password", one.password, one) for name, one in text.users.items()},
        tokens={name: signs_in(f"web.tokens.{name}.token", one.token, one) for name, one in text.tokens.items()},
        hosts=frozenset(name.lower() for name in text.hosts),
    )


def _secret(key: str, source: SecretText | str, folder: Path) -> Secret:
    if isinstance(source, str):
        return Secret(key=key, literal=SecretValue(source))
    return Secret(key=key, env=source.env, file=None if source.file is None else folder / source.file)


def _assumed(text: ConfigText, check: AssumptionCheck) -> list[Wrong]:
    """Findings of the register of assumptions, which this layer does not know, at the keys they are about."""
    return [
        Wrong(loc=("assumptions", one.key), message=one.message, hint=one.hint, key=True)
        for one in check(text.assumptions)
    ]


def _in_order(problems: list[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(dict.fromkeys(problems), key=lambda one: (one.line, one.column)))


def _text_of(path: Path) -> str:
    try:
        raw = path.read_bytes()[: FILE_BYTES_MAX + 1]
    except OSError as error:
        hint = "name it with --config, or in CAMPAIGN_WORKER_CONFIG"
        if isinstance(error, PermissionError):
            hint = "let this user read it, or call the command as the user who runs the worker"
        message = f"the config cannot be read: {error.strerror}"
        raise InputErrors((Problem(file=str(path), message=message, hint=hint, code="file"),)) from None
    if len(raw) > FILE_BYTES_MAX:
        raise InputErrors((Problem(file=str(path), message=f"larger than {FILE_BYTES_MAX} bytes", code="file"),))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        message = f"is not UTF-8: byte {error.start + 1}, on line {line}, cannot be read"
        hint = "save it as UTF-8, which editors offer under `encoding`"
        raise InputErrors((Problem(file=str(path), message=message, hint=hint, code="file"),)) from None
