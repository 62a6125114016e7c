"""A service that does everything well asks no person anything, and a storm of 429 hardly anybody.

Actions that a read can show, over many events. A storm begins with a write, and answers everything of the partner for
20 seconds with 429, whether the writes took effect or not; storms come again and again while the rest is written.
"""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.prove.proofs import say
from tests.worlds import QUICK, Town, draft, happening, town, world
from worker.engine.views import DecidingSettings as Deciding
from worker.guards import Limits
from worker.model.rules import Surge
from worker.model.writes import FINAL, Write
from worker.sandbox.world import Happening

RULES = """
rules:
  - id: stop
    when: event.status == 'cancelled'
    do: [pause, {optimisation: "OFF"}, {ad_optimisation: "OFF"}]
  - id: launch
    when: event.status == 'active' && event.category == 'new' && setup.state == 'NONE'
    do: [{create_draft: {goal: ROAS, total_budget: 500}}, {update_draft: {total_budget: 600}}, boost]
  - id: publish
    when: event.status == 'active' && event.category == 'drafted' && setup.state == 'DRAFT'
    do: [boost]
  - id: tour
    when: event.status == 'active' && event.category == 'tour'
    do: [{series_add: [e0]}, {create_campaign: {tc: rock, tc_run_id: 1}}]
  - id: close
    when: event.status == 'archived'
    do:
      - write:
          method: PUT
          host: cr
          path: /events/{eid}
          query: {event_type: x, partner_product: y, hall_name: closed}
          confirm: {get: "/events/{eid}", when: response.hall_name == 'closed'}
"""
WRITES_OF_FIVE = 3 + 3 + 1 + 2 + 1
SETTINGS = replace(
    QUICK,
    deciding=Deciding(surge=Surge(events=10_000, within=timedelta(minutes=10))),
    limits=Limits(writes_per_hour=10_000),
    settle=timedelta(minutes=2),
    requests_per_minute=600,
)


def five(number: int) -> tuple[Happening, ...]:
    return (
        happening(f"a{number}", status="cancelled"),
        happening(f"b{number}", category="new"),
        draft(f"c{number}", category="drafted"),
        happening(f"d{number}", category="tour"),
        happening(f"f{number}", status="archived"),
    )


def run_of(folder: Path, fives: int, storm: str) -> Counter[str]:
    """Plays it to the end of every write, and says how the writes ended and what was met on the way."""
    seen: Counter[str] = Counter()
    place = world(happening("e0"), *(one for number in range(fives) for one in five(number)))

    async def script(here: Town) -> None:
        if storm:
            for number in range(max(1, fives // 2)):
                here.fault("storm", "WRITE", status=429, for_s=20.0, skip=10 * number + 3, hidden=storm == "applied")
        await here.run(9)
        wanted = WRITES_OF_FIVE * fives
        await here.until(
            lambda: len(here.writes()) == wanted and all(_at_its_end(one) for one in here.writes()),
            "every write has its end, is before a person, or waits behind one that is",
            limit=3600,
        )
        await here.run(30)
        seen.update(here.states())
        seen["writes"] = len(here.writes())
        seen["unknown"] = len(here.log("unknown"))
        seen["asked"] = len(here.log("needs_human"))
        seen["attempts"] = sum(one.attempt for one in here.writes())
        seen["effects"] = len(here.effects())
        seen.update(f"asked: {one['reason']}" for one in here.log("needs_human"))
        seen["repeated"] = len(here.twin.books.repeated)

    with town(folder, place, RULES, settings=SETTINGS) as (_, play):
        play(script)
    return seen


def _at_its_end(write: Write) -> bool:
    return write.state in {*FINAL, "needs_human"} or (write.held_by == "sequence" and "needs_human" in write.why)


def judged(seen: Counter[str], storm: str) -> None:
    assert (seen["effects"], seen["repeated"]) == (seen["confirmed"], 0), seen
    if not storm:
        assert (seen["unknown"], seen["asked"], seen["attempts"]) == (0, 0, seen["writes"]), seen
    assert seen["confirmed"] >= seen["writes"] * 0.99, f"at least 99% without a person: {seen}"


@pytest.mark.parametrize("storm", ["", "dropped", "applied"])
def test_a_perfect_service_asks_nobody_and_a_storm_hardly_anybody(tmp_path: Path, storm: str) -> None:
    seen = run_of(tmp_path, 1, storm)
    judged(seen, storm)
    assert bool(seen["unknown"]) is bool(storm), seen


@pytest.mark.prove
@pytest.mark.timeout(0)
@pytest.mark.parametrize("storm", ["", "dropped", "applied"])
def test_of_many_writes_99_in_100_are_settled_without_a_person(tmp_path: Path, storm: str) -> None:
    seen = run_of(tmp_path, 20, storm)
    judged(seen, storm)
    say(f"storm {storm or 'none'}: " + ", ".join(f"{count} {what}" for what, count in sorted(seen.items())))
