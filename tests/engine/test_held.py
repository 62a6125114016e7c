"""Writes that cannot be sent and that nobody asks for any more: what holds them, for how long, how they end."""

from datetime import timedelta

import pytest

from tests.calling import PAUSE
from tests.worlds import CAMPAIGN, MINUTE, RUN, Disk, Town, draft, happening, in_town, rules_of, takes_testimony, world
from worker.guards import Limits
from worker.model.commits import Commit, Hold, Sending
from worker.model.errors import LedgerUnwritable
from worker.model.writes import Write
from worker.writes.life import move


@in_town(world(happening("e1")), limits=Limits(held_longer_than=timedelta(minutes=4)), watched=10)
async def test_connections_that_fail_for_longer_than_the_gap_put_the_write_before_a_person(here: Town) -> None:
    here.fault("no_connection", "PUT", CAMPAIGN, times=1000)
    await here.becomes("e1", 5 * MINUTE, status="cancelled")
    assert here.states() == ["waiting"], here.story()
    assert "not_sent" in here.only.why or "backoff" in here.only.why, here.only.why
    assert here.only.attempt > 4, "it was tried on, again and again"


async def unknown_under_a_halt(here: Town) -> None:
    """A write whose answer hides whether it took effect, and a person who stops all sending."""
    here.fault("answer_before", "PUT", CAMPAIGN, status=500)
    await here.sees("unknown", frontend_status="FLAGGED")
    here.halt()


@in_town(world(happening("e1", client_campaign_status="PAUSED")), RUN)
async def test_what_is_proved_absent_and_no_longer_wanted_ends_under_a_halt_too(here: Town) -> None:
    """A halt stops sending, and nothing else: no person is asked about what nobody wants any more."""
    await unknown_under_a_halt(here)
    await here.run(2 * MINUTE)
    assert (here.only.state, here.only.held_by) == ("unknown", "halt"), "wanted still, and held"
    here.set("e1", frontend_status="DEFAULT")
    await here.until(lambda: here.only.final, "it ends", limit=2 * MINUTE)
    assert (here.only.state, here.only.reason) == ("skipped", "no_longer_holds"), here.story()
    assert here.only.attempt == 1


@in_town(world(happening("e1", client_campaign_status="PAUSED")), RUN)
async def test_what_is_held_after_its_proof_does_not_fill_the_log(here: Town) -> None:
    await unknown_under_a_halt(here)
    await here.run(10 * MINUTE)
    assert 5 <= len(here.log("evidence")) <= 15, "now and then, not at every look"
    here.resume()
    await here.until(lambda: here.states() == ["confirmed"], "sent again", limit=MINUTE)
    assert len(here.effects()) == 1


@in_town(
    world(happening("e1"), draft("e2")),
    rules_of(
        "{id: boost-new, on_change: {fact: suggested_tcs, by: [tc]}, when: setup.state == 'DRAFT', do: [boost]}",
        "{id: pause-cancelled, when: event.status == 'cancelled', do: [pause]}",
    ),
    watched=30,
)
async def test_a_change_held_over_a_restart_keeps_no_other_event_from_its_write(here: Town) -> None:
    """The fact's parameters, an event's defaults, are not known at the first poll after a start."""
    here.fault("answer_before", "GET", "/setup_processes/e2", times=1000, status=500)
    await here.run(30)
    here.suggest("e2", 7)
    await here.until(lambda: [one["reason"] for one in here.log("held")] == ["fact_unknown"], "held", limit=MINUTE)
    here.fault("answer_before", "GET", "default", times=10, status=500)
    await here.restart()
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["confirmed"], "e1 is paused", limit=MINUTE)
    here.twin.faults.clear()
    await here.until(lambda: here.states() == ["confirmed"] * 2, "e2 is boosted", limit=10 * MINUTE)


REST = PAUSE.replace("[pause]", "[{optimisation: 'OFF'}]")


async def unknown_pause(here: Town) -> Write:
    """A pause whose answer hid nothing: it has not taken effect."""
    here.fault("answer_before", "PUT", CAMPAIGN, status=500)
    await here.cancelled("unknown")
    return here.only


@in_town(world(happening("e1")), PAUSE)
async def test_a_rule_that_is_edited_meanwhile_acts_by_its_new_text(here: Town) -> None:
    await unknown_pause(here)
    here.use(REST)
    await here.until(lambda: here.states() == ["cancelled", "confirmed"], "the new text is done", limit=120)
    assert here.writes()[0].reason == "rule_edited"
    assert [one.operation for one in here.effects()] == ["set_campaign_optimisation_status"], here.story()


@in_town(world(happening("e1")), PAUSE)
async def test_a_rule_that_was_removed_meanwhile_acts_with_approval_when_it_is_back(here: Town) -> None:
    await unknown_pause(here)
    here.use("rules: []")
    await here.until(lambda: here.only.final, "it is settled by reading, and not sent again", limit=120)
    assert (here.only.state, here.only.reason, here.only.attempt) == ("cancelled", "rule_gone", 1)
    here.use(PAUSE)
    await here.run(10)
    again = here.writes()[1]
    assert (again.state, again.reason) == ("waiting", "gap"), here.story()


