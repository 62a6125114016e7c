"""Each fault does what its name says: to the answer, to the effect, and to nothing else."""

import json
from typing import Any

import pytest

from tests.builders import cases
from tests.unit.sandbox.desk import Desk
from worker.sandbox.faults import Fault, Kind, Match
from worker.sandbox.settings import Cut, Delivery, Hang, SandboxInputError, TwinAnswer, read_as
from worker.sandbox.start import SECOND_PARTNER

PAUSE = "/events/e1/client_campaign_status?client_campaign_status=PAUSED"


def met(kind: Kind, method: str = "PUT", target: str = PAUSE, **params: object) -> tuple[Desk, Delivery]:
    desk = Desk(faults=[Fault(kind=kind, params=params)])
    return desk, desk.send(method, target)


def answered(kind: Kind, method: str = "PUT", target: str = PAUSE, **params: object) -> TwinAnswer:
    """What comes of a request that meets such a fault, where something comes."""
    _, found = met(kind, method, target, **params)
    assert isinstance(found, TwinAnswer)
    return found


@cases(
    "kind, delivery, effects",
    ("answer_before", TwinAnswer, 0, "an answer, and nothing behind it"),
    ("answer_after", TwinAnswer, 1, "an answer that hides an effect"),
    ("no_connection", Cut, 0, "no byte left the client"),
    ("cut_before", Cut, 0, "the request was lost with the connection"),
    ("cut_after", Cut, 1, "only the answer was lost"),
    ("cut_body", Cut, 1, "half of the answer was lost"),
    ("hang_before", Hang, 0, "never looked at"),
    ("hang_after", Hang, 1, "done, and never answered"),
    ("late_effect", TwinAnswer, 0, "not yet"),
    ("expired_token", TwinAnswer, 0, "401 comes before everything"),
    ("storm", TwinAnswer, 0, "too many requests"),
    ("garbage", TwinAnswer, 1, "the effect is real, the answer is not"),
    ("null_body", TwinAnswer, 1, "likewise"),
    ("slow", TwinAnswer, 1, "slow is not lost"),
)
def test_a_fault_is_about_the_answer_or_the_effect(kind: Kind, delivery: type, effects: int) -> None:
    desk, found = met(kind)

    assert isinstance(found, delivery)
    assert len(desk.effects) == effects


def test_before_and_after_look_alike_to_the_client() -> None:
    assert met("cut_before")[1] == met("cut_after")[1]
    assert met("hang_before")[1] == met("hang_after")[1]
    assert met("answer_before", status=503)[1] == met("answer_after", status=503)[1]


def test_a_retry_after_and_a_delay_are_there_only_when_asked_for() -> None:
    assert "retry-after" not in answered("answer_before").headers
    assert answered("answer_before", retry_after=7).headers["retry-after"] == "7"
    assert answered("answer_after", delay_s=3).delay_s == answered("slow", "GET", "/events/e1", delay_s=3).delay_s == 3
    assert answered("answer_after").delay_s == 0


def at_first(status: int, **how: Any) -> Fault:  # noqa: ANN401  # the fields of a Fault
    return Fault(kind="answer_before", match=Match(method="PUT"), params={"status": status}, **how)


@cases(
    "faults, expected",
    ([at_first(429, skip=1, times=2)], [204, 429, 429, 204, 204], "as often as it says, after those it lets pass"),
    ([at_first(500), at_first(502)], [500, 502, 204, 204, 204], "one after the other"),
    ([at_first(429, times=None, from_s=10, until_s=20)], [204, 204, 429, 429, 204], "in its hours"),
)
def test_a_fault_has_its_turn(faults: list[Fault], expected: list[int]) -> None:
    desk = Desk(faults=faults)
    found = []
    for _ in range(5):
        found.append(desk.pause("e1"))
        desk.passes(5)

    assert found == expected


