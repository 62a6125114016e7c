"""Unknown writes that were proved absent and that nobody asks for any more; and a presence that nothing takes back."""

from collections.abc import Callable, Sequence

import pytest

from tests.worlds import Town, happening, in_town, world
from worker.model.commits import Commit, Hold, Record, Sending
from worker.model.errors import LedgerUnwritable
from worker.model.writes import Write
from worker.rules.load import read_rules
from worker.writes.life import move

CAMPAIGN = "/client_campaign_status$"
PAUSE = """
rules:
  - id: stop-cancelled
    when: event.status == 'cancelled'
    do: [pause]
"""
REST = PAUSE.replace("[pause]", "[{optimisation: 'OFF'}]")
OTHER = """
rules:
  - id: other
    when: event.status == 'never'
    do: [run]
"""
RUN_AND_PAUSE = """
rules:
  - id: pause-hidden
    when: event.frontend_status == 'HIDDEN'
    priority: 10
    do: [pause]
  - id: run-active
    when: event.status == 'active'
    do: [run]
"""


def use(here: Town, rules: str) -> None:
    here.rules.current = read_rules({"rules.yaml": rules}).rules


async def unknown_pause(here: Town) -> Write:
    """A pause whose answer hid nothing: it has not taken effect."""
    await here.run(10)
    here.fault("answer_before", "PUT", CAMPAIGN, status=500)
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["unknown"], "unknown")
    return here.only


def no_room_while(here: Town, full: Callable[[], bool]) -> None:
    """From now on the ledger takes no commit as long as the disk is full."""
    stored = here.ledger.apply

    def apply(commit: Commit) -> tuple[Write, ...]:
        if full():
            raise LedgerUnwritable("the disk is full")
        return stored(commit)

    here.ledger.apply = apply  # type: ignore[method-assign]


@in_town(world(happening("e1")), PAUSE)
async def test_a_rule_that_is_edited_meanwhile_acts_by_its_new_text(here: Town) -> None:
    await unknown_pause(here)
    use(here, REST)
    await here.until(lambda: here.states() == ["cancelled", "confirmed"], "the new text is done", limit=120)
    assert here.writes()[0].reason == "rule_edited"
    assert [one.operation for one in here.effects()] == ["set_campaign_optimisation_status"], here.story()


@in_town(world(happening("e1")), PAUSE)
async def test_a_rule_that_was_removed_meanwhile_acts_with_approval_when_it_is_back(here: Town) -> None:
    await unknown_pause(here)
    use(here, OTHER)
    await here.until(lambda: here.only.final, "it is settled by reading, and not sent again", limit=120)
    assert (here.only.state, here.only.reason, here.only.attempt) == ("cancelled", "rule_gone", 1)
    use(here, PAUSE)
    await here.run(10)
    again = here.writes()[1]
    assert (again.state, again.reason) == ("waiting", "gap"), here.story()


@in_town(world(happening("e1", client_campaign_status="PAUSED")), RUN_AND_PAUSE)
async def test_what_lost_to_a_stronger_wish_acts_once_that_has_ended(here: Town) -> None:
    here.fault("answer_before", "PUT", CAMPAIGN, status=500)
    await here.until(lambda: here.states() == ["unknown"], "the run is unknown")
    here.set("e1", frontend_status="HIDDEN")
    await here.until(lambda: here.writes()[0].final, "the run ends", limit=120)
    assert (here.writes()[0].state, here.writes()[0].reason) == ("cancelled", "conflict"), here.story()
    here.set("e1", frontend_status="DEFAULT")
    await here.until(lambda: here.states()[-1] == "confirmed", "and runs at last", limit=120)
    assert here.effects()[-1].after == "RUNNING", here.story()


@in_town(world(happening("e1")), PAUSE)
async def test_a_presence_that_the_ledger_could_not_take_is_not_forgotten(here: Town) -> None:
    """4.2.3: one read that says *there* confirms for good, also where the disk was full at that moment."""
    await here.run(10)
    here.fault("answer_after", "PUT", CAMPAIGN, status=500)
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["unknown"], "it has taken effect, and nobody knows")
    full = True
    no_room_while(here, lambda: full)
    await here.run(9)
    here.set("e1", by="person", client_campaign_status="RUNNING")
    await here.run(9)
    full = False
    await here.run(120)
    assert here.only.state == "confirmed", here.story()
    assert [one.after for one in here.effects()] == ["PAUSED"], "it took effect, and is not made twice"


@pytest.mark.parametrize("later", [0, 9], ids=["beside the answer", "looks after the answer"])
@in_town(world(happening("e1")), PAUSE)
async def test_a_presence_is_not_forgotten_though_the_answer_itself_could_not_be_stored(here: Town, later: int) -> None:
    """The row still says ``sending`` while a look shows the effect; a person reverses it before there is room again."""
    await here.run(10)
    here.fault("answer_after", "PUT", CAMPAIGN, status=500)
    here.set("e1", status="cancelled")
    sent, full = here.ledger.record_sending, False

    def record_sending(sending: Sending) -> Hold | None:
        nonlocal full
        full = True
        return sent(sending)

    here.ledger.record_sending = record_sending  # type: ignore[method-assign]
    no_room_while(here, lambda: full)
    await here.until(lambda: here.states() == ["sending"], "it is under way")
    await here.run(4 + later)
    assert here.states() == ["sending"]
    here.set("e1", by="person", client_campaign_status="RUNNING")
    await here.run(9)
    here.ledger.record_sending = sent  # type: ignore[method-assign]
    full = False
    await here.run(120)
    assert here.only.state == "confirmed", here.story()
    assert [one.after for one in here.effects()] == ["PAUSED"], "it took effect, and is not made twice"


@in_town(world(happening("e1")), PAUSE)
async def test_an_answer_to_an_attempt_that_somebody_else_has_found_is_evidence(here: Town) -> None:
    """A replica that was frozen has its partner back before the answer is there: another one had it meanwhile."""
    await here.run(10)
    sent, found = here.ledger.record_sending, list[Write]()

    def record_sending(sending: Sending) -> Hold | None:
        brake = sent(sending)
        if not found:
            lost = move(sending.move.after, "unknown", at=here.clock.now(), reason="takeover", why="found so")
            here.ledger.apply(Commit(at=here.clock.now(), moves=(lost,)))
            found.append(lost.after)
        return brake

    def testify(records: Sequence[Record]) -> bool:  # as the ledger of a fleet does
        here.ledger.apply(Commit(at=here.clock.now(), records=tuple(records)))
        return True

    here.ledger.record_sending = record_sending  # type: ignore[method-assign]
    here.ledger.testify = testify  # type: ignore[method-assign]
    here.set("e1", status="cancelled")
    await here.run(120)
    assert here.only.state == "confirmed", here.story()
    told = [one for one in here.log("evidence") if one["reason"] == "takeover"]
    assert [(one["attempt"], one["response"]["status"]) for one in told] == [(1, 204)], here.story()
    assert [one.after for one in here.effects()] == ["PAUSED"]
