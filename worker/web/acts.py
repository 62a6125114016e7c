"""A person's decision, from a form to the operator's own code.

What a form says is checked here, whether the one who sends it may, and the name that a password or token proved is put
beside it. The decision itself is made by the port, which is the same code that the commands use.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs

from worker.model.errors import NotFound, UsageError
from worker.rules.durations import parse_duration
from worker.web.door import Visitor
from worker.web.parts import Decisions, NotAllowed, Said

BECAUSE_MAX = 1_000
FIELDS_MAX = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What a form asks for. ``what`` is one of `WHAT`; ``ids`` are writes; ``up_to`` bounds a whole rule's writes."""

    what: str
    ids: tuple[int, ...] = ()
    rule: str = ""
    partner: str = ""
    up_to: int = 0
    lasting: str = ""
    because: str = ""
    token: str = ""
    back: str = "/"

    def allow(self, visitor: Visitor) -> None:
        """Raises `NotAllowed` for somebody who may not decide so."""
        needed, _ = WHAT[self.what]
        if needed not in visitor.may:
            raise NotAllowed(
                f"{visitor.name or 'whoever reaches this page'} may not {needed}",
                hint="web.users in the config says who may: {password: …, may: [view, approve, operate]}",
            )

    def do(self, decisions: Decisions, visitor: Visitor) -> tuple[str, ...]:
        """Decides, and says what was done. Raises `WorkerError` where nothing was."""
        if not self.because:
            raise UsageError("say why", hint="it is kept in the log, and an auditor will read it")
        said = Said(because=self.because, by=f"{visitor.name} (page)", up_to=visitor.up_to)
        _, does = WHAT[self.what]
        return does(self, decisions, said)


def act_of(body: str) -> Act:
    """The decision of a form. Raises `UsageError` for what is no decision."""
    try:
        given = parse_qs(body, keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError as error:
        raise UsageError("the form has too many fields", hint="decide fewer writes at once") from error
    what = _one(given, "what")
    if what not in WHAT:
        raise UsageError("the form does not say what to do", hint="go back and press one of its buttons")
    return Act(
        what=what,
        ids=tuple(dict.fromkeys(_number(text) for text in given.get("id", []))),
        rule=_one(given, "rule"),
        partner=_one(given, "partner"),
        up_to=_number(_one(given, "up_to") or "0"),
        lasting=_one(given, "lasting"),
        because=_one(given, "because")[:BECAUSE_MAX],
        token=_one(given, "token"),
        back=_one(given, "back") or "/",
    )


def _approve(act: Act, decisions: Decisions, said: Said) -> tuple[str, ...]:
    return decisions.approve(_meant(act, decisions), said)


def _reject(act: Act, decisions: Decisions, said: Said) -> tuple[str, ...]:
    return decisions.reject(_meant(act, decisions), said)


def _applied(act: Act, decisions: Decisions, said: Said) -> tuple[str, ...]:
    return decisions.resolve(act.ids, said, applied=True)


def _not_applied(act: Act, decisions: Decisions, said: Said) -> tuple[str, ...]:
    return decisions.resolve(act.ids, said, applied=False)


def _halt(act: Act, decisions: Decisions, said: Said) -> tuple[str, ...]:
    try:
        lasting = parse_duration(act.lasting) if act.lasting else None
    except ValueError as error:
        raise UsageError(f"for how long: {error}", hint="leave it empty to halt until somebody resumes") from error
    return decisions.halt(said, partner=act.partner, rule=act.rule, lasting=lasting)


def _resume(act: Act, decisions: Decisions, said: Said) -> tuple[str, ...]:
    return decisions.resume(said, partner=act.partner, rule=act.rule)


def _meant(act: Act, decisions: Decisions) -> tuple[int, ...]:
    """The writes by number, or all of a rule that the person has seen."""
    if not act.rule:
        return act.ids
    found = decisions.waiting_of(act.rule, up_to=act.up_to)
    if not found:
        raise NotFound(f"rule {act.rule} has no write that waits any more", hint="look again")
    return found


WHAT: Mapping[str, tuple[str, Callable[[Act, Decisions, Said], tuple[str, ...]]]] = {
    "approve": ("approve", _approve),
    "reject": ("approve", _reject),
    "applied": ("operate", _applied),
    "not_applied": ("operate", _not_applied),
    "halt": ("operate", _halt),
    "resume": ("operate", _resume),
}
"""What somebody must be allowed to for each, and what does it."""


def _one(given: Mapping[str, list[str]], name: str) -> str:
    return given.get(name, [""])[-1].strip()


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise UsageError(f"{text[:40]!r} is no number of a write", hint="go back and reload")
    return int(text)
