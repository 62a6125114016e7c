"""401 and 403: a token that has ended is renewed and nothing is lost; credentials that are refused hold the partner."""

from pathlib import Path

from tests.worlds import OTHER, PARTNER, Town, happening, in_town, plays, tenant, world

MINUTE = 60.0
CAMPAIGN = "/client_campaign_status$"


def sent(here: Town) -> int:
    """Writes on the wire."""
    return sum(one.method == "PUT" for one in here.twin.books.requests)


def cancel(here: Town, *events: str) -> None:
    for event in events:
        here.set(event, status="cancelled")


@in_town(world(happening("e1")))
async def test_one_refusal_is_answered_by_signing_in_anew_and_sending_again(here: Town) -> None:
    await here.run(10)
    here.fault("answer_before", "PUT", CAMPAIGN, status=401)
    cancel(here, "e1")
    await here.until(lambda: here.states() == ["confirmed"], "sent again")
    assert (here.only.attempt, here.only.counted) == (2, 1)
    assert here.worker.states[PARTNER].memory.denied_at is None
    assert here.log("held") == []


@in_town(world(*(happening(f"e{number}") for number in range(1, 4))), requests_per_minute=1200)
async def test_attempts_under_way_together_are_one_refusal(here: Town) -> None:
    await here.run(10)
    here.fault("answer_before", "PUT", CAMPAIGN, status=401, times=2)
    cancel(here, "e1", "e2", "e3")
    await here.run(MINUTE)
    refused = [one["at"] for one in here.log("planned") if one["reason"] == "denied"]
    assert len(refused) == 2, here.story()
    assert len(set(refused)) == 1, here.story()
    assert here.states() == ["confirmed"] * 3, "they were refused with one and the same token" + here.story()


@in_town(world(happening("e1"), happening("e2")))
async def test_a_second_refusal_in_a_row_holds_every_write_of_the_partner_over_a_restart(here: Town) -> None:
    await here.run(10)
    here.fault("answer_before", "PUT", CAMPAIGN, status=403, times=3)
    cancel(here, "e1")
    await here.until(lambda: sent(here) == 2, "refused twice")
    cancel(here, "e2")
    await here.run(MINUTE)
    assert sent(here) == 2, "the other write of the partner is not even tried"
    assert {write.held_by for write in here.writes()} == {"credentials"}, here.story()
    assert {one["write"] for one in here.log("held") if one["reason"] == "credentials"} == {1, 2}
    assert "refuses them" in (here.worker.states[PARTNER].trouble(here.clock.now()) or "")

    await here.kill()
    here.start()
    await here.run(3 * MINUTE)
    assert sent(here) == 2, "a new process remembers" + here.story()
    await here.run(2 * MINUTE)
    assert sent(here) == 3, "after five minutes one write tries for all" + here.story()
    await here.until(lambda: here.states() == ["confirmed", "confirmed"], "let in again", limit=6 * MINUTE)
    assert here.worker.states[PARTNER].trouble(here.clock.now()) is None


def test_two_writes_refused_one_after_the_other_are_two_in_a_row(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(10)
        here.fault("answer_before", "PUT", "/e1" + CAMPAIGN, status=403)
        cancel(here, "e1")
        await here.until(lambda: sent(here) == 1, "the first refusal")
        here.ledger.append_halt(rule=here.only.key.rule, because="look", by="me", at=here.clock.now())
        here.fault("answer_before", "PUT", "/campaign_optimisation_status$", status=403)
        here.set("e2", frontend_status="HIDDEN")
        await here.until(lambda: sent(here) == 2, "the second one, of another write")
        here.ledger.resume_halts(because="go on", by="me", at=here.clock.now())
        await here.run(MINUTE)
        assert sent(here) == 2, here.story()
        assert [write.held_by for write in here.writes()] == ["credentials", "credentials"], here.story()

    rules = """
rules:
  - id: pause-cancelled
    when: event.status == 'cancelled'
    do: [pause]
  - id: rest-hidden
    when: event.frontend_status == 'HIDDEN'
    do: [{optimisation: 'OFF'}]
"""
    plays(script, tmp_path, world(happening("e1"), happening("e2")), rules)


@in_town(world(happening("e1"), more=(tenant(OTHER, happening("f1")),)))
async def test_the_refusals_of_one_partner_hold_no_other(here: Town) -> None:
    here.start(PARTNER, OTHER)
    await here.run(10)
    here.fault("answer_before", "PUT", "/e1" + CAMPAIGN, status=403, times=100)
    here.set("e1", status="cancelled")
    here.set("f1", status="cancelled", partner=OTHER)
    await here.run(MINUTE)
    assert here.states() == ["planned", "confirmed"], here.story()
