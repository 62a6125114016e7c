"""The books count what took effect, and call a repetition what is one, no more and no less."""

from collections.abc import Callable, Mapping

import pytest

from tests.builders import cases
from tests.unit.sandbox.desk import Desk
from worker.sandbox.changes import ResetChange
from worker.sandbox.faults import Fault, Match
from worker.sandbox.start import SECOND_PARTNER


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


DRAFT = "/setup_processes/e2"
SETUP = {"goal": "ROAS", "total_budget": 5}
CLUSTER = {"eid": "e1", "tc": "families/weekend", "tc_run_id": 42, "budget": 3}
FRONTEND = "/events/e1/setup_frontend_status?frontend_status="
STAMP = "/events/last_updated_on_fe/e1?status=RUNNING"
TITLE = "/events/e1?event_type=concert&partner_product=tickets&title=New"
DO: Mapping[str, Callable[[Desk], object]] = {
    "pause": lambda desk: desk.pause("e1"),
    "run": lambda desk: desk.pause("e1", "RUNNING"),
    "somebody renames it": lambda desk: desk.change("e1", set={"title": "renamed"}),
    "somebody runs another": lambda desk: desk.change("e2", set={"client_campaign_status": "RUNNING"}),
    "the week is over": lambda desk: desk.service.change(ResetChange(), desk.now_s),
    "it is removed": lambda desk: desk.change("e1", remove=True),
    "it is added": lambda desk: desk.change("e1", add=True),
    "pause the draft": lambda desk: desk.pause("e2"),
    "publish it": lambda desk: desk.status("POST", f"{DRAFT}/boost"),
    "budget 5": lambda desk: desk.status("PUT", DRAFT, b'{"goal": "ROAS", "total_budget": 5}'),
    "budget 5, spelled otherwise": lambda desk: desk.status(
        "PUT", "/setup_processes/%652", b'{"total_budget":5,"goal":"ROAS"}'
    ),
    "budget 6": lambda desk: desk.status("PUT", DRAFT, {**SETUP, "total_budget": 6}),
    "hide": lambda desk: desk.status("PUT", f"{FRONTEND}HIDDEN"),
    "show": lambda desk: desk.status("PUT", f"{FRONTEND}DEFAULT"),
    "stamp": lambda desk: desk.status("PUT", STAMP, host="cr"),
    "edit a cluster": lambda desk: desk.status("POST", "/campaigns_setup", CLUSTER),
    "reset the setup": lambda desk: desk.status("PUT", "/events/e1/reset_campaigns_setup"),
    "draft": lambda desk: desk.status("POST", "/setup_processes/e1", SETUP),
    "publish": lambda desk: desk.status("POST", "/setup_processes/e1/boost"),
    "title": lambda desk: desk.status("PUT", TITLE, host="cr"),
    "somebody puts the title back": lambda desk: desk.change("e1", by="person", set={"title": "Old"}),
}


@cases(
    "story, effects, repeated",
    ("pause; run; pause", 3, 0, "another write of ours came between"),
    ("pause; somebody renames it; somebody runs another; pause", 2, 1, "neither is a change of what was written"),
    ("pause; the week is over; pause", 2, 0, "the weekly reset wipes the slate"),
    ("pause; it is removed; it is added; pause", 2, 0, "an event that is added anew has no past"),
    ("pause the draft; publish it; pause the draft", 3, 0, "a publish starts the campaigns"),
    ("budget 5; budget 5, spelled otherwise", 2, 1, "another spelling of the same write is the same write"),
    ("budget 5; budget 6; budget 5", 3, 0, "another body is another write"),
    ("hide; stamp; show; stamp", 4, 0, "the stamp after each new frontend status is another one"),
    ("hide; stamp; hide", 3, 1, "the stamp in between is no other status"),
    ("hide; stamp; hide; stamp", 4, 2, "and is itself one too many"),
    ("edit a cluster; reset the setup; draft; publish; edit a cluster", 5, 0, "what was reset is a new one"),
    ("title; somebody puts the title back; title", 2, 0, "metadata is set again after somebody else"),
)
def test_a_repetition_is_a_write_with_nothing_of_its_target_in_between(story: str, effects: int, repeated: int) -> None:
    desk = Desk()
    for step in story.split("; "):
        DO[step](desk)
    assert (len(desk.effects), desk.repeated) == (effects, repeated)


@pytest.mark.parametrize("by", ["person", "world"])
def test_a_change_from_outside_in_between_makes_it_no_repetition(by: str) -> None:
    desk = Desk()
    desk.pause("e1")
    desk.change("e1", by=by, set={"client_campaign_status": "RUNNING"})
    desk.pause("e1")

    assert desk.repeated == 0
    assert [(change.by, change.target) for change in desk.service.books.outside] == [(by, "client_campaign_status")]


def test_the_same_event_id_of_another_partner_is_another_target() -> None:
    desk = Desk()
    desk.pause("e1")
    desk.partner = SECOND_PARTNER
    desk.pause("e1")

    assert desk.repeated == 0
    assert len(desk.service.books.summary()["effects_by_target"]) == 2  # type: ignore[arg-type]


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


def test_every_request_is_in_the_books_with_its_fault_and_a_connection_that_was_not_made_sent_none() -> None:
    desk = Desk(faults=[Fault(kind=kind, match=Match(method="PUT")) for kind in ("no_connection", "cut_before")])
    for writes in (0, 1):
        desk.send("PUT", "/events/e1/client_campaign_status?client_campaign_status=PAUSED")
        assert desk.service.books.writes_sent == writes, "nor is signing in a write"
    desk.pause("e1")

    assert [(each.method, each.status, each.fault, each.reached) for each in desk.service.books.requests] == [
        *(("POST", 200, None, True), ("PUT", None, "no_connection", False)),
        *(("PUT", None, "cut_before", True), ("PUT", 204, None, True)),
    ]
