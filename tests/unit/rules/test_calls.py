"""A request that a rule makes by hand: what it may be, and what it may not touch."""

import pytest

from tests.unit.rules.reading import mistakes, the_rule
from worker.model.facts import Json
from worker.model.rules import RuleStep
from worker.rules.load import read_rules
from worker.rules.registry import with_custom

HEAD = "rules:\n  - id: a\n    when: event.status == 'x'\n    do:\n      - %s\n"


def step(written: str) -> RuleStep:
    return the_rule(HEAD % written).do[0]


def call(method: str, path: str, more: str = "") -> str:
    return f"write: {{method: {method}, path: '{path}'{more}}}"


def test_a_request_is_read_with_all_its_parts() -> None:
    found = step(
        "write: {host: cr, method: PUT, path: '/events/{eid}', query: {city: '{partner_id}', n: [1, 2]},"
        " body: {x: [y]}, spends: false, confirm: {get: '/events/{eid}?x=1', when: response.city == 'Leipzig'}}"
    )
    params: dict[str, Json] = {
        "host": "cr",
        "method": "PUT",
        "path": "/events/{eid}",
        "query": {"city": "{partner_id}", "n": [1, 2]},
        "body": {"x": ["y"]},
        "spends": False,
        "confirm": {"get": "/events/{eid}?x=1", "when": "response.city == 'Leipzig'"},
    }
    assert found == RuleStep(action="write", params=params)


def test_confirm_may_stand_beside_the_write() -> None:
    confirm = "confirm: {get: /events/x, when: response.ok}"
    beside = f"{{{call('POST', '/ingest/transaction_summary')}, {confirm}}}"
    inside = call("POST", "/ingest/transaction_summary", f", {confirm}")
    assert step(beside).params == step(inside).params
    assert step(beside).params["host"] == "api", "the main API unless another is named"


def test_confirm_stands_in_one_place() -> None:
    confirm = "confirm: {get: /events/x, when: response.ok}"
    twice = f"{{{call('POST', '/ingest/transaction_summary', f', {confirm}')}, {confirm}}}"
    assert any("'confirm' is given twice" in one for one in mistakes(HEAD % twice))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (call("PUT", "x"), "r.yaml:5:37: write.path is a path that begins with /"),
        (call("PUT", "/x//y"), "r.yaml:5:39: write.path is a path without an empty part"),
        (call("PUT", "/x/../auth"), "write.path has '/..' in it"),
        (call("PUT", "/x/%2e%2e/auth"), "write.path has '%2e' in it"),
        (call("PUT", "/a b"), "r.yaml:5:39: write.path has ' ' in it, which is written %20"),
        (call("PUT", "/a/é"), "r.yaml:5:40: write.path has 'é' in it, which is written %C3%A9"),
        (call("PUT", "/a/{eid"), "r.yaml:5:40: write.path has '{' in it, which is written %7B"),
        (call("PUT", "//other.example/x"), "r.yaml:5:37: write.path is a path without an empty part"),
        (call("PUT", "/setup_processes/{eid}/x%2f..%2fboost"), "r.yaml:5:61: write.path has '%2f' in it"),
        (call("PUT", "/setup_processes/{eid}/x%5c..%5cboost"), "write.path has '%5c' in it"),
        (call("PUT", "/setup_processes/{eid}/x%252f..%252fboost"), "write.path has '%25' in it"),
        (call("PUT", "/events/{eid}/series;x/y"), "write.path has ';' in it"),
        (call("PUT", "/x%00"), "write.path has '%00' in it"),
        (call("PUT", "/x", ", confirm: {get: '/a%2F..%2Fauth', when: response.ok}"), "confirm.get has '%2F' in it"),
        (call("PUT", "=event.city"), "r.yaml:5:36: write.path cannot be computed"),
        (call("PUT", "/x", ", query: x"), "write.query must be a mapping of names to values"),
        (call("PUT", "/x", ", query: {a: '{tc}'}"), "write.query: nothing fills in {tc}"),
        (call("PUT", "/x", ", body: {a: 'now: {event.title}'}"), "write.body: nothing fills in {event.title}"),
        (call("PUT", "/x/{event.id}"), "r.yaml:5:40: write.path: nothing fills in {event.id}"),
        (call("PUT", "/x", ", confirm: {get: x, when: response.ok}"), "write.confirm.get is a path that begins with /"),
        (call("PUT", "/x", ", confirm: {get: '/{x}', when: response.ok}"), "write.confirm.get: nothing fills in {x}"),
        (
            call("PUT", "/x", ", confirm: {get: /auth/x, when: response.ok}"),
            "write.confirm.get must not be a path of /auth",
        ),
        (call("PUT", "/x", ", confirm: {get: /campaign_results/, when: response.ok}"), "turns a partner's token away"),
        (call("PUT", "/x", ", confirm: {get: /auth/users/csv_export, when: response.ok}"), "a partner's token away"),
        (
            call("PUT", "/x", ", confirm: {get: '/events/{eid}/client_campaign_status/task', when: response.ok}"),
            "write.confirm.get must not be a task",
        ),
        (call("PUT", "/x", ", confirm: {get: /x, when: '1 +'}"), "r.yaml:5:"),
        (call("POST", "/auth/x"), "a rule does not sign in or out"),
        (call("POST", "/%61uth"), "write.path has '%61' in it"),
        (call("POST", "/partners"), "POST /partners/ is for administrators"),
        (call("POST", "/ingest/transaction_summary/from_excel"), "takes a file, which a rule cannot send"),
        (call("PUT", "/events/e1/client_campaign_status"), "has an action of its own: 'pause' or 'run'"),
        (call("PUT", "/events/{eid}/client_campaign_status/"), "has an action of its own: 'pause' or 'run'"),
        (call("PUT", "/events/{eid}/%63lient_campaign_status"), "write.path has '%63' in it"),
        (call("PUT", "/events/{eid}/campaign_optimisation_status"), "has an action of its own: 'optimisation'"),
        (call("PUT", "/events/{eid}/ad_campaign_optimisation_status"), "has an action of its own: 'ad_optimisation'"),
        (call("PUT", "/events/{eid}/setup_frontend_status"), "has an action of its own: 'frontend_status'"),
        (call("PUT", "/events/last_updated_on_fe/{eid}", ", host: cr"), "action of its own: 'frontend_status'"),
        (call("POST", "/setup_processes/{eid}"), "has an action of its own: 'create_draft'"),
        (call("PUT", "/setup_processes/{eid}"), "has an action of its own: 'update_draft'"),
        (call("POST", "/setup_processes/{eid}/boost"), "has an action of its own: 'boost'"),
        (call("PUT", "/events/{eid}/reset_campaigns_setup"), "has an action of its own: 'reset_setup'"),
        (call("POST", "/campaigns_setup"), "has an action of its own: 'edit_cluster'"),
        (call("POST", "/campaigns"), "POST /campaigns/ has an action of its own: 'create_campaign'"),
        (call("POST", "/events/{eid}/series"), "has an action of its own: 'series_add'"),
        (call("DELETE", "/events/{eid}/series"), "has an action of its own: 'series_remove'"),
    ],
)
def test_what_a_rule_must_not_send_is_told(written: str, message: str) -> None:
    found = mistakes(HEAD % written)
    assert any(message in one for one in found), found
    assert all(one.startswith("r.yaml:5:") for one in found)


