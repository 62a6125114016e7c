"""Why a rule did not fire, asked offline of the ledger that a worker has left: the complaints, one by one."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.calling import Called, call, settle_in
from tests.worlds import OTHER, PARTNER, Town, draft, happening, in_town, plays, rules_of, tenant, world

RULES = """
rules:
  - id: boost-party
    description: Publish what is ready.
    when: |
      event.category == 'party'
      && (setup.state == 'DRAFT' || event.capacity > 1000.0)
    do: [boost]
  - {id: hide-archived, when: event.status == 'archived', for: 1h, do: [{frontend_status: HIDDEN}]}
  - id: on-new-clusters
    on_change: suggested_tcs
    with: {budget: 500, goal: ROAS}
    when: event.status == 'archived'
    cooldown: 1h
    do: [pause]
  - {id: pause-cancelled, when: event.status == 'cancelled', do: [pause]}
"""


def explain(folder: Path, *arguments: str, event: str = "e1") -> Called:
    return call("explain", "--event", event, *arguments, config=folder / "config.yaml")


def rule(folder: Path, name: str, event: str = "e1") -> dict[str, Any]:
    (found,) = told(explain(folder, "--partner", PARTNER, "--rule", name, "--format", "json", event=event))
    (one,) = found["rules"]
    return dict(one)


def told(called: Called) -> list[dict[str, Any]]:
    """One object a partner."""
    found: list[dict[str, Any]] = json.loads(called.out)
    return found


def parts(part: dict[str, Any]) -> list[tuple[str, str]]:
    """Every part in the order of the text, with its truth."""
    own = (" ".join(part["source"].split()), part["truth"])
    return [own, *(one for below in part["parts"] for one in parts(below))]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a worker has left: e1 was cancelled and is active again, e2 is archived, e3's setup could not be read."""
    folder = tmp_path_factory.mktemp("home")
    settle_in(folder, rules=RULES)

    async def script(here: Town) -> None:
        here.fault("answer_before", "GET", "/setup_processes/e3", status=500, times=1000)
        await here.run(7)
        here.set("e1", status="cancelled")
        here.set("e2", status="archived")
        await here.becomes("e3", 10, category="party")
        here.suggest("e2", 2, 3)
        await here.becomes("e1", 10, status="active")
        for number in range(3):
            await here.becomes("e1", 4, status="active", capacity=number)
        here.change("e4", remove=True)
        await here.run(7)

    events = (happening("e1"), draft("e2"), draft("e3", capacity=10), happening("e4"))
    place = world(*events, more=(tenant(OTHER, happening("e1", category="party")),))
    plays(script, folder, place, RULES)
    return folder


def test_each_part_of_a_condition_has_its_value_and_the_age_of_the_fact(home: Path) -> None:
    (explained,) = told(explain(home, "--partner", PARTNER, "--rule", "boost-party", "--format", "json", event="e2"))
    (found,) = explained["rules"]
    assert (found["standing"], found["place"].rpartition("/")[2]) == ("false", "rules.yaml:3")
    condition = found["condition"]
    assert parts(condition) == [
        ("event.category == 'party' && (setup.state == 'DRAFT' || event.capacity > 1000.0)", "false"),
        ("event.category == 'party'", "false"),
        ("setup.state == 'DRAFT' || event.capacity > 1000.0", "unknown"),
        ("setup.state == 'DRAFT'", "unknown"),
        ("event.capacity > 1000.0", "false"),
    ]
    (category,) = condition["parts"][0]["values"]
    assert (category["path"], category["value"], category["missing"]) == ("event.category", "concert", "")
    assert category["read_at"] == explained["at"], "each list shows it again"
    (setup,) = condition["parts"][1]["parts"][0]["values"]
    assert (setup["missing"], setup["read_at"]) == ("setup is unknown: not read yet", None), "it could not matter"


