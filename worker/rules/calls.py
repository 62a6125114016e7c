"""A request that a rule makes by hand: what may stand in it, and what of the service it may not touch.

Each part is checked where it stands; the whole is held against the document's table of endpoints, so that a rule can
neither sign in, nor call what is for administrators, nor go round the guards of an action that knows its target.
"""

import re
from collections.abc import Mapping
from urllib.parse import unquote

from worker.model.actions import ACTIONS
from worker.model.endpoints import Endpoint, Host, row_called, row_of
from worker.model.rules import Template
from worker.rules.fields import Form
from worker.rules.nearest import instead, meant
from worker.rules.yaml import Entries, Items, Scalar, Value

PLACEHOLDERS = ("eid", "partner_id", "client_id")
METHODS = ("POST", "PUT", "PATCH", "DELETE")
HOSTS: Mapping[str, Host] = {"api": "api", "cr": "cr", "media": "media"}
TASK = "/events/{eid}/client_campaign_status/task"
_PATH = re.compile(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}|\{\w*\})*)+")
_HIDDEN = re.compile(
    r"%(?:2[5fF]|5[cC]|3[bB]|[01][0-9A-Fa-f]|7[fF])|[;\\]"
    r"|%(?:2[dDeE]|3[0-9]|4[1-9A-Fa-f]|5[0-9aAfF]|6[1-9A-Fa-f]|7[0-9aAeE])|/\.{1,2}(?=/|$)"
)
"""What a proxy cuts off or takes for a part of the path; then what it spells plainly, and the segments it resolves."""
HIDDEN_HINT = "a proxy on the way could make another path of it; write the path as the document spells it"
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]+)\}")


def read_method(value: Value, what: str, form: Form) -> str | None:
    """One of the methods that write."""
    if isinstance(value, Scalar) and value.text == "GET":
        form.note(value, "a GET writes nothing", hint="name the fact that it reads in `when`, or add one under facts:")
        return None
    return form.word(value, what, METHODS)


def read_path(value: Value, what: str, form: Form) -> str | None:
    """A path below the host's base, each part of it one segment."""
    found = form.text(value, what)
    if found is None or not isinstance(value, Scalar):
        return None
    if "?" in found:
        form.note(value, f"{what} has a query", hint="write it under query:", offset=found.index("?"))
        return None
    if _resolved_elsewhere(value, what, found, form):
        return None
    return found if _well_formed(value, what, found, form) and _filled_in(value, what, form) else None


def _well_formed(value: Scalar, what: str, path: str, form: Form) -> bool:
    """Notes what keeps a path from being one, at its place."""
    begun = _PATH.match(path)
    offset, message = begun.end() if begun is not None else 0, ""
    if not path.startswith("/"):
        offset, message = 0, f"{what} is a path that begins with /"
    elif "//" in path:
        offset, message = path.index("//"), f"{what} is a path without an empty part"
    elif offset < len(path):
        sign = path[offset]
        message = f"{what} has {sign!r} in it, which is written {''.join(f'%{byte:02X}' for byte in sign.encode())}"
    if message:
        form.note(value, message, hint="as in /events/{eid}/attribution_model", offset=offset)
    return not message


def read_text_tree(value: Value, what: str, form: Form) -> bool:
    """Notes what nothing would fill in, anywhere in a query or a body."""
    if isinstance(value, Scalar):
        return _filled_in(value, what, form)
    parts = value.items if isinstance(value, Items) else tuple(part for _, part in value.entries)
    return min((read_text_tree(part, what, form) for part in parts), default=True)


def read_get(value: Value, what: str, form: Form) -> str | None:
    """What ``confirm`` reads: a path of the main API, perhaps with a query."""
    found = form.text(value, what)
    if found is None or not isinstance(value, Scalar):
        return None
    if _resolved_elsewhere(value, what, found.partition("?")[0], form):
        return None
    path = unquote(found.partition("?")[0])
    if not _well_formed(value, what, found.partition("?")[0], form):
        return None
    row = row_of("GET", path)
    if _is_auth(path) or (row is not None and not row.opened):
        form.note(value, f"{what}: the service does not let a partner read that", hint="GET what shows the effect")
        return None
    if row is not None and row.path == TASK:
        hint = "the task's state is read by `pause` and `run` themselves, and only after their PUT"
        form.note(value, f"{what} must not be a task", hint=hint)
        return None
    return found if _filled_in(value, what, form) else None


def check_call(entries: Entries, given: Mapping[str, Template], form: Form) -> str | None:
    """Notes why a request that is well written must not be made by hand; gives a warning where the document knows no
    such request."""
    method, path, host = given.get("method"), given.get("path"), HOSTS[str(given.get("host") or "api")]
    place = entries.get("path")
    if not isinstance(method, str) or not isinstance(path, str) or place is None:
        return None
    plain = unquote(path)
    if _is_auth(plain):
        form.note(place, "a rule does not sign in or out", hint="paths below /auth are the worker's own", code="path")
        return None
    row = row_called(method, plain, host)
    if row is None:
        return _unknown_call(method, plain, host)
    _refused(row, place, form)
    return None


def _refused(row: Endpoint, place: Value, form: Form) -> None:
    owners = [
        action
        for action in ACTIONS.values()
        for call in action.calls
        if (call.method, call.path, call.host) == (row.method, row.path, row.host)
    ]
    if owners:
        names = " or ".join(f"'{action.name}'" for action in owners)
        message = f"{row.method} {row.path} has an action of its own: {names}"
        form.note(place, message, hint=f"write {owners[0].example}", code="path")
    elif not row.opened:
        hint = f"leave it to them: a partner's account is told {row.refused[0]}"
        form.note(place, f"{row.method or 'this'} {row.path} is for administrators", hint=hint, code="path")
    elif row.input == "multipart":
        form.note(place, f"{row.path} takes a file, which a rule cannot send", hint="send it by hand", code="path")


def _unknown_call(method: str, path: str, host: Host) -> str:
    others = [other for other in ("GET", *METHODS) if other != method and row_of(other, path, host) is not None]
    if others:
        said = f"the service's document has {' and '.join(others)} for {path}, and no {method}"
    else:
        said = f"the service's document has no {path}" + (f" on the host {host}" if host != "api" else "")
    return f"{said}: such a write counts as one that spends, and always waits for approval"


def _is_auth(path: str) -> bool:
    return re.match(r"/auth(?:/|$)", path.lower()) is not None


def hidden_in(path: str) -> str | None:
    """What of a path only a proxy would resolve: it decodes a slash, a percent sign or a letter, cuts off what follows
    ``;`` or takes away ``/..``, and then asks for another path than the one that was judged. None where there is
    nothing of the kind."""
    found = _HIDDEN.search(path)
    return None if found is None else found[0]


def _resolved_elsewhere(value: Scalar, what: str, path: str, form: Form) -> bool:
    found = hidden_in(path)
    if found is not None:
        form.note(value, f"{what} has '{found}' in it", hint=HIDDEN_HINT, offset=value.text.find(found))
    return found is not None


def _filled_in(value: Scalar, what: str, form: Form) -> bool:
    for found in _PLACEHOLDER.finditer(value.text):
        if found[1] not in PLACEHOLDERS:
            message = f"{what}: nothing fills in {{{found[1]}}}{meant(found[1], PLACEHOLDERS)}"
            form.note(value, message, hint=instead(found[1], PLACEHOLDERS), offset=found.start())
            return False
    return True