@pytest.mark.parametrize(
    ("written", "warning"),
    [
        (call("PUT", "/events/{eid}", ", host: cr, query: {event_type: a, partner_product: b, city: c}"), None),
        (call("PUT", "/events/{eid}", ", host: cr, query: {event_type: a}"), "/events/{eid} the query partner_product"),
        (call("DELETE", "/daily_revenue_summary/"), "gives DELETE /daily_revenue_summary the query eid"),
        (call("DELETE", "/daily_revenue_summary", ", query: {eid: '{eid}'}"), None),
        (call("POST", "/media", ", host: media"), None),
        (call("PATCH", "/daily_revenue_summary"), "has DELETE for /daily_revenue_summary, and no PATCH"),
        (call("PUT", "/nowhere"), "has no /nowhere"),
        (call("PUT", "/nowhere", ", host: cr"), "has no /nowhere on the host cr"),
        (call("PUT", "/x", ", confirm: {get: /y, when: response.ok}"), "has no /x"),
    ],
)
def test_a_request_that_the_document_does_not_have_so_is_a_warning(written: str, warning: str | None) -> None:
    found = [one.message for one in read_rules({"r.yaml": HEAD % written}).warnings]
    assert found == [] if warning is None else warning in found[0]


def test_a_message_may_be_computed() -> None:
    found = step("notify: \"=event.title + ' is cancelled'\"")
    assert [one.source for one in found.computed] == ["event.title + ' is cancelled'"]
    assert step("notify: Look at this").params == {"text": "Look at this"}


def test_a_message_goes_to_a_name_that_the_config_has_where_there_is_one() -> None:
    rule = HEAD % "notify: {text: x, to: opps}"
    assert the_rule(rule).do[0].params["to"] == "opps"
    for channels, said in ((frozenset({"ops"}), "did you mean 'ops'?"), (frozenset[str](), "is named 'opps'")):
        (found,) = mistakes(rule, with_custom({}, channels=channels))
        assert said in found