@in_town(
    world(happening("e1", client_campaign_status="PAUSED")),
    rules_of(
        "{id: pause-hidden, when: event.frontend_status == 'HIDDEN', priority: 10, do: [pause]}",
        "{id: run-active, when: event.status == 'active', do: [run]}",
    ),
)
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
    here.fault("answer_after", "PUT", CAMPAIGN, status=500)
    await here.cancelled("unknown")
    disk = Disk(here, full=True)
    await here.run(9)
    await here.becomes("e1", 9, by="person", client_campaign_status="RUNNING")
    disk.full = False
    await here.run(120)
    assert here.only.state == "confirmed", here.story()
    assert [one.after for one in here.effects()] == ["PAUSED"], "it took effect, and is not made twice"


@pytest.mark.parametrize("later", [0, 9], ids=["beside the answer", "looks after the answer"])
@in_town(world(happening("e1")), PAUSE, watched=10)
async def test_a_presence_is_not_forgotten_though_the_answer_itself_could_not_be_stored(here: Town, later: int) -> None:
    """The row still says ``sending`` while a look shows the effect; a person reverses it before there is room again."""
    here.fault("answer_after", "PUT", CAMPAIGN, status=500)
    here.set("e1", status="cancelled")
    sent, disk = here.ledger.record_sending, Disk(here)

    def record_sending(sending: Sending) -> Hold | None:
        disk.full = True
        return sent(sending)

    here.ledger.record_sending = record_sending  # type: ignore[method-assign]
    await here.until(lambda: here.states() == ["sending"], "it is under way")
    await here.run(4 + later)
    assert here.states() == ["sending"]
    await here.becomes("e1", 9, by="person", client_campaign_status="RUNNING")
    here.ledger.record_sending = sent  # type: ignore[method-assign]
    disk.full = False
    await here.run(120)
    assert here.only.state == "confirmed", here.story()
    assert [one.after for one in here.effects()] == ["PAUSED"], "it took effect, and is not made twice"


@in_town(world(happening("e1")), PAUSE, watched=6)
async def test_what_was_seen_while_its_answer_was_awaited_is_not_made_again(here: Town) -> None:
    """A person has reversed it before the attempt ended: reads show the target as it was before."""
    here.fault("hang_after", "PUT", CAMPAIGN)
    await here.becomes("e1", 6, status="cancelled")
    assert here.states() == ["sending"]
    await here.becomes("e1", 16 * MINUTE, by="person", client_campaign_status="RUNNING")
    assert [one.after for one in here.effects()] == ["PAUSED"], here.story()
    assert (here.only.state, here.only.attempt) == ("needs_human", 1)


@pytest.mark.parametrize("away", [False, True])
@in_town(world(happening("e1")), PAUSE, watched=10)
async def test_an_answer_to_an_attempt_that_somebody_else_has_found_is_evidence(
    here: Town, monkeypatch: pytest.MonkeyPatch, away: bool
) -> None:
    """A replica that was frozen has its partner back before the answer is there: another one had it meanwhile.
    ``away``: the ledger cannot say so at first."""
    sent, found = here.ledger.record_sending, list[Write]()

    def no_answer(_number: object) -> None:
        monkeypatch.undo()
        raise LedgerUnwritable("it does not answer")

    def record_sending(sending: Sending) -> Hold | None:
        brake = sent(sending)
        if not found:
            lost = move(sending.move.after, "unknown", at=here.clock.now(), reason="takeover", why="found so")
            here.ledger.apply(Commit(at=here.clock.now(), moves=(lost,)))
            found.append(lost.after)
            if away:
                monkeypatch.setattr(here.ledger, "write", no_answer)
        return brake

    here.ledger.record_sending = record_sending  # type: ignore[method-assign]
    takes_testimony(here)
    await here.becomes("e1", 120, status="cancelled")
    assert here.only.state == "confirmed", here.story()
    told = [one for one in here.log("evidence") if one["reason"] == "takeover"]
    assert [(one["attempt"], one["response"]["status"]) for one in told] == [(1, 204)], here.story()
    assert [one.after for one in here.effects()] == ["PAUSED"]


@in_town(world(happening("e1")))
async def test_what_is_held_says_what_holds_it_now(here: Town) -> None:
    """A halt that had been resumed stood there for ever, with who had set it, beside the one that was in force."""
    here.halt(rule="pause-cancelled", because="the import was wrong")
    await here.cancelled("planned")
    assert here.only.why == "halted by ann: the import was wrong"
    here.halt(because="the service is being moved")
    here.resume(rule="pause-cancelled")
    await here.run(2 * MINUTE)
    assert here.only.why == "halted by ann: the service is being moved"
    assert len(here.log("held")) == 1, "logged when the reason changes"


@in_town(world(happening("e1")))
async def test_what_is_proved_absent_and_was_held_too_long_is_not_told_as_unsettled(here: Town) -> None:
    """An operator was told that reads could not settle it, of a write that they had settled minutes ago."""
    here.fault("answer_before", "PUT", CAMPAIGN, status=500)
    await here.cancelled("unknown")
    here.halt()
    await here.until(lambda: here.states() == ["needs_human"], "held too long", 20 * MINUTE)
    assert here.only.reason == "no_evidence"
    assert "reads prove it absent, and it was not sent again" in here.only.why
