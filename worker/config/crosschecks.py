"""What no single key of a config can say: floors, addresses, secrets in the clear, and the names of custom facts."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal
from urllib.parse import parse_qsl, unquote

import jmespath
from jmespath.exceptions import JMESPathError

from worker.config.addresses import address_error, embedded, is_local, ledger_error, listen_error
from worker.config.sections import ConfigText, FactText, SecretText
from worker.model.endpoints import ENDPOINTS, row_of
from worker.model.facts import QUERY_VALUES
from worker.model.records import TOPICS
from worker.rules.calls import HIDDEN_HINT, hidden_in
from worker.rules.functions import FUNCTIONS, MACRO_ABOUT
from worker.rules.nearest import meant, nearest
from worker.rules.registry import BUILT_IN

PLACEHOLDERS = frozenset({"eid", "partner_id", "client_id"})
# What CEL keeps for itself; such a fact could never be named in a condition.
_RESERVED = frozenset(
    {
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"),
        *("namespace", "null", "package", "return", "true", "var", "void", "while"),
    }
)
_FACT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_READABLE = tuple(row.path for row in ENDPOINTS if row.method == "GET" and row.host == "api" and row.opened)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """One finding: the path of keys it is about, what is wrong, what to do. ``key``: it is the key that is wrong."""

    loc: tuple[str | int, ...]
    message: str
    hint: str = ""
    key: bool = False
    severity: Literal["error", "warning"] = "error"


def crosscheck(text: ConfigText) -> Iterator[Wrong]:
    """Everything that is wrong beyond single keys."""
    yield from _addresses(text)
    yield from _secrets(text)
    yield from _web(text)
    yield from _notify(text)
    yield from _durations(text)
    yield from _partners(text)
    for name, fact in text.facts.items():
        yield from _fact(name, fact)


def _addresses(text: ConfigText) -> Iterator[Wrong]:
    for key, address in (
        ("base_url", text.api.base_url),
        ("cr_url", text.api.cr_url),
        ("media_url", text.api.media_url),
    ):
        if address is None or (key == "base_url" and embedded(address)):
            continue
        wrong = address_error(address)
        if wrong is not None:
            yield Wrong(loc=("api", key), message=f"api.{key} {wrong[0]}", hint=wrong[1])
    wrong = ledger_error(text.ledger)
    if wrong is not None:
        yield Wrong(loc=("ledger",), message=f"ledger {wrong[0]}", hint=wrong[1])


def _secrets(text: ConfigText) -> Iterator[Wrong]:
    local = is_local(text.api.base_url)
    secrets: list[tuple[tuple[str | int, ...], SecretText | str, bool]] = [
        (("credentials", "username"), text.credentials.username, local),
        (("credentials", "password"), text.credentials.password, local),
        *((("notify", number, "url"), one.url, False) for number, one in enumerate(text.notify)),
    ]
    if text.web is not None:
        secrets.extend(
            (("web", "users", name, "password"), one.password, False) for name, one in text.web.users.items()
        )
        secrets.extend((("web", "tokens", name, "token"), one.token, False) for name, one in text.web.tokens.items())
    for loc, source, literal_allowed in secrets:
        dotted = ".".join(str(part) for part in loc)
        if isinstance(source, SecretText):
            if (source.env is None) == (source.file is None):
                yield Wrong(loc=loc, message=f"{dotted} is either {{env: NAME}} or {{file: PATH}}")
        elif not literal_allowed:
            hint = "write {env: NAME} or {file: PATH}; a value may stand here only for the sandbox and this machine"
            yield Wrong(loc=loc, message=f"{dotted} must not stand in the file itself", hint=hint)


def _web(text: ConfigText) -> Iterator[Wrong]:
    web = text.web
    if web is None:
        return
    wrong = listen_error(web.listen, locked=bool(web.users or web.tokens))
    if wrong is not None:
        yield Wrong(loc=("web", "listen"), message=f"web.listen {wrong[0]}", hint=wrong[1])
    for key, signing in (("users", web.users), ("tokens", web.tokens)):
        for name, one in signing.items():
            if not name.strip() or ":" in name or not name.isprintable():
                message = f"web.{key}: {name!r} is no name: it must be readable and have no colon"
                yield Wrong(loc=("web", key, name), message=message, key=True)
            if one.up_to is not None and "approve" not in one.may:
                message = f"web.{key}.{name}.up_to is of no use: {name} may not approve"
                yield Wrong(loc=("web", key, name, "up_to"), message=message, severity="warning")
    for name in web.hosts:
        if not _HOST_NAME.fullmatch(name):
            hint = "a name as it stands in the browser's address, without https:// and without a port"
            yield Wrong(loc=("web", "hosts"), message=f"web.hosts: {name!r} is no host name", hint=hint)


def _partners(text: ConfigText) -> Iterator[Wrong]:
    """Each partner once, and as it can stand in a header of HTTP."""
    names: tuple[str, ...] = () if text.partners == "discover" else tuple(text.partners)
    for number, name in enumerate(names):
        loc = ("partners", number)
        if name == "discover":
            hint = "write partners: discover, without brackets; in a list it is taken for the id of a partner"
            yield Wrong(loc=loc, message=f"partners.{number}: discover stands alone", hint=hint)
            continue
        if not name.isascii() or not name.isprintable() or " " in name:
            yield Wrong(
                loc=loc, message=f"partners.{number}: {name!r} is no partner id", hint="as in partner-id-the-hall"
            )
        elif name in names[:number]:
            yield Wrong(loc=loc, message=f"partners.{number}: {name} is listed already", hint="list each partner once")


def _notify(text: ConfigText) -> Iterator[Wrong]:
    for number, one in enumerate(text.notify):
        for topic in one.on:
            if topic not in TOPICS:
                message = f"notify.on: there is no '{topic}'{meant(topic, TOPICS)}"
                hint = "a kind or a reason of the log, an alarm of the daemon, or notify for what rules say"
                yield Wrong(loc=("notify", number, "on"), message=message, hint=hint)


def _durations(text: ConfigText) -> Iterator[Wrong]:
    safety = text.safety
    positive = {
        ("api", "timeout"): text.api.timeout,
        ("safety", "settle"): safety.settle,
        ("safety", "evidence_within"): safety.evidence_within,
        ("safety", "confirm_within"): safety.confirm_within,
        ("safety", "surge", "within"): safety.surge.within,
        ("safety", "gap", "longer_than"): safety.gap.longer_than,
    }
    for loc, found in positive.items():
        if found <= timedelta(0):
            yield Wrong(loc=loc, message=f"{'.'.join(loc)} must be longer than 0s")
    if safety.evidence_within < safety.settle:
        hint = "nothing unknown could be proved absent in time, and each would go to a person"
        message = "safety.evidence_within is shorter than safety.settle"
        loc = ("safety", "evidence_within")
        yield Wrong(loc=loc, message=message, hint=hint, severity="warning")


def _fact(name: str, fact: FactText) -> Iterator[Wrong]:
    loc = ("facts", name)
    taken = name in BUILT_IN or name in FUNCTIONS or name in MACRO_ABOUT or name in _RESERVED
    if not _FACT_NAME.fullmatch(name) or taken:
        words = "is taken" if taken else "is no name: letters, digits and _"
        yield Wrong(loc=loc, message=f"the fact's name '{name}' {words}", key=True)
    if not fact.get.startswith("/") or "://" in fact.get or fact.get.startswith("//"):
        hint = "such as /events/{eid}/statistics; the host is api.base_url"
        yield Wrong(loc=(*loc, "get"), message=f"facts.{name}.get must be a path that begins with /", hint=hint)
    hidden = hidden_in(fact.get.partition("?")[0])
    if hidden is not None:
        yield Wrong(loc=(*loc, "get"), message=f"facts.{name}.get has '{hidden}' in it", hint=HIDDEN_HINT)
    if re.match(r"/+auth(?:/|$)", unquote(fact.get).lower()):
        yield Wrong(loc=(*loc, "get"), message=f"facts.{name}.get must not be a path of /auth")
    yield from _row(name, fact)
    for placeholder in _PLACEHOLDER.findall(fact.get):
        if placeholder not in PLACEHOLDERS:
            known = ", ".join(f"{{{one}}}" for one in sorted(PLACEHOLDERS))
            message = f"facts.{name}.get: unknown placeholder {{{placeholder}}}; known: {known}"
            yield Wrong(loc=(*loc, "get"), message=message)
    try:
        jmespath.compile(fact.value)
    except (JMESPathError, RecursionError) as error:
        first = (str(error).splitlines() or ["it cannot be read"])[0]
        yield Wrong(loc=(*loc, "value"), message=f"facts.{name}.value is not a JMESPath: {first}")


def _row(name: str, fact: FactText) -> Iterator[Wrong]:
    """What the service's document says of the path: nothing, or that it turns a partner's token away."""
    loc = ("facts", name, "get")
    path, _, query = fact.get.partition("?")
    row = row_of("GET", path)
    if row is None:
        close = nearest(path, _READABLE)
        hint = f"did you mean {close}?" if close is not None else "it is asked for all the same; a 404 makes it unknown"
        message = f"facts.{name}.get: the service's document has no GET {path}"
        yield Wrong(loc=loc, message=message, hint=hint, severity="warning")
        return
    if row.refused:
        codes = " or ".join(row.refused)
        hint = "GET /integrations/adplatform/events/{eid}/campaign_results has an event's results"
        yield Wrong(
            loc=loc,
            message=f"facts.{name}.get: {row.path} turns a partner's token away ({codes})",
            hint=hint if row.path == "/campaign_results/" else "it is for administrators of the service",
        )
    given = dict(parse_qsl(query, keep_blank_values=True))
    for parameter in (one for one in row.query if one in given):
        value, allowed = given[parameter], QUERY_VALUES.get(parameter, ())
        if allowed and value not in allowed and "{" not in value:
            said = f"{parameter} is {' or '.join(allowed)}, not {value}{meant(value, allowed)}"
            yield Wrong(loc=loc, message=f"facts.{name}.get: {said}")