def test_what_is_unknown_is_named_with_the_reason(home: Path) -> None:
    found = rule(home, "boost-party", event="e3")
    assert found["standing"] == "unknown"
    assert "setup is unknown: the service answered 500" in found["why"]


def test_what_holds_a_rule_back_is_said_with_since_when_and_until_when(home: Path) -> None:
    found = rule(home, "hide-archived", event="e2")
    assert (found["standing"], found["reason"]) == ("held", "for")
    assert found["since"] < found["until"]

    table = explain(home, "--rule", "hide-archived", event="e2").out
    assert "hide-archived: held since 2026-03-01 12:00:" in table
    assert "must hold for 1h, until 2026-03-01 13:00:" in table


CHANGED = "{id: changed, on_change: {fact: event, by: category}, for: 1h, when: event.status == 'active', do: [pause]}"


@in_town(world(happening("e1")), rules_of(CHANGED))
async def test_a_change_that_must_hold_first_is_held_also_while_the_condition_is_false(
    here: Town, tmp_path: Path
) -> None:
    """It is judged when the time is over; that the rule is not true said nothing of the change that is pending."""
    settle_in(tmp_path, rules=rules_of(CHANGED))
    await here.run(9)
    await here.becomes("e1", 9, category="party", status="archived")
    found = rule(tmp_path, "changed")
    assert (found["standing"], found["reason"], found["condition"]["truth"]) == ("held", "for", "false")


def test_when_a_rule_fired_last_is_told_by_the_log_with_the_values_that_decided(home: Path) -> None:
    found = rule(home, "pause-cancelled")
    assert found["standing"] == "false"
    fired = found["fired"]
    assert (fired["episode"], fired["reason"]) == (1, "condition")
    assert fired["facts"]["event"]["value"] == {"status": "cancelled"}
    assert "last fired 2026-03-01 12:00:" in explain(home, "--rule", "pause-cancelled").out


def test_an_earlier_time_is_explained_by_the_facts_of_then(home: Path) -> None:
    fired_at = rule(home, "pause-cancelled")["fired"]["at"]
    asked = ("--partner", PARTNER, "--rule", "pause-cancelled", "--at", fired_at)
    (one,) = told(explain(home, *asked, "--format", "json"))
    (found,) = one["rules"]
    assert (one["at"], found["standing"], found["since"]) == (fired_at, "true", fired_at)
    assert parts(found["condition"]) == [("event.status == 'cancelled'", "true")]
    assert [one["action"] for one in found["writes"]] == ["pause"], "what came of that firing"

    before = told(explain(home, "--partner", PARTNER, "--at", "2026-03-01T12:00:05Z", "--format", "json"))
    found = next(one for one in before[0]["rules"] if one["rule"] == "pause-cancelled")
    assert (found["standing"], found["fired"], found["memory"], found["writes"]) == ("false", None, None, [])
    assert [one["watched"] for one in before[0]["rules"]] == [[]] * 4, "what is remembered is of now"

    of_e4 = told(explain(home, "--at", "2026-03-01T12:00:05Z", "--format", "json", event="e4"))
    assert (of_e4[0]["gone_at"], told(explain(home, "--format", "json", event="e4"))[0]["gone_at"] is None) == (
        None,
        False,
    )

    (late,) = told(explain(home, "--partner", PARTNER, "--at", "2026-03-02T12:00:00Z", "--format", "json"))
    pause = next(one for one in late["rules"] if one["rule"] == "pause-cancelled")
    assert pause["condition"]["values"][0]["read_at"] == late["looked_at"], "nobody has looked since"

    early = explain(home, "--at", "2026-02-01T12:00:00Z")
    assert (early.code, early.out) == (1, "")
    assert "the facts that are kept are of 2026-03-01T12:00:" in early.err


