"""The actions of ``do``: models made from the table of actions, so that a rule can ask for nothing that guards and
evidence do not know.

A value that begins with ``=``, at any depth, is computed when the rule fires, except where it decides what the write is
about. Here such a text stays as it is: `worker.rules.load` compiles it, with the names that its rule has.

A request that a rule makes by hand (`call`) is held against the document's table of endpoints, so that it can neither
sign in, nor call what is for administrators, nor go round the guards of an action that knows its target.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, cast
from urllib.parse import unquote

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    create_model,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue, models_json_schema
from pydantic_core import CoreSchema

from worker.model.actions import ACTIONS, EXTRA, WORDS, Action, ParamType
from worker.model.endpoints import Endpoint, Host, row_called, row_of
from worker.model.facts import Json
from worker.rules.binding import (
    NAMED,
    SPELLED,
    WHAT,
    WHOLE,
    Cel,
    Duration,
    Flag,
    Id,
    Money,
    Part,
    SchemaOfFile,
    Slip,
    Text,
    Tree,
)
from worker.rules.registry import CHANGE, ITEM, Registry
from worker.rules.spelling import instead, meant, nearest
from worker.rules.yaml import Document, Entries, Items, Scalar, Value, compose

PLACEHOLDERS = ("eid", "partner_id", "client_id")
METHODS = ("POST", "PUT", "PATCH", "DELETE")
TASK = "/events/{eid}/client_campaign_status/task"
_PATH = re.compile(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}|\{(?:\w[\w.]*)?\})*)+")
_HIDDEN = re.compile(
    r"%(?:2[5fF]|5[cC]|3[bB]|[01][0-9A-Fa-f]|7[fF])|[;\\]"
    r"|%(?:2[dDeE]|3[0-9]|4[1-9A-Fa-f]|5[0-9aAfF]|6[1-9A-Fa-f]|7[0-9aAeE])|/\.{1,2}(?=/|$)"
)
"""What a proxy cuts off or takes for a part of the path; then what it spells plainly, and the segments it resolves."""
HIDDEN_HINT = "a proxy on the way could make another path of it; write the path as the document spells it"
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][\w.]*)\}")


def check_method(value: Tree) -> Tree:
    """One of the methods that write."""
    if isinstance(value, Scalar) and value.text == "GET":
        raise Slip("a GET writes nothing", "name the fact that it reads in `when`, or add one under facts:")
    return value.text if isinstance(value, Scalar) else value


def check_path(text: str) -> str:
    """A path below the host's base, each part of it one segment."""
    if "?" in text:
        raise Slip(f"{WHAT} has a query", "write it under query:", offset=text.index("?"))
    _resolved_here(text)
    _well_formed(text)
    return filled_in(text)


def _well_formed(path: str) -> None:
    """Refuses what is no path, at the place where it ceases to be one."""
    begun = _PATH.match(path)
    offset, message = begun.end() if begun is not None else 0, ""
    if not path.startswith("/"):
        offset, message = 0, f"{WHAT} is a path that begins with /"
    elif "//" in path:
        offset, message = path.index("//"), f"{WHAT} is a path without an empty part"
    elif offset < len(path):
        sign = path[offset]
        message = f"{WHAT} has {sign!r} in it, which is written {''.join(f'%{byte:02X}' for byte in sign.encode())}"
    if message:
        raise Slip(message, "as in /events/{eid}/attribution_model", offset=offset)


def check_get(text: str) -> str:
    """What ``confirm`` reads."""
    row_read(text)
    return text


def row_read(text: str) -> Endpoint | None:
    """The row of the document that a GET is one of. Refuses what is no path of the main API, perhaps with a query; a
    path of which only a proxy would make that one; what no partner may read, and the state of a task (API section 8).
    """
    path = text.partition("?")[0]
    _resolved_here(path)
    _well_formed(path)
    row = row_of("GET", unquote(path))
    if row is not None and row.path == TASK:
        hint = "the task's state is read by `pause` and `run` themselves, and only after their PUT"
        raise Slip(f"{WHAT} must not be a task", hint)
    if row is not None and row.refused:
        hint = "it is for administrators of the service"
        if row.path == "/campaign_results/":
            hint = "GET /integrations/adplatform/events/{eid}/campaign_results has an event's results"
        raise Slip(f"{WHAT}: {row.path} turns a partner's token away ({' or '.join(row.refused)})", hint)
    if _is_auth(unquote(path)):
        raise Slip(f"{WHAT} must not be a path of /auth", "read what the service has of an event or a partner")
    filled_in(text)
    return row


