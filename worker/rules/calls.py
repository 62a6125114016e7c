"""A request that a rule makes by hand: what may stand in it, and what of the service it may not touch.

Each part is checked where it stands; the whole is held against the document's table of endpoints, so that a rule can
neither sign in, nor call what is for administrators, nor go round the guards of an action that knows its target.
"""

import re
from collections.abc import Mapping
from urllib.parse import unquote

from worker.model.actions import ACTIONS
from worker.model.endpoints import Host, row_called, row_of
from worker.rules.binding import WHAT, Slip, Tree
from worker.rules.spelling import instead, meant
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
    """What ``confirm`` reads: a path of the main API, perhaps with a query."""
    _resolved_here(text.partition("?")[0])
    path = unquote(text.partition("?")[0])
    _well_formed(text.partition("?")[0])
    row = row_of("GET", path)
    if _is_auth(path) or (row is not None and row.refused):
        raise Slip(f"{WHAT}: the service does not let a partner read that", "GET what shows the effect")
    if row is not None and row.path == TASK:
        hint = "the task's state is read by `pause` and `run` themselves, and only after their PUT"
        raise Slip(f"{WHAT} must not be a task", hint)
    return filled_in(text)


def filled_in(text: str, at: Scalar | None = None) -> str:
    """A text in whose braces stands only what is filled in."""
    for found in _PLACEHOLDER.finditer(text):
        if found[1] not in PLACEHOLDERS:
            message = f"{WHAT}: nothing fills in {{{found[1]}}}{meant(found[1], PLACEHOLDERS)}"
            raise Slip(message, instead(found[1], PLACEHOLDERS), offset=found.start(), at=at)
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


def undocumented(method: str, path: str, host: Host) -> str:
    """A warning where the document knows no such request; empty where it does."""
    path = unquote(path)
    if row_called(method, path, host) is not None:
        return ""
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


def _resolved_here(path: str) -> None:
    found = hidden_in(path)
    if found is not None:
        raise Slip(f"{WHAT} has '{found}' in it", HIDDEN_HINT, offset=path.index(found))