def test_a_watched_fact_is_said_with_what_is_remembered(home: Path) -> None:
    found = rule(home, "on-new-clusters", event="e2")
    assert found["standing"] == "unchanged"
    (watched,) = found["watched"]
    assert watched["key"] == "suggested_tcs?budget=500.0&goal=ROAS"
    assert [one["tc"] for one in watched["remembered"]["value"]] == ["cluster 2", "cluster 3"]
    table = explain(home, event="e2").out
    assert "watches suggested_tcs?budget=500.0&goal=ROAS: remembers" in table
    assert "on-new-clusters: fired 2026-03-01 12:00:" in table
    assert "; waits for a change   (" in table, "what happened comes first, and not what the condition would be"
    (write,) = found["writes"]
    assert (write["action"], write["state"]) == ("pause", "confirmed"), "what came of the firing"


def test_an_event_of_several_partners_is_told_for_each(home: Path) -> None:
    assert [one["partner"] for one in told(explain(home, "--format", "json"))] == [PARTNER, OTHER]
    (one,) = told(explain(home, "--partner", OTHER, "--format", "json"))
    assert one["partner"] == OTHER
    assert {rule["rule"]: rule["standing"] for rule in one["rules"]} == {
        "boost-party": "false",
        "hide-archived": "false",
        "on-new-clusters": "false",
        "pause-cancelled": "false",
    }


@in_town(world(happening("e1"), more=(tenant(OTHER, happening("e1")),)), RULES)
async def test_a_time_before_the_record_of_one_partner_is_told_for_the_others(here: Town, tmp_path: Path) -> None:
    settle_in(tmp_path, rules=RULES)
    await here.kill()
    here.start(PARTNER)
    await here.run(60)
    await here.restart()
    await here.run(10)
    called = explain(tmp_path, "--at", "2026-03-01T12:00:30Z", "--format", "json")
    assert [one["partner"] for one in told(called)] == [PARTNER]
    assert f"what {OTHER} was at 2026-03-01T12:00:30Z is not recorded" in called.err


def test_an_event_that_is_out_of_sight_says_so(home: Path) -> None:
    (one,) = told(explain(home, "--format", "json", event="e4"))
    assert one["gone_at"] is not None
    assert "out of sight since" in explain(home, event="e4").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--event", "e11"), "nothing is known of event 'e11'"),
        (("--event", ""), "nothing is known of event ''"),  # facts of the partner as a whole are kept under no name
        (("--event", "e1", "--rule", "pause-canceled"), "did you mean 'pause-cancelled'?"),
        (("--event", "e1", "--partner", "partner-id-on"), "did you mean 'partner-id-one'?"),
        (("--event", "e2", "--partner", OTHER), f"nothing is known of event e2 and partner {OTHER} together"),
    ],
)
def test_an_unknown_event_or_rule_is_told_with_the_nearest(home: Path, arguments: tuple[str, ...], said: str) -> None:
    called = call("explain", *arguments, config=home / "config.yaml")
    assert (called.code, called.out) == (1, "")
    assert said in called.err
    assert called.err.count("nothing is known of") == 1, "what is known is not said to be unknown"


def beside(home: Path, folder: Path, rules: str, config: str = "") -> None:
    """The ledger of that home under other rules."""
    settle_in(folder, config, rules)
    for name in ("worker.db", "worker.db.mark"):
        (folder / name).write_bytes((home / name).read_bytes())


def test_it_needs_nothing_but_the_ledger_and_leaves_it_alone(home: Path, tmp_path: Path) -> None:
    beside(home, tmp_path, RULES, "api: {base_url: https://service.example/api/v3}\n")
    before = (tmp_path / "worker.db").read_bytes()

    assert explain(tmp_path).code == 0
    assert (tmp_path / "worker.db").read_bytes() == before