def filled_in(text: str, at: Scalar | None = None) -> str:
    """A text in whose braces stands only what is filled in."""
    for found in _PLACEHOLDER.finditer(text):
        if found[1] not in PLACEHOLDERS:
            tail, hint = meant(found[1], PLACEHOLDERS), instead(found[1], PLACEHOLDERS)
            if found[1].startswith("event"):
                tail, hint = "", 'write {eid}; in a query or body other fields are computed: "=event.title"'
            raise Slip(f"{WHAT}: nothing fills in {{{found[1]}}}{tail}", hint, offset=found.start(), at=at)
    return text


def check_filled_in(value: Tree) -> Tree:
    """The same of each text in a query or a body."""
    if isinstance(value, Scalar):
        filled_in(value.text, value)
    for part in value if isinstance(value, list) else value.parts if isinstance(value, Items | Entries) else ():
        check_filled_in(part)
    return value


def check_call(method: str, path: str, host: Host, at: Value) -> None:
    """Refuses a request that is well written and must not be made by hand."""
    plain = unquote(path)
    if _is_auth(plain):
        raise Slip("a rule does not sign in or out", "paths below /auth are the worker's own", code="path", at=at)
    row = row_called(method, plain, host)
    if row is None:
        return
    owners = [action for action in ACTIONS.values() if row in action.calls]
    if owners:
        names = " or ".join(f"'{action.name}'" for action in owners)
        message = f"{row.method} {row.path} has an action of its own: {names}"
        raise Slip(message, f"write {owners[0].example}", code="path", at=at)
    if row.refused:
        hint = f"leave it to them: a partner's account is told {row.refused[0]}"
        raise Slip(f"{row.method or 'this'} {row.path} is for administrators", hint, code="path", at=at)
    if row.file:
        raise Slip(f"{row.path} takes a file, which a rule cannot send", "send it by hand", code="path", at=at)


def doubt_of_call(params: Mapping[str, object], host: Host) -> tuple[str, str] | None:
    """A warning, and its hint, where the document knows no such request, or gives it more than the rule does."""
    method, path, given = str(params["method"]), unquote(str(params["path"])), params.get("query")
    row = row_called(method, path, host)
    if row is not None:
        lacking = [name for name in row.query if not isinstance(given, dict) or name not in given]
        said = f"the service's document gives {row.method} {row.path} the query {' and '.join(lacking)}"
        return (said, f"write query: {{{lacking[0]}: …}}") if lacking else None
    others = [other for other in ("GET", *METHODS) if other != method and row_of(other, path, host) is not None]
    where = "" if host == "api" else f" on the host {host}"
    said = f"{' and '.join(others)} for {path}, and no {method}" if others else f"no {path}{where}"
    said = f"the service's document has {said}: such a write counts as one that spends, and always waits for approval"
    return said, "the service may answer 404; nothing but the paths of its document is known"


def _is_auth(path: str) -> bool:
    return re.match(r"/auth(?:/|$)", path.lower()) is not None


def _resolved_here(path: str) -> None:
    """Refuses what of a path only a proxy would resolve: it decodes a slash, a percent sign or a letter, cuts off what
    follows ``;`` or takes away ``/..``, and then asks for another path than the one that was judged."""
    found = _HIDDEN.search(path)
    if found is not None:
        raise Slip(f"{WHAT} has '{found[0]}' in it", HIDDEN_HINT, offset=found.start())


