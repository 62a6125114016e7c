"""From config.yaml to a `Config`, or to every mistake in it at once, each with line, column and the nearest right key.

Reading the one file, and the variables above it, is all it does to the world. Secrets are resolved in a step of their
own, when somebody needs them: commands that need none run without. A value never shows itself: not in a repr, not in
an error.
"""

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import get_args

from worker.api.assumptions import ASSUMPTIONS, Objection, assumptions_from
from worker.config.addresses import embedded, is_local, listen_slip
from worker.config.models import Config, FactText, SecretPlace
from worker.ledger.places import on_a_server
from worker.model.endpoints import ENDPOINTS, row_of
from worker.model.errors import InputErrors, Problem, UsageError
from worker.model.exchange import SecretValue
from worker.rules.binding import WHAT, Loc, Mistake, Section, Slip, bind, is_null, mistake_at
from worker.rules.spelling import nearest
from worker.rules.yaml import Document, Entries, Scalar, Value, compose, not_utf8

FILE_BYTES_MAX = 1_000_000
SECRET_BYTES_MAX = 100_000
SECRET_SECTIONS = frozenset({"api", "credentials", "notify", "ledger", "web"})
"""Sections whose values are never shown: sign-ins, also those of the page, and addresses that may hold some."""
SETTING = "CAMPAIGN_WORKER__"
"""How a variable begins that sets a key: ``CAMPAIGN_WORKER__API__BASE_URL`` is ``api.base_url``."""
NO_SETTING = "CAMPAIGN_WORKER_"
_READABLE = tuple(row.path for row in ENDPOINTS if row.method == "GET" and row.host == "api" and not row.refused)


AT_TIME = timedelta(minutes=5)
"""So soon a time of ``at`` must be seen."""


def crosscheck(text: Config) -> Iterator[tuple[Loc, Slip]]:
    """What is wrong where several keys are seen together."""
    local = is_local(text.api.base_url)
    for loc, secret in text.secrets:
        if secret.literal is not None and not (local and loc[0] == "credentials"):
            only = "; a value may stand here only for the sandbox and this machine" if loc[0] == "credentials" else ""
            yield loc, Slip(f"{WHAT} must not stand in the file itself", f"write {{env: NAME}} or {{file: PATH}}{only}")
    web = text.web
    if web is not None and (wrong := listen_slip(web.listen, locked=bool(web.users or web.tokens))) is not None:
        yield ("web", "listen"), wrong
    if on_a_server(text.ledger) and text.state_dir is None:
        hint = "name a folder on this worker's own disk; it shows whether the database has forgotten anything"
        yield ("ledger",), Slip(f"{WHAT} is a database, and `state_dir` is missing", hint)
    if on_a_server(text.ledger) and embedded(text.api.base_url):
        hint = "start one with `campaign-worker sandbox`, and set `api: {base_url: …}` to its address"
        yield ("ledger",), Slip(f"{WHAT} is shared, and each worker would have an embedded sandbox of its own", hint)
    names = text.partners or ()
    for number in _told_before(names):
        yield ("partners", number), Slip(f"the partner '{names[number]}' is listed already", "list each partner once")
    called = [one.name or number for number, one in enumerate(text.notify)]
    for number in _told_before(called):
        hint = "give each a name of its own: `to` of a message means one, and what it was not told yet is kept by it"
        yield ("notify", number, "name"), Slip(f"the name '{called[number]}' is taken", hint)


def _told_before(names: Sequence[object]) -> Iterator[int]:
    """Which of them stand further up already."""
    return (number for number, name in enumerate(names) if name in names[:number])


def doubts(text: Config) -> Iterator[tuple[Loc, Slip]]:
    """What is allowed, and probably not meant so."""
    safety = text.safety
    if safety.evidence_within < safety.settle:
        hint = "nothing unknown could be proved absent in time, and each would be put before an operator"
        yield ("safety", "evidence_within"), Slip(f"{WHAT} is shorter than safety.settle", hint)
    if text.poll.interval >= safety.gap.longer_than:
        hint = "poll more often, or raise safety.gap.longer_than: as it is, every poll comes after a silence"
        yield ("poll", "interval"), Slip(f"{WHAT} is as long as what counts as a silence", hint)
    elif text.poll.interval > AT_TIME:
        hint = "a time of `at` is missed where no poll comes within five minutes of it"
        yield ("poll", "interval"), Slip(f"{WHAT} is too long for rules with `at`", hint)
    for name, fact in text.facts.items():
        path = fact.get.partition("?")[0]
        if row_of("GET", path) is None:
            close = nearest(path, _READABLE)
            hint = f"did you mean {close}?" if close else "it is asked for all the same; a 404 makes it unknown"
            yield ("facts", name, "get"), Slip(f"{WHAT}: the service's document has no GET {path}", hint)