def test_a_rule_that_changed_its_text_is_explained_by_the_text_of_now(home: Path, tmp_path: Path) -> None:
    rules = """
rules:
  - id: pause-cancelled
    when: event.status == 'called off'
    do: [pause]
  - id: boost-party
    enabled: false
    when: event.category == 'party'
    do: [boost]
  - id: hide-archived
    partners: [partner-id-two]
    when: event.status == 'archived'
    do: [{frontend_status: HIDDEN}]
  - id: new
    when: event.title == 'x'
    do: [pause]
"""
    beside(home, tmp_path, rules)

    (one,) = told(explain(tmp_path, "--partner", PARTNER, "--format", "json"))
    found = {rule["rule"]: rule for rule in one["rules"]}
    assert {name: rule["standing"] for name, rule in found.items()} == {
        "boost-party": "disabled",
        "hide-archived": "not_for_partner",
        "new": "false",
        "on-new-clusters": "removed",
        "pause-cancelled": "false",
    }
    assert parts(found["pause-cancelled"]["condition"]) == [("event.status == 'called off'", "false")]
    assert found["pause-cancelled"]["fired"]["facts"]["event"]["value"] == {"status": "cancelled"}
    table = explain(tmp_path, "--partner", PARTNER).out
    last = table.splitlines()[-1]
    assert last.startswith(
        "not in force: boost-party (disabled), hide-archived (not for this partner), on-new-clusters ("
    )
    assert last.endswith("(removed: it stands in no rule file); --rule ID says what is remembered of one")
    assert "boost-party: disabled" not in table
    assert "boost-party: disabled" in explain(tmp_path, "--partner", PARTNER, "--rule", "boost-party").out


def test_rules_that_do_not_load_are_explained_by_the_ledger_alone(home: Path, tmp_path: Path) -> None:
    beside(home, tmp_path, "rules: [")

    called = explain(tmp_path, "--partner", PARTNER, "--rule", "pause-cancelled")
    assert called.code == 0
    assert "the rules do not load" in called.err
    assert "pause-cancelled: as the log has it" in called.out
    assert "last fired 2026-03-01 12:00:" in called.out
    assert "removed" not in called.out, "nobody knows that"


ONE_A_DAY = """
rules:
  - id: one-a-day
    when: event.category == 'party'
    limit: {per_rule_per_day: 1}
    mode: approve
    do: [pause]
"""


@in_town(world(happening("e1"), happening("e2")), ONE_A_DAY)
async def test_what_a_rule_does_for_other_events_counts_for_its_limit(here: Town, tmp_path: Path) -> None:
    settle_in(tmp_path, rules=ONE_A_DAY)
    await here.run(7)
    await here.becomes("e1", 7, category="party")
    await here.becomes("e2", 7, category="party")
    found = rule(tmp_path, "one-a-day", event="e2")
    assert (found["standing"], found["reason"]) == ("held", "limit"), "the write of e1 is planned and not sent yet"


@in_town(world(happening("e1")), RULES)
async def test_a_rule_that_is_true_and_that_a_product_keeps_from_acting_says_so(here: Town, tmp_path: Path) -> None:
    settle_in(tmp_path, rules=RULES)
    here.become(campaign_recommendations=False)
    await here.becomes("e1", 10, status="cancelled")
    told = explain(tmp_path, "--rule", "pause-cancelled").out.splitlines()
    assert told[2].startswith("pause-cancelled: unknown")
    assert told[3] == "  the partner's campaign_recommendations is off, and the rule needs it: pause"
    assert told[4].split() == ["true", "event.status", "==", "'cancelled'"]


@in_town(world(happening("e1")), RULES)
async def test_writes_that_are_held_stand_beside_the_rule(here: Town, tmp_path: Path) -> None:
    settle_in(tmp_path, rules=RULES)
    await here.run(4)
    here.halt()
    await here.becomes("e1", 7, status="cancelled")
    (write,) = rule(tmp_path, "pause-cancelled")["writes"]
    assert (write["state"], write["held_by"]) == ("planned", "halt")
    assert "write 1 (pause): planned since" in explain(tmp_path).out
    assert "episode 1 is open: it fired" in explain(tmp_path).out
