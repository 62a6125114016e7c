"""What the service has asked for is kept across a restart, by the wall clock, and only what can be true."""

from datetime import timedelta
from typing import cast

import pytest

from tests.unit.reading.virtual import BEGIN, VirtualClock, no_chance
from worker.model.commits import DaemonStatus
from worker.model.facts import Json, PartnerId
from worker.reading.gate import Pacer

HALL = PartnerId("partner-id-hall")
CLUB = PartnerId("partner-id-club")


class Machine(VirtualClock):
    """A clock of a machine that was started at another time than the wall clock says."""

    def __init__(self, *, booted: float) -> None:
        super().__init__()
        self.booted = booted

    def monotonic(self) -> float:
        return self.seconds - self.booted


def started(*, at: float, booted: float = 0.0) -> tuple[Machine, Pacer]:
    clock = Machine(booted=booted)
    clock.seconds = at
    return clock, Pacer(per_minute=300, clock=clock, chance=no_chance)


def status(body: dict[str, Json]) -> DaemonStatus:
    return DaemonStatus(pid=1, since=BEGIN, seen_at=BEGIN, body=body)


def test_a_wait_goes_on_in_the_next_process_and_on_another_boot() -> None:
    _, pacer = started(at=1000.0)
    pacer.throttled(HALL, began=999.0, retry_after=timedelta(minutes=10))
    pacer.answered(CLUB, began=999.0)
    said = pacer.waits()

    clock, after = started(at=1060.0, booted=1050.0)
    after.go_on_waiting(status(said))

    assert after.blocked_until(HALL) - clock.monotonic() == pytest.approx(540.0)
    assert list(cast("dict[str, Json]", said["asked_to_wait"])) == [HALL], "whoever need not wait is not spoken of"
    assert after.waits() == said, "and the one after it is told the same"


def test_a_longer_wait_that_was_heard_meanwhile_is_not_cut_short() -> None:
    clock, pacer = started(at=0.0)
    pacer.throttled(HALL, began=0.0, retry_after=timedelta(minutes=5))
    until = pacer.blocked_until(HALL)
    pacer.go_on_waiting(status({"asked_to_wait": {str(HALL): clock.now().replace(second=9).isoformat()}}))
    assert pacer.blocked_until(HALL) == until


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(None, id="of nobody, at the first start"),
        pytest.param({"asked_to_wait": {HALL: "2030-01-01T00:00:00Z"}}, id="one that is over"),
        pytest.param({}, id="of a program before this one"),
        pytest.param({"asked_to_wait": None}, id="nothing"),
        pytest.param({"asked_to_wait": {HALL: "soon"}}, id="no time"),
        pytest.param({"asked_to_wait": {HALL: 7}}, id="a number"),
        pytest.param({"asked_to_wait": {HALL: "2030-01-01T00:10:00"}}, id="no zone"),
        pytest.param({"asked_to_wait": {HALL: "2030-01-01T00:15:01Z"}}, id="by a clock that was wrong"),
    ],
)
def test_what_cannot_be_a_wait_holds_nobody(body: dict[str, Json] | None) -> None:
    _, pacer = started(at=0.0)
    pacer.go_on_waiting(status(body) if body is not None else None)
    assert pacer.waits() == {"asked_to_wait": {}}