def load_config(path: Path) -> Config:
    """The config of a file. Raises `InputErrors` with every mistake."""
    return read_config(path, _text_of(path))


def read_config(path: Path, text: str) -> Config:
    """The config of a text that stands, or would stand, in a file. Raises `InputErrors` with every mistake."""
    root = _root(path, text)
    checked, mistakes = bind(Config, root)
    warnings: list[Mistake] = []
    if checked is not None:
        wrong = {one.loc[0] for one in mistakes}
        objections = assumptions_from(checked.assumptions)[1]
        assumed = [(("assumptions", one.key), _objected(one)) for one in objections]
        mistakes += _further(root, crosscheck(checked), wrong) + _further(root, assumed, wrong, key=True)
        warnings = [replace(one, severity="warning") for one in _further(root, doubts(checked), wrong)]
    misnamed = _misnamed()
    if checked is None or mistakes or misnamed:
        raise InputErrors((*misnamed, *_in_order([*mistakes, *warnings])))
    return checked.stand_in(path, _in_order(warnings))


def _objected(one: Objection) -> Slip:
    place = "" if one.key in ASSUMPTIONS else Config.place_of(one.key)
    return Slip(one.message, f"write {place} beside `assumptions`, not under it" if place else one.hint)


def _misnamed() -> tuple[Problem, ...]:
    """Variables that would set a key had their names two underscores and capitals: who means to rehearse must not go
    live, and who sets a limit must have it."""
    assumed = (f"assumptions__{key.replace('.', '__')}" for key in ASSUMPTIONS)
    known = {path.replace("__", "_"): path for path in (*_paths(Config), *assumed)}
    found: list[Problem] = []
    for name in sorted(os.environ):
        said = name.upper().removeprefix(NO_SETTING).lower().lstrip("_")
        key = known.get(said.replace("__", "_"), said if said.split("__")[0] in known else "")
        if key and name.upper().startswith(NO_SETTING) and not name.startswith(SETTING):
            found.append(Problem(file=name, message="sets nothing", hint=f"{SETTING}{key.upper()} does", code="config"))
    return tuple(found)


def _paths(section: type[Section]) -> Iterator[str]:
    """The ways to all keys but those of secrets, whose variables anybody may call as they like."""
    for key, field in section.keys().items():
        inside = [one for one in (field.annotation, *get_args(field.annotation)) if isinstance(one, type)]
        sections = [one for one in inside if issubclass(one, Section)]
        if SecretPlace not in sections:
            yield key
            yield from (f"{key}__{inner}" for one in sections for inner in _paths(one))


def repaired(path: Path) -> Config | None:
    """The config of a file with mistakes, as far as it can be read: what is wrong is as if it were not written, and a
    fact of its own keeps its name. None where the file cannot be read at all. For looking at rules, never for running.
    """
    try:
        root = _root(path, _text_of(path))
    except InputErrors:
        return None
    config = bind(Config, root)[0] or Config()
    facts = root.get("facts") if isinstance(root, Entries) else None
    named = {
        name: FactText.model_construct(get="/{eid}") for name in (facts.named if isinstance(facts, Entries) else ())
    }
    return config.model_copy(update={"facts": {**named, **config.facts}, "assumptions": {}}).stand_in(path)


def ledger_alone(path: Path) -> Config | None:
    """The same for who needs nothing of it but where the ledger is, as `halt` does. None where that is in doubt: the
    file cannot be read, `ledger` is wrong, or a key that nobody knows may be it, where none is written or a variable
    would stand above it.
    """
    try:
        root = _root(path, _text_of(path))
    except InputErrors:
        return None
    config, mistakes = bind(Config, root)
    if config is None or any(one.loc[0] == "ledger" for one in mistakes):
        return None
    keys, misnamed = Config.keys(), any(one.file.upper().endswith("_LEDGER") for one in _misnamed())
    unknown = [one.place.document.file for one in mistakes if one.loc[0] not in keys]
    above = misnamed or any(name.startswith(SETTING) for name in unknown)
    return None if above or (unknown and "ledger" not in config.model_fields_set) else config.stand_in(path)


def _root(path: Path, text: str) -> Value:
    document = Document(file=str(path), text=text, quoted=False)
    root = compose(document)
    if root is None or (isinstance(root, Scalar) and root.is_null):
        root = Entries(document=document, named={}, start=0)
    for name in sorted(name for name in os.environ if name.startswith(SETTING)):
        if os.environ[name].strip():  # an empty one sets nothing: it must not undo what the file says
            root = _with_setting(root, name, os.environ[name])
    return root


