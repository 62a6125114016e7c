"""What comes to the twin and what goes back, without a socket in sight.

A request is the few things that matter to the service; a delivery is a closed union, because a broken connection and
an answer that never comes are outcomes of their own and not strange answers. Paths stay percent-encoded until they
are split, so that an id that holds a slash is still one segment.

Never reads a clock, never decides anything, never imports a web framework.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias
from urllib.parse import unquote

Json: TypeAlias = object
Record: TypeAlias = Mapping[str, Json]
Pairs: TypeAlias = tuple[tuple[str, str], ...]
Host = Literal["api", "cr", "media"]
HOSTS: tuple[Host, ...] = ("api", "cr", "media")
SIGN_IN_PATH = "/auth"


@dataclass(frozen=True, kw_only=True, slots=True)
class TwinRequest:
    """One request: `path` is raw and relative to its host's base; header names are lower-case."""

    method: str
    host: Host
    path: str
    query: Pairs = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def partner(self) -> str:
        return self.headers.get("x-preferred-partner-id", "")

    @property
    def is_read(self) -> bool:
        return self.method in ("GET", "HEAD", "OPTIONS")

    @property
    def is_sign_in(self) -> bool:
        return self.host == "api" and self.path.split("/")[1:2] == ["auth"]

    @property
    def segments(self) -> tuple[str, ...]:
        return _segments(self.path)

    @property
    def resource(self) -> tuple[str, ...]:
        """What makes two reads the same read: the partner, the place and the query, however it was ordered."""
        return (self.partner, self.host, *self.segments, "?", *(f"{key}={value}" for key, value in sorted(self.query)))

    @property
    def identity(self) -> str:
        """What makes two writes the same write. Spelling (encoding, order of keys) does not make them different."""
        return json.dumps([self.method, *self.resource, canonical_body(self.body)], ensure_ascii=False)


@lru_cache(maxsize=1024)
def _segments(path: str) -> tuple[str, ...]:
    return tuple(unquote(part) for part in path.split("/")[1:])


def canonical_body(body: bytes) -> str:
    try:
        return json.dumps(json.loads(body), sort_keys=True, ensure_ascii=False)
    except (ValueError, RecursionError):
        return body.hex()


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A whole HTTP response, `delay_s` after the request arrived."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    delay_s: float = 0.0


CutAt = Literal["before_request", "before_response", "in_body"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """The connection breaks. `before_request`: it never came about, so that no byte of the request left the client;
    `before_response`: after the request, before any answer; `in_body`: in the middle of the answer.
    `reset` tells a reset connection from one that was merely closed."""

    at: CutAt
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    partial_body: bytes = b""
    delay_s: float = 0.0
    reset: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Hang:
    """Nothing more happens until the client gives up."""


Delivery = Answer | Cut | Hang


def json_answer(status: int, body: Json, request_id: str) -> Answer:
    """A JSON response as the service gives it: every one carries its trace header (API section 7)."""
    headers = {"x-request-id": request_id}
    if status == 204:
        return Answer(status=status, headers=headers, body=b"")
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return Answer(status=status, headers={**headers, "content-type": "application/json"}, body=text)
