"""What comes to the twin and what goes back, without a socket in sight.

A request is the few things that matter to the service. A broken connection and an answer that never comes are
deliveries of their own, and not strange answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import unquote

Json: TypeAlias = object
Record: TypeAlias = Mapping[str, Json]
Host = Literal["api", "cr", "media"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TwinRequest:
    """One request: `path` is raw and relative to its host's base; header names are lower-case."""

    method: str
    host: Host
    path: str
    query: tuple[tuple[str, str], ...] = ()
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
        """The parts of the path; an id that holds an encoded slash is still one of them."""
        return tuple(unquote(part) for part in self.path.split("/")[1:])

    @property
    def resource(self) -> tuple[str, ...]:
        """What makes two reads the same read: the partner, the place and the query, however it was ordered."""
        return (self.partner, self.host, *self.segments, "?", *(f"{key}={value}" for key, value in sorted(self.query)))

    @property
    def identity(self) -> str:
        """What makes two writes the same write. Spelling (encoding, order of keys) does not make them different."""
        try:
            body = json.dumps(json.loads(self.body), sort_keys=True, ensure_ascii=False)
        except (ValueError, RecursionError):
            body = self.body.hex()
        return json.dumps([self.method, *self.resource, body], ensure_ascii=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class TwinAnswer:
    """A whole HTTP response, `delay_s` after the request arrived."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    delay_s: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """The connection breaks. `before_request`: it never came about, so that no byte of the request left the client;
    `before_response`: after the request, before any answer; `in_body`: in the middle of the answer.
    `reset` tells a reset connection from one that was merely closed."""

    at: Literal["before_request", "before_response", "in_body"]
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    partial_body: bytes = b""
    delay_s: float = 0.0
    reset: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Hang:
    """Nothing more happens until the client gives up."""


Delivery = TwinAnswer | Cut | Hang