@cases(
    "match, hit",
    (Match(), True, "everything"),
    (Match(method="PUT"), True, "the method"),
    (Match(method="GET"), False, "another method"),
    (Match(method="WRITE"), True, "a write"),
    (Match(path="client_campaign_status$"), True, "the end of the path"),
    (Match(path="^/events/e2/"), False, "another event"),
    (Match(partner=SECOND_PARTNER), False, "another partner"),
    (Match(host="cr"), False, "another service"),
)
def test_a_fault_takes_only_the_requests_that_it_matches(match: Match, hit: bool) -> None:
    desk = Desk(faults=[Fault(kind="answer_before", match=match)])

    assert (desk.pause("e1") == 429) is hit


def test_a_write_fault_leaves_reads_and_signing_in_alone() -> None:
    desk = Desk(faults=[Fault(kind="answer_before", match=Match(method="WRITE"))])

    assert desk.sign_in()["TokenType"] == "Bearer"
    assert desk.status("GET", "/events/e1") == 200
    assert desk.pause("e1") == 429


def test_a_late_effect_lands_when_it_is_due_and_meets_what_it_finds_then() -> None:
    desk = Desk(faults=[Fault(kind="late_effect", match=Match(method="PUT", path="setup"), params={"after_s": 40})])
    assert desk.status("PUT", "/setup_processes/e2", {"total_budget": 1}) == 429
    desk.status("POST", "/setup_processes/e2/boost")
    desk.passes(40)

    assert desk.read("/setup_processes/e2")["total_budget"] == 500
    assert desk.effects == [("boost", "e2")]


def test_a_late_effect_lands_although_its_token_has_expired_meanwhile() -> None:
    desk = Desk(faults=[Fault(kind="late_effect", match=Match(method="PUT"), params={"after_s": 4000})])
    desk.pause("e1")
    desk.passes(4000)
    desk.sign_in()

    assert desk.read("/events/e1")["client_campaign_status"] == "PAUSED"


def test_stale_reads_show_the_past_and_writes_still_count_now() -> None:
    stale = Fault(kind="stale_reads", match=Match(path="/events/"), times=None, params={"by_s": 10})
    desk = Desk(faults=[stale])
    desk.passes(5)
    desk.pause("e1")

    assert desk.read("/events/e1")["client_campaign_status"] == "RUNNING"
    assert desk.read("/events/?limit=1")["items"][0]["client_campaign_status"] == "RUNNING"
    desk.passes(10)
    assert desk.read("/events/e1")["client_campaign_status"] == "PAUSED"


def test_a_stale_listing_does_not_know_a_new_event_and_still_knows_a_removed_one() -> None:
    desk = Desk(faults=[Fault(kind="stale_reads", match=Match(method="GET"), times=2, params={"by_s": 10})])
    desk.passes(5)
    desk.change("new", add=True)
    desk.change("e1", remove=True)
    ids = {event["id"] for event in desk.read("/events/")["items"]}

    assert "e1" in ids
    assert "new" not in ids
    assert desk.status("GET", "/events/new") == 404


@pytest.mark.parametrize(("kind", "form"), [("garbage", "text/html"), ("cut_json", "application/json")])
def test_a_whole_answer_can_be_no_json(kind: Kind, form: str) -> None:
    found = answered(kind, "GET", "/events/e1")

    assert (found.status, found.headers["content-type"]) == (200, form)
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        json.loads(found.body)


def test_a_refusal_of_the_credentials_stays_one() -> None:
    desk = Desk(faults=[Fault(kind="garbage")])
    assert desk.send_with({}, "GET", "/events/e1").status == 401


@pytest.mark.parametrize("target", ["/events/e1", "/events/?limit=2"])
def test_named_fields_go_missing_from_a_record_and_from_every_item(target: str) -> None:
    desk, found = met("missing_fields", "GET", target, fields=["status", "benchmark.prediction"])

    assert isinstance(found, TwinAnswer)
    body = json.loads(found.body)
    for event in body.get("items", [body]):
        assert "status" not in event
        assert event["benchmark"] == {}
    assert "status" in desk.read("/events/e1")


