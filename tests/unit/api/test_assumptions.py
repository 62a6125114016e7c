"""The register of what is assumed: whole, typed, and honest about who vouched for what."""

import pytest

from tests.builders import cases
from tests.unit.api.world import assumed
from worker.api.assumptions import ASSUMPTIONS, assumptions_from, objection
from worker.model.actions import ACTIONS
from worker.model.facts import Json


def test_each_key_says_what_it_is_about() -> None:
    for row in ASSUMPTIONS.values():
        assert row.origin.startswith("section "), row.key
        assert row.about, row.key
        leaning = [action.name for action in ACTIONS.values() if row.key in action.assumptions]
        assert row.needed_by or leaning, row.key


@pytest.mark.parametrize("key", sorted(ASSUMPTIONS))
def test_every_default_has_its_own_shape(key: str) -> None:
    assert objection(ASSUMPTIONS[key], ASSUMPTIONS[key].default) == ""


def test_every_action_leans_on_keys_that_exist() -> None:
    for action in ACTIONS.values():
        assert set(action.assumptions) <= set(ASSUMPTIONS), action.name


BODY: Json = {"frontend_status": "{value}"}


@cases(
    "given, confirmed",
    ({}, set(), "nobody vouches for a default"),
    ({"events__page_parameter": "page"}, {"events.page_parameter"}, "unless it is written"),
    ({"frontend_status__body": BODY}, {"frontend_status.query", "frontend_status.body"}, "the query it replaces"),
)
def test_what_is_written_is_vouched_for(given: dict[str, Json], confirmed: set[str]) -> None:
    assert assumed(**given).confirmed == confirmed


def test_what_is_left_out_keeps_its_default_but_for_a_query_that_a_body_replaces() -> None:
    assert assumed().text("events.page_parameter") == "page"
    assert assumed().denied("status") == (401, 403)
    part = assumed(auth__denied={"status": [401]})
    assert part.denied("status") == (401,)
    assert "error.unauthorized" in part.denied("codes")
    assert assumed(frontend_status__body=BODY).template("frontend_status.query") is None
    both = assumed(frontend_status__body=BODY, frontend_status__query={"b": "x"})
    assert both.template("frontend_status.query") == {"b": "x"}


def test_an_unknown_key_is_an_error_with_the_nearest_name() -> None:
    made, wrong = assumptions_from({"setup.after_publsh": "absent"})

    assert [(one.key, one.hint) for one in wrong] == [("setup.after_publsh", "did you mean setup.after_publish?")]
    assert made.confirmed == frozenset()


@cases(
    "key, value, words",
    ("events.page_parameter", "", "a name"),
    ("events.page_parameter", 3, "a name"),
    ("task.succeeded", "SUCCESS", "a list of words"),
    ("task.succeeded", [], "a list of words"),
    ("task.failed", [True], "a list of words"),
    ("client_campaign_status.semantics", "flip", "set or toggle"),
    ("client_campaign_status.query", "status", "a mapping"),
    ("client_campaign_status.query", {"status": 5}, "a mapping"),
    ("client_campaign_status.query", {"status": "{valeu}"}, "nothing fills in {valeu}"),
    ("client_campaign_status.query", {"status": "PAUSED"}, "does not carry {value}"),
    ("frontend_status.query", None, "neither it nor frontend_status.body"),
    ("boost.body", {"a": ["{what}"]}, "nothing fills in {what}"),
    ("boost.body", {"a": "{tc}"}, "nothing fills in {tc}, only {eid}"),
    ("frontend_status.body", {"a": "{value}", "b": "{tc}"}, "nothing fills in {tc}"),
    ("create_campaign.query", {"tc": "{tc}"}, "does not carry {eid}"),
    ("create_campaign.query", {"event": "{eid}", "x": "{value}"}, "nothing fills in {value}"),
    ("campaigns.items", "a b", "not a JMESPath"),
    ("campaigns.items", "lenght(a)", "JMESPath has no function lenght; did you mean length?"),
    ("campaigns.items", "a[?length(b, c) > `1`]", "length of JMESPath takes 1, and is given 2"),
    ("campaigns.items", "not_null()", "not_null of JMESPath takes 1, and is given 0"),
    ("campaigns.items", None, "a JMESPath"),
    ("cluster.budget", "tc", "tc tells which cluster it is"),
    ("setup.after_publish", "gone", "readable or absent"),
    ("setup.published", ["DRAFT"], "DRAFT stands in setup.draft and in setup.published"),
    ("auth.refresh", {"path": "/auth/refresh"}, "{path, body}"),
    ("auth.refresh", {"path": "auth", "body": {}}, "begins with /"),
    ("auth.refresh", {"path": "/auth/{refresh_token}", "body": {}}, "begins with /"),
    ("auth.refresh", {"path": "/auth/refresh", "body": {}}, "does not carry {refresh_token}"),
    ("auth.refresh", {"path": "/auth", "body": "x"}, "body is a mapping"),
    ("auth.denied", [401], "{status"),
    ("auth.denied", {"status": [429]}, "without 408, 409, 425 and 429"),
    ("auth.denied", {"status": [409]}, "without 408, 409, 425 and 429"),
    ("auth.denied", {"status": [404]}, "and 404, which tells of no draft"),
    ("auth.denied", {"status": [500]}, "from 400 to 499"),
    ("auth.denied", {"status": [True]}, "from 400 to 499"),
    ("auth.denied", {"codes": "error"}, "a list of error codes"),
)
def test_a_value_that_does_not_fit_is_an_error(key: str, value: Json, words: str) -> None:
    _, wrong = assumptions_from({key: value})

    assert len(wrong) == 1, wrong
    assert words in wrong[0].message
    assert wrong[0].hint


@pytest.mark.parametrize(
    "given",
    [
        {"client_campaign_status.semantics": "toggle", "client_campaign_status.query": {"action": "toggle"}},
        {"campaigns.items": "data.all[0:100]"},
        {"campaigns.items": "not_null(a, b, sort_by(c, &d))"},
    ],
    ids=["a toggle needs no value in its query", "a slice", "functions with what they take"],
)
def test_what_fits_is_taken(given: dict[str, Json]) -> None:
    _, wrong = assumptions_from(given)

    assert not wrong