EVENT = "eid"
_OWN: Final = frozenset({EVENT, ITEM, EXTRA})
"""What is no parameter: the event is sent by itself, and the others say how parameters are meant."""
_FIXED: Final[frozenset[ParamType]] = frozenset(
    {"host", "method", "path", "flag", "confirm", "channel", "duration", "rule"}
)
"""Parameters that are never computed."""
_TAKE_NO_PATH: Final[frozenset[ParamType]] = frozenset({"number", "integer", *WORDS})
"""Parameters of which no value looks like a field of a fact."""
_FACT_PATH: Final = re.compile(r"[a-z_]+(\.[a-z_]+)+\b")
_COMPUTED: Final = {"type": "string", "pattern": "^=", "description": "CEL, computed when the rule fires"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepText:
    """One action as it is written. ``params`` are checked, but for what is computed in them; ``places``: where each
    stands. ``each``: what it goes through, and ``each_at`` where that stands. ``remind``, ``ended``: of a message, when
    it is said again, and what is said in the end."""

    action: Action
    place: Value
    params: Mapping[str, Tree] = field(default_factory=dict)
    places: Mapping[str, Value] = field(default_factory=dict)
    each: "EachText | None" = None
    each_at: Value | None = None
    remind: timedelta | None = None
    ended: Tree = None
    noun: ClassVar[str] = "an action"

    @classmethod
    def keys(cls) -> Mapping[str, FieldInfo]:
        """It may be a word, and has the keys of its action."""
        return {}

    @classmethod
    def inside(cls, part: str | int) -> Any:  # noqa: ANN401 - annotations have no common type
        """How what stands under an action's name is annotated."""
        action = ACTIONS.get(str(part))
        return None if action is None else _models(action.name, frozenset(), _Form(mapping=action.either)).inside(part)


# one parameter


def is_computed(value: Tree) -> bool:
    """Whether a value is CEL."""
    return isinstance(value, Scalar) and value.text.startswith("=")


def _or_computed(value: Tree, judge: ValidatorFunctionWrapHandler) -> Tree:
    return value if is_computed(value) else judge(value)


def _not_computed(value: Tree) -> Tree:
    if is_computed(value):
        hint = "it decides what the write is about, which must be known when the rule is read"
        raise Slip(f"{WHAT} cannot be computed", hint)
    return value


def _no_path(value: Tree, asked: ValidationInfo) -> Tree:
    """A path to a fact that stands there as words."""
    text = value.text if isinstance(value, Scalar) else ""
    if _FACT_PATH.match(text) and is_fact(text.partition(".")[0], registry_of(asked)):
        message = f"{WHAT} is given the words '{text}', and not the value of that fact"
        raise Slip(message, f'write "={text}": what begins with = is computed')
    return value


def registry_of(asked: ValidationInfo) -> Registry:
    """The names of the installation, which every file of rules is read with."""
    return cast("Registry", asked.context)


def is_fact(name: str, registry: Registry) -> bool:
    """Whether a condition could name it."""
    return name in registry.facts or name in CHANGE or name == ITEM


class ConfirmText(Part):
    """What to GET, and the condition on its answer."""

    get: Annotated[Text, AfterValidator(check_get)] = Field(
        description="what to GET of the main API", examples=["/events/{eid}"], json_schema_extra={"pattern": "^/"}
    )
    when: Cel = Field(
        description="CEL on its answer, which is called response", examples=["response.status == 'archived'"]
    )


def _query(value: Tree) -> Tree:
    if not isinstance(value, Entries):
        raise Slip(f"{WHAT} must be a mapping of names to values", f"write {WHAT}: {{name: value}}")
    return check_filled_in(value)


def _channel(text: str, asked: ValidationInfo) -> str:
    known = registry_of(asked).channels
    if known is not None and text not in known:
        hint = instead(text, known) if known else "give one entry of `notify` in the config a name: {name: ops, url: …}"
        raise Slip(f"no entry of `notify` in the config is named '{text}'{meant(text, known)}", hint)
    return text


_IDS: Final = Annotated[tuple[Annotated[Id, WrapValidator(_or_computed)], ...], Field(min_length=1)]
_TYPES: Final[Mapping[ParamType, tuple[Any, object]]] = {
    "string": (Text, "…"),
    "number": (Money, 500),
    "integer": (Annotated[int, WHOLE], 12),
    "goal": (Annotated[Literal[WORDS["goal"]], SPELLED], "ROAS"),
    # YAML 1.1 reads a bare OFF as false; editors may, the loader does not. So a schema must let both pass.
    "on_off": (
        Annotated[Literal[WORDS["on_off"]], SPELLED, WithJsonSchema({"enum": ["ON", "OFF", True, False]})],
        "OFF",
    ),
    "frontend_status": (Annotated[Literal[WORDS["frontend_status"]], SPELLED], "HIDDEN"),
    "eids": (_IDS, ["e2"]),
    "texts": (_IDS, ["rock"]),
    "any": (Any, None),
    "host": (Annotated[Host, SPELLED], "api"),
    "method": (Annotated[Literal[METHODS], BeforeValidator(check_method)], "PUT"),
    "path": (
        Annotated[Text, AfterValidator(check_path), WithJsonSchema({"type": "string", "pattern": "^/"})],
        "/events/{eid}",
    ),
    "query": (Annotated[Any, BeforeValidator(_query), WithJsonSchema({"type": "object"})], {"status": "archived"}),
    "body": (Annotated[Any, BeforeValidator(check_filled_in)], {}),
    "flag": (Flag, False),
    "channel": (Annotated[Text, AfterValidator(_channel)], "ops"),
    "duration": (Duration, "1h"),
    "rule": (Text, "pause-cancelled"),
    "confirm": (ConfirmText, {"get": "/events/{eid}", "when": "response.status == 'archived'"}),
}
"""What each type of parameter takes, and an example of it."""


_Computed = Annotated[str, WithJsonSchema(_COMPUTED)]


def _annotation(kind: ParamType) -> Any:  # noqa: ANN401 - annotations have no common type
    base = _TYPES[kind][0]
    if kind in _FIXED:
        return Annotated[base, BeforeValidator(_not_computed)]
    if kind in _TAKE_NO_PATH:
        base = Annotated[base, BeforeValidator(_no_path)]
    return Annotated[base, WrapValidator(_or_computed, json_schema_input_type=base | _Computed)]


# the parameters of one action


class GivenText(Part):
    """Keys that a table gives, which may have any name."""

    def written(self) -> dict[str, Tree]:
        """What is given, by name."""
        names = {name: field.alias or name for name, field in type(self).model_fields.items()}
        return {alias: getattr(self, name) for name, alias in names.items() if name in self.model_fields_set}


class ParamsText(GivenText):
    """The parameters of one action."""

    action: ClassVar[Action]

    @classmethod
    def about_unknown(cls, name: str) -> tuple[str, str]:
        """A parameter that neither the document nor an assumption names could be money under another name."""
        known = (*cls.action.params, ITEM) if cls.action.each else tuple(cls.action.params)
        if not cls.action.extra_params:
            return meant(name, known), instead(name, known)
        if name == EVENT:
            return meant(name, known), "leave it out: the event is sent by itself"
        if name.isdigit():
            return "", "write nothing between thousands: 1000.5"
        if name in ("where", "of") and cls.action.each:
            return meant(name, known), "write each: {of: campaigns, where: each.budget < 100.0}"
        hint = f"put it under {EXTRA}, and it is sent as it is: {EXTRA}: {{{name}: …}}"
        if near := nearest(name, known):
            hint = f"write {near}; or, where the service knows {name}, {hint}"
        return meant(name, known), hint

    @classmethod
    def about_missing(cls, name: str) -> tuple[str, str]:
        """What is said where a parameter is missing."""
        return f"'{cls.action.name}' lacks '{name}'", f"as in {cls.action.example}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """How an action is written. ``each``: what an item gives by itself need not be. ``mapping``: one that could be
    written as a single value has its parameters by name."""

    each: bool = False
    mapping: bool = False


@cache
def _models(name: str, assumed: frozenset[str], form: _Form) -> type[GivenText]:
    """The model of an action with its parameters."""
    action = ACTIONS[name]
    shown = example_of_action(action)
    own = shown[name]
    fields: dict[str, tuple[Any, Any]] = {}
    for key, param in action.params.items():
        example = own[key] if isinstance(own, dict) and key in own else _TYPES[param.type][1]
        default = ... if param.required and not (form.each and param.of_item) else None
        said = Field(alias=key, default=default, description=param.about, examples=[example])
        fields[key] = _annotation(param.type), said
    beside = {key: _EACH if key == ITEM else fields[key] for key in action.beside}
    single = action.bare is not None and not form.mapping
    value: Any = fields[str(action.bare)][0] if single else _params(action, fields | beside, assumed)
    if form.mapping:
        own = {str(action.bare): own}
    whole = {name: (value, Field(alias=name, description=action.about, examples=[own])), **beside}
    called = f"{name}_by_name" if form.mapping else name
    model: type[GivenText] = create_model(called, __base__=GivenText, **_numbered(whole))
    about = f"{action.about} — {action.example}"
    model.model_config["json_schema_extra"] = {"description": about, "examples": [dict(shown)]}
    return model


def _params(action: Action, fields: dict[str, tuple[Any, Any]], assumed: frozenset[str]) -> type[ParamsText]:
    for key in sorted(assumed - {*fields}):
        fields[key] = Any, Field(alias=key, default=None, description="an assumption gives it a value", examples=[1])
    if action.extra_params:

        def extra(key: str, asked: ValidationInfo) -> str:
            named = {registry_of(asked).cluster_budget: "write budget: cluster.budget says that it is that"}
            hints = {**(named if "budget" in action.params else {}), **dict.fromkeys(_OWN, "leave it out")}
            hints |= dict.fromkeys(action.params, "write it beside extra")
            if key in hints:
                raise Slip(f"'{key}' does not stand under {EXTRA}", hints[key], code="key")
            return key

        fields[EXTRA] = Annotated[dict[Annotated[str, AfterValidator(extra)], Any], NAMED], _EXTRA
    model: type[ParamsText] = create_model(f"{action.name}_params", __base__=ParamsText, **_numbered(fields))
    model.action = action
    return model


def _numbered(fields: Mapping[str, tuple[Any, Any]]) -> Any:  # noqa: ANN401 - as pydantic takes them
    """Fields by names that no attribute of a model has; what is written has their aliases."""
    return {f"key{number}": one for number, one in enumerate(fields.values())}


class EachText(Part):
    """The list, one write for each item of which is made."""

    of: Annotated[Literal["added", "campaigns", "clusters"], SPELLED] = Field(
        description="added: what the watched list has gained; or all campaigns, or clusters, of the event",
        examples=["campaigns"],
    )
    where: Cel | None = Field(
        default=None, description="CEL on the item, which is called each", examples=["each.budget < 100.0"]
    )

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Tree) -> Tree:
        return {"of": value} if isinstance(value, Scalar) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, inner: GetJsonSchemaHandler) -> JsonSchemaValue:
        whole = inner(schema)
        return {"anyOf": [inner.resolve_ref_schema(whole)["properties"]["of"], whole]}


_EACH: Final[tuple[Any, Any]] = (
    EachText | None,
    Field(
        alias=ITEM,
        default=None,
        description="one write for each item of a list",
        examples=["campaigns", {"of": "campaigns", "where": "each.budget < 100.0"}],
    ),
)
_EXTRA: Final[Any] = Field(
    alias=EXTRA,
    default_factory=dict,
    description="parameters that neither the document nor an assumption names; they are sent beside the others",
    examples=[{"daily_budget": 50}],
)


# one step


def step_of(value: Tree, asked: ValidationInfo) -> StepText:
    """One action of ``do``."""
    if isinstance(value, Scalar):
        action = _action(value.text, value)
        if action.shape != "word":
            raise Slip(f"'{action.name}' needs a value", f"write {action.example}")
        return StepText(action=action, place=value)
    if not isinstance(value, Entries) or not value.named:
        raise Slip(_NO_ACTION, _ONE_EACH)
    name = next((one for one in value.named if one in ACTIONS), next(iter(value.named)))
    key, inner = value.named[name]
    action = _action(name, key)
    if any(one != name and one not in action.beside for one in value.named):
        raise Slip(_NO_ACTION, _ONE_EACH)
    if action.shape == "word":
        raise Slip(f"'{name}' takes nothing", f"write {action.example}", at=inner)
    single = action.bare is not None and not (action.either and isinstance(inner, Entries))
    if single:
        given: Mapping[str, tuple[Scalar, Value]] = {str(action.bare): (key, inner)}
    elif not isinstance(inner, Entries):
        raise Slip(f"'{name}' takes a mapping", f"write {action.example}", at=inner)
    else:
        given = _flat(action, inner, value)
    each = given.get(ITEM)
    form = _Form(each=each is not None, mapping=action.either and not single)
    model = _models(name, registry_of(asked).assumed.get(name, frozenset()), form)
    found = model.model_validate(value, context=asked.context)
    if action.extra_params and each is None and not given:
        raise Slip(f"'{name}' changes nothing", f"as in {action.example}", code="missing", at=inner)
    written = found.written()
    own = written.pop(name)
    params = {str(action.bare): own} if single else {**own.written(), **written}
    of = params.get(ITEM)
    params = {**{one: part for one, part in params.items() if one not in (ITEM, EXTRA)}, **params.get(EXTRA, {})}
    if action.shown == "confirm":
        params = {"host": "api", **params}
        check_call(params["method"], params["path"], params["host"], given["path"][1])
    if not registry_of(asked).ingest and "cr" in (params.get("host"), *(call.host for call in action.calls)):
        hint = "write its address as api.cr_url in the config; the operator of the service knows it"
        raise Slip(f"'{name}' needs the event-ingest service, and api.cr_url is not set", hint, code="missing", at=key)
    places = {one: part for one, (_, part) in given.items()}
    remind, ended = (params.pop("remind", None), params.pop("ended", None)) if action.message else (None, None)
    return StepText(
        action=action,
        place=inner,
        params=params,
        places=places,
        each=of,
        each_at=None if each is None else each[0],
        remind=remind,
        ended=ended,
    )


OF_OTHER_TOOLS: Final[Mapping[str, str]] = {
    **{name: name for name in ACTIONS},
    **dict.fromkeys(("resume", "start", "unpause", "enable", "activate", "continue"), "run"),
    **dict.fromkeys(("stop", "disable", "deactivate", "turn_off", "delete_campaign", "remove_campaign"), "pause"),
    **dict.fromkeys(("email", "mail", "message", "alert", "slack", "teams", "sms", "tell", "log"), "notify"),
    **dict.fromkeys(("publish", "launch", "go_live"), "boost"),
    **dict.fromkeys(("revert", "rollback", "roll_back", "restore", "put_back", "reverse", "reset_to"), "undo"),
    **dict.fromkeys(("set_budget", "increase_budget", "decrease_budget", "change_budget", "budget"), "edit_cluster"),
    **dict.fromkeys(("edit", "update_campaign"), "edit_cluster"),
    **dict.fromkeys(("create_setup", "draft"), "create_draft"),
    **dict.fromkeys(("request", "http", "webhook", "call"), "write"),
    **dict.fromkeys(("delay", "sleep", "pause_for", "hold", "after", "later"), "wait"),
}
"""Actions that people know from other tools, and the action that does the same."""
_NO_ACTION: Final = "an action is a word, or one key with its value"
_ONE_EACH: Final = "write each action as an item of its own"


def _action(name: str, place: Scalar) -> Action:
    if name not in ACTIONS:
        # Before what is alike: resume_campaign is no create_campaign.
        if known := OF_OTHER_TOOLS.get(name.lower()) or OF_OTHER_TOOLS.get(name.lower().partition("_")[0]):
            said = f"unknown action '{name}'; here it is '{known}'"
            raise Slip(said, f"as in {ACTIONS[known].example}", code="action", at=place)
        raise Slip(f"unknown action '{name}'{meant(name, ACTIONS)}", instead(name, ACTIONS), code="action", at=place)
    return ACTIONS[name]


def _flat(action: Action, inner: Entries, whole: Entries) -> Mapping[str, tuple[Scalar, Value]]:
    """Every parameter with its place: those beside the action's name, and those under ``extra``."""
    found = {key: pair for key, pair in inner.named.items() if key != EXTRA}
    extra = inner.get(EXTRA)
    for key, pair in whole.named.items():
        if key in found:
            raise Slip(f"'{key}' is given twice", "once, among the parameters or beside the action", at=pair[0])
        if key != action.name:
            found[key] = pair
    return found | (dict(extra.named) if isinstance(extra, Entries) else {})


# the schema


def example_of(example: str, key: str) -> Json:
    """The value of a key in an example that stands in a table as an operator would write it."""
    value = compose(Document(file=key, text=example))
    found = value.get(key) if isinstance(value, Entries) else None
    if found is None:
        raise ValueError(f"the example of {key} has no {key}: {example}")
    return found.json


def example_of_action(action: Action) -> Mapping[str, Json]:
    """The action of its own example, with what stands beside it."""
    do = example_of(action.example, "do")
    mine = [one for one in do if isinstance(one, dict) and action.name in one] if isinstance(do, list) else []
    if not mine:
        raise ValueError(f"the example of {action.name} does not show it: {action.example}")
    return mine[0]


def schemas_of_actions(registry: Registry) -> dict[str, JsonSchemaValue]:
    """The definitions of one action, `action`, and of what it refers to."""
    words = [name for name, action in ACTIONS.items() if action.shape == "word"]
    about = "; ".join(f"{name}: {ACTIONS[name].about}" for name in words)
    models = [
        _models(name, registry.assumed.get(name, frozenset()), _Form(each=action.each, mapping=mapping))
        for name, action in ACTIONS.items()
        if action.shape != "word"
        for mapping in ((False, True) if action.either else (False,))
    ]
    refs, found = models_json_schema([(model, "validation") for model in models], schema_generator=SchemaOfFile)
    one = {"anyOf": [{"enum": words, "description": about}, *refs.values()], "description": "one action"}
    return {"action": one, **found["$defs"]}