def _with_setting(root: Value, name: str, text: str) -> Value:
    """The config with what a variable of the environment sets, written as it would be in the file. What is wrong with
    it is told at the variable."""
    document = Document(file=name, text=text, quoted=False)
    keys = name.removeprefix(SETTING).lower().split("__")
    if keys[0] == "assumptions" and keys[1:]:
        keys = [keys[0], ".".join(keys[1:])]
    nothing = Scalar(document=document, text="", plain=True, start=0, end=0)
    return _put(root, keys, compose(document) or nothing)


def _put(around: Value | None, keys: Sequence[str], value: Value) -> Value:
    if not keys:
        return value
    if not (around is None or isinstance(around, Entries) or is_null(around) or keys[0] in ("env", "file")):
        # What it says, perhaps a limit, must not be gone without a word; only a secret may be named in another way.
        message = f"sets '{keys[0]}' of what is no mapping in the file"
        raise InputErrors((value.document.problem(0, message, hint="mend the file first", code="config"),))
    if not isinstance(around, Entries):
        around = Entries(document=value.document, named={}, start=0)
    # A name of the file's own may be in capitals.
    name = {one.lower(): one for one in around.named}.get(keys[0], keys[0])
    key = around.key(name) or Scalar(document=value.document, text=name, plain=True, start=0, end=0)
    return replace(around, named={**around.named, name: (key, _put(around.get(name), keys[1:], value))})


def _further(
    root: Value, slips: Iterable[tuple[Loc, Slip]], wrong: Container[str | int], *, key: bool = False
) -> list[Mistake]:
    """More that is wrong, but not in sections that are told of already."""
    return [mistake_at(Config, root, loc, slip, key=key) for loc, slip in slips if loc[0] not in wrong]


def _in_order(mistakes: Iterable[Mistake]) -> tuple[Problem, ...]:
    problems = [replace(one.problem, code="config", source=_shown(one)) for one in mistakes]
    return tuple(sorted(dict.fromkeys(problems), key=lambda one: (one.file, one.line, one.column)))


def _shown(mistake: Mistake) -> str:
    """The line up to the value, or the key, that a finding is about; nothing where a secret could stand in it, as in
    any variable.

    Values are shown only outside of the sections that hold secrets, and only behind their own key: a line of a config
    may hold anything.
    """
    found, text = mistake.place, mistake.place.document.text
    before = text[text.rfind("\n", 0, found.start) + 1 : found.start]
    of_variable = found.document.file.startswith(SETTING)
    if of_variable or not isinstance(found, Scalar) or not found.plain or "\n" in found.text or not mistake.loc:
        return ""
    if not before.strip():
        return f"{before}{found.text}: …"
    behind_its_key = before.strip() == f"{mistake.loc[-1]}:"
    return before + found.text if behind_its_key and mistake.loc[0] not in SECRET_SECTIONS else ""


def _text_of(path: Path) -> str:
    try:
        raw = path.read_bytes()[: FILE_BYTES_MAX + 1]
    except OSError as error:
        hint = "name it with --config, or in CAMPAIGN_WORKER_CONFIG"
        if isinstance(error, FileNotFoundError):
            hint = "`campaign-worker init` writes one to start from; another one is named with --config"
        elif isinstance(error, PermissionError):
            hint = "let this user read it, or call the command as the user who runs the worker"
        raise _unreadable(path, f"the config cannot be read: {error.strerror}", hint) from None
    if len(raw) > FILE_BYTES_MAX:
        raise _unreadable(path, f"larger than {FILE_BYTES_MAX} bytes", "take out what is no config")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputErrors((not_utf8(path, error, quoted=False),)) from None


def _unreadable(path: Path, message: str, hint: str) -> InputErrors:
    return InputErrors((Problem(file=str(path), message=message, hint=hint, code="file"),))


# secrets


def resolve(secret: SecretPlace, environment: Mapping[str, str]) -> SecretValue:
    """The value of a secret. Raises `UsageError` that says what is missing, never what was found."""
    if secret.literal is not None:
        return SecretValue(secret.literal)
    if secret.env is not None:
        text = environment.get(secret.env, "").rstrip("\r\n")
        if not text or text.encode("utf-8", "replace").decode() != text:
            message = f"{secret.key}: the environment variable {secret.env} is not {'UTF-8' if text else 'set'}"
            raise UsageError(message, hint=f"export {secret.env}=…, or name another one in the config")
        return SecretValue(text)
    return SecretValue(_read(secret.key, secret.path))


def _read(key: str, file: Path) -> str:
    hint = "it must be there, hold the secret alone, and be readable for this user"
    try:
        text = file.read_bytes()[:SECRET_BYTES_MAX].decode("utf-8-sig").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        words = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"{key}: the file {file} cannot be read: {words}", hint=hint) from None
    if not text:
        raise UsageError(f"{key}: the file {file} is empty", hint=hint)
    return text
