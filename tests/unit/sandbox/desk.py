"""A desk from which tests talk to the twin: signed in, on a clock that only moves when told to."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

from worker.sandbox.changes import EventChange, StoryStep
from worker.sandbox.faults import Fault
from worker.sandbox.service import Twin
from worker.sandbox.settings import Delivery, Host, TwinAnswer, TwinRequest, TwinSettings
from worker.sandbox.start import FIRST_PARTNER, demo_world
from worker.sandbox.world import TwinWorld

START_S = 1000.0


class Desk:
    """One client of one twin. `now_s` is the only clock there is."""

    def __init__(
        self,
        *,
        settings: TwinSettings | None = None,
        faults: Iterable[Fault] = (),
        story: Iterable[StoryStep] = (),
        world: TwinWorld | None = None,
        partner: str = FIRST_PARTNER,
    ) -> None:
        self.service = Twin(demo_world() if world is None else world, settings=settings, story=story, origin_s=START_S)
        self.now_s = START_S
        self.partner = partner
        self.token = ""
        self.sign_in()
        for fault in faults:
            self.service.faults.add(fault)

    def sign_in(self) -> Any:  # noqa: ANN401  # JSON, as it came
        answer = self.send("POST", "/auth", body={"username": "sandbox", "password": "sandbox"})
        assert isinstance(answer, TwinAnswer)
        tokens = json.loads(answer.body)
        self.token = tokens.get("AccessToken", "")
        return tokens

    def request(self, method: str, target: str, body: object = None, host: Host = "api") -> TwinRequest:
        path, _, query = target.partition("?")
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return TwinRequest(
            method=method,
            host=host,
            path=path,
            query=tuple(parse_qsl(query, keep_blank_values=True)),
            headers={"authorization": f"Bearer {self.token}", "x-preferred-partner-id": self.partner},
            body=content,
        )

    def send(self, method: str, target: str, body: object = None, host: Host = "api") -> Delivery:
        return self.service.answer(self.request(method, target, body, host), self.now_s)

    def send_with(self, headers: Mapping[str, str], method: str, target: str) -> TwinAnswer:
        found = self.service.answer(replace(self.request(method, target), headers=headers), self.now_s)
        assert isinstance(found, TwinAnswer)
        return found

    def answer(self, method: str, target: str, body: object = None, host: Host = "api") -> TwinAnswer:
        found = self.send(method, target, body, host)
        assert isinstance(found, TwinAnswer), found
        return found

    def status(self, method: str, target: str, body: object = None, host: Host = "api") -> int:
        return self.answer(method, target, body, host).status

    def read(self, target: str) -> Any:  # noqa: ANN401  # JSON, as it came
        answer = self.answer("GET", target)
        assert answer.status == 200, answer
        return json.loads(answer.body)

    def pause(self, eid: str = "e1", value: str = "PAUSED") -> int:
        return self.status("PUT", f"/events/{eid}/client_campaign_status?client_campaign_status={value}")

    def change(self, eid: str, **parts: Any) -> None:  # noqa: ANN401  # the fields of an EventChange
        self.service.change(EventChange(event=eid, partner=self.partner, **parts), self.now_s)

    def passes(self, seconds: float) -> None:
        self.now_s += seconds

    @property
    def effects(self) -> list[tuple[str, str]]:
        return [(effect.operation, effect.eid) for effect in self.service.books.effects]

    @property
    def repeated(self) -> int:
        return len(self.service.books.repeated)