def test_named_fields_get_another_type_or_the_value_that_is_given() -> None:
    found = json.loads(answered("wrong_types", "GET", "/events/e1", fields=["status", "capacity"]).body)
    given = json.loads(answered("wrong_types", "GET", "/events/?limit=1", fields={"status": None}).body)

    assert (type(found["status"]), type(found["capacity"])) == (int, str)
    assert given["items"][0]["status"] is None


def test_half_a_page_keeps_its_numbers_and_loses_its_items() -> None:
    body = json.loads(answered("half_page", "GET", "/events/?limit=8").body)
    assert (body["total"], len(body["items"])) == (8, 4)


def test_reordered_pages_show_some_events_twice_and_others_never() -> None:
    desk = Desk(faults=[Fault(kind="reordered_pages", match=Match(path="^/events/$"), times=None)])
    ids = [event["id"] for page in (1, 2) for event in desk.read(f"/events/?limit=4&page={page}")["items"]]

    assert len(ids) == 8
    assert len(set(ids)) < 8


def test_a_vanished_event_is_not_in_the_list_and_answers_by_itself() -> None:
    desk = Desk(faults=[Fault(kind="vanish", match=Match(path="^/events/$"), params={"eid": "e3"})])
    listed = desk.read("/events/")

    assert listed["total"] == 7
    assert "e3" not in [event["id"] for event in listed["items"]]
    assert desk.read("/events/e3")["id"] == "e3"
    assert desk.read("/events/")["total"] == 8


def test_an_expired_token_stays_expired_until_one_signs_in_again() -> None:
    desk, found = met("expired_token")

    assert isinstance(found, TwinAnswer)
    assert (found.status, json.loads(found.body)["error"]) == (401, "error.auth.missing_token")
    assert desk.pause("e1") == 401
    desk.sign_in()
    assert desk.pause("e1") == 204


def test_a_storm_is_429_on_everything_for_a_while() -> None:
    desk = Desk(faults=[Fault(kind="storm", params={"for_s": 10, "retry_after": 4})])
    during = [desk.answer("GET", "/events/e1"), desk.answer("PUT", PAUSE), desk.answer("POST", "/auth", {})]
    desk.passes(10)

    assert [(answer.status, answer.headers["retry-after"]) for answer in during] == [(429, "4")] * 3
    assert desk.effects == []
    assert desk.pause("e1") == 204


def test_a_storm_can_hide_the_writes_that_it_refuses_and_can_be_one_partners_own() -> None:
    storm = Fault(kind="storm", match=Match(method="PUT", partner=SECOND_PARTNER), params={"hidden": True})
    desk = Desk(faults=[storm], partner=SECOND_PARTNER)

    assert desk.pause("e1") == 429
    assert desk.status("GET", "/events/e2") == 429
    assert desk.effects == [("set_client_campaign_status", "e1")]
    desk.partner = "partner-id-aurora-live"
    assert desk.pause("e1") == 204


@cases(
    "written, message",
    ({"kind": "answer_bevore"}, "did you mean 'answer_before'", "a kind misspelt"),
    ({}, "kind is missing", "no kind"),
    ({"kind": "slow", "tims": 2}, "did you mean 'times'", "a key misspelt"),
    ({"kind": "slow", "match": {"pth": "x"}}, "did you mean 'path'", "what it matches misspelt"),
    ({"kind": "slow", "match": {"path": "("}}, r"path is a regular expression, and '\(' is none", "no expression"),
    ({"kind": "slow", "match": {"host": "cdn"}}, "host cannot be 'cdn'; known: api, cr, media", "no such host"),
    ({"kind": "slow", "params": {"delay": 2}}, "did you mean 'delay_s'", "a param misspelt"),
    ({"kind": "slow", "params": 3}, "params cannot be 3: expected a map", "params that are none"),
    ({"kind": "slow", "times": "often"}, "times cannot be 'often': expected a valid integer", "no number"),
)
def test_a_fault_that_cannot_be_is_refused_with_the_nearest_right_name(written: dict[str, Any], message: str) -> None:
    with pytest.raises(SandboxInputError, match=message):
        read_as(Fault, written)
