"""The books count what took effect, and call a repetition what is one, no more and no less."""

from __future__ import annotations

import pytest

from tests.unit.sandbox.desk import Desk
from worker.sandbox.changes import ResetChange
from worker.sandbox.faults import Fault, Match
from worker.sandbox.start import SECOND_PARTNER

HIDE = "/events/e1/setup_frontend_status?frontend_status=HIDDEN"
SHOW = "/events/e1/setup_frontend_status?frontend_status=DEFAULT"
STAMP = "/events/last_updated_on_fe/e1?status=RUNNING"


def test_one_write_is_one_effect() -> None:
    desk = Desk()
    desk.pause("e1")

    assert desk.service.books.summary() == {
        "writes_sent": 1,
        "effects": 1,
        "repeated": 0,
        "effects_by_target": {f"{desk.partner}/e1/client_campaign_status": 1},
    }


def test_the_same_write_twice_is_repeated_even_where_nothing_changed() -> None:
    desk = Desk()
    desk.pause("e1")
    desk.pause("e1")

    assert [effect.changed for effect in desk.service.books.effects] == [True, False]
    assert desk.repeated == 1


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_effect_counts_however_it_was_answered(status: int) -> None:
    desk = Desk(faults=[Fault(kind="answer_after", params={"status": status})])

    assert desk.pause("e1") == status
    assert desk.pause("e1") == 204
    assert desk.repeated == 1


def test_a_write_that_took_no_effect_can_be_sent_again_without_harm() -> None:
    desk = Desk(faults=[Fault(kind="answer_before", params={"status": 429})])
    desk.pause("e1")
    desk.pause("e1")

    summary = desk.service.books.summary()
    assert (summary["writes_sent"], summary["effects"], summary["repeated"]) == (2, 1, 0)


def test_another_write_in_between_makes_it_no_repetition() -> None:
    desk = Desk()
    for value in ("PAUSED", "RUNNING", "PAUSED"):
        desk.pause("e1", value)

    assert desk.repeated == 0


@pytest.mark.parametrize("by", ["person", "world"])
def test_a_change_from_outside_in_between_makes_it_no_repetition(by: str) -> None:
    desk = Desk()
    desk.pause("e1")
    desk.change("e1", by=by, set={"client_campaign_status": "RUNNING"})
    desk.pause("e1")

    assert desk.repeated == 0
    assert [(change.by, change.target) for change in desk.service.books.outside] == [(by, "client_campaign_status")]


def test_a_change_of_something_else_excuses_nothing() -> None:
    desk = Desk()
    desk.pause("e1")
    desk.change("e1", set={"title": "renamed"})
    desk.change("e2", set={"client_campaign_status": "RUNNING"})
    desk.pause("e1")

    assert desk.repeated == 1


def test_the_weekly_reset_wipes_the_slate() -> None:
    desk = Desk()
    desk.pause("e1")
    desk.service.change(ResetChange(), desk.now_s)
    desk.pause("e1")

    assert desk.repeated == 0


def test_the_same_event_id_of_another_partner_is_another_target() -> None:
    desk = Desk()
    desk.pause("e1")
    desk.partner = SECOND_PARTNER
    desk.pause("e1")

    assert desk.repeated == 0
    assert len(desk.service.books.summary()["effects_by_target"]) == 2  # type: ignore[arg-type]


def test_another_spelling_of_the_same_write_is_the_same_write() -> None:
    desk = Desk()
    desk.change("e2", setup={"goal": "ROAS", "total_budget": 1})
    desk.status("PUT", "/setup_processes/e2", b'{"goal": "ROAS", "total_budget": 5}')
    desk.status("PUT", "/setup_processes/%652", b'{"total_budget":5,"goal":"ROAS"}')

    assert desk.repeated == 1


def test_another_body_is_another_write() -> None:
    desk = Desk()
    for budget in (5, 6, 5):
        desk.status("PUT", "/setup_processes/e2", {"total_budget": budget})

    assert desk.repeated == 0


def test_the_stamp_after_each_new_frontend_status_is_no_repetition() -> None:
    desk = Desk()
    for first in (HIDE, SHOW):
        desk.status("PUT", first)
        desk.status("PUT", STAMP, host="cr")

    assert desk.repeated == 0


def test_a_frontend_status_hidden_twice_is_repeated_although_the_stamp_came_between() -> None:
    desk = Desk()
    desk.status("PUT", HIDE)
    desk.status("PUT", STAMP, host="cr")
    desk.status("PUT", HIDE)

    assert desk.repeated == 1
    desk.status("PUT", STAMP, host="cr")
    assert desk.repeated == 2


def test_a_publish_starts_the_campaigns_so_a_pause_after_it_is_a_new_one() -> None:
    desk = Desk()
    desk.pause("e2")
    desk.status("POST", "/setup_processes/e2/boost")
    desk.pause("e2")

    assert desk.repeated == 0


def test_an_edit_after_a_reset_of_the_setup_is_a_new_one() -> None:
    desk = Desk()
    body = {"eid": "e1", "tc": "families/weekend", "tc_run_id": 42, "budget": 3}
    desk.status("POST", "/campaigns_setup", body)
    desk.status("PUT", "/events/e1/reset_campaigns_setup")
    desk.status("POST", "/setup_processes/e1", {"goal": "ROAS", "total_budget": 5})
    desk.status("POST", "/setup_processes/e1/boost")
    desk.status("POST", "/campaigns_setup", body)

    assert desk.repeated == 0


def test_the_late_landing_of_the_first_write_after_the_second_is_the_repetition() -> None:
    late = Fault(kind="late_effect", params={"status": 429, "after_s": 60}, match=Match(method="PUT"))
    desk = Desk(faults=[late])
    assert desk.pause("e1") == 429
    desk.passes(30)
    desk.pause("e1")
    assert desk.repeated == 0
    desk.passes(30)
    desk.service.advance(desk.now_s)

    assert [(effect.at_s - desk.now_s, effect.repeated) for effect in desk.service.books.effects] == [
        (-30.0, False),
        (0.0, True),
    ]


def test_every_request_is_in_the_books_with_its_fault() -> None:
    desk = Desk(faults=[Fault(kind="cut_before", match=Match(method="PUT"))])
    desk.send("PUT", "/events/e1/client_campaign_status?client_campaign_status=PAUSED")
    desk.pause("e1")

    seen = [(each.method, each.status, each.fault) for each in desk.service.books.requests]
    assert seen == [("POST", 200, None), ("PUT", None, "cut_before"), ("PUT", 204, None)]


def test_signing_in_is_no_write_and_an_unmade_connection_is_no_request_sent() -> None:
    desk = Desk(faults=[Fault(kind="no_connection", match=Match(method="PUT"))])
    desk.send("PUT", "/events/e1/client_campaign_status?client_campaign_status=PAUSED")

    assert desk.service.books.writes_sent == 0
    assert [each.reached for each in desk.service.books.requests] == [True, False]


def test_an_edit_of_metadata_after_a_person_set_it_back_is_a_new_one() -> None:
    desk = Desk()
    edit = "/events/e1?event_type=concert&partner_product=tickets&title=New"
    assert desk.status("PUT", edit, host="cr") == 200
    desk.change("e1", by="person", set={"title": "Old"})
    assert desk.status("PUT", edit, host="cr") == 200

    assert desk.repeated == 0


def test_an_event_that_was_removed_and_added_anew_has_no_past() -> None:
    desk = Desk()
    desk.pause("e1")
    desk.change("e1", remove=True)
    desk.change("e1", add=True)
    desk.pause("e1")

    assert desk.repeated == 0
