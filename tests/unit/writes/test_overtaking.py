"""A write that only stops spending overtakes an unsettled opposite one, and is watched until that one has settled."""

from dataclasses import replace
from datetime import timedelta
from typing import Literal

from tests.builders import NOW, a_policy, a_write, cases, event_fact
from worker.model.facts import WriteId
from worker.model.writes import State, Write
from worker.writes.evidence import Evidence, TargetRead, judge, overtaken
from worker.writes.intents import set_beside
from worker.writes.life import Next, Policy, Settling, advance

AFTER = NOW + timedelta(seconds=5)
PAUSE = a_write("pause", "applied")
AT_ONCE = a_policy(settle=timedelta(seconds=2))


def looked(write: Write, status: str, overtook: Literal["unsettled", "landed"] | None) -> TargetRead:
    """A look begun after the attempt that read this campaign status."""
    return TargetRead(evidence=judge(write, event_fact(client_campaign_status=status)), began=1004.0, overtook=overtook)


def step_of(pause: Write, look: TargetRead, policy: Policy, began: float = 1004.0) -> Next:
    """What becomes of it by a look that began then and ended a second later; its attempt ended at 1000."""
    at = (NOW + timedelta(seconds=began - 999.0), began + 1.0)
    return advance(pause, Settling(ended=1000.0), replace(look, began=began), policy, at)


def test_a_read_that_may_lag_sends_nothing_anew() -> None:
    look = looked(PAUSE, "RUNNING", "landed")
    assert step_of(PAUSE, look, a_policy()).move is None, "settle is also how far reads may lag behind"
    running = replace(look, evidence=Evidence(says="cannot_tell", value="RUNNING"))
    assert step_of(PAUSE, running, AT_ONCE).move is None, "the task still runs"


def test_an_applied_pause_waits_for_the_opposite_write_however_long_that_takes() -> None:
    step = step_of(PAUSE, looked(PAUSE, "RUNNING", "unsettled"), a_policy(), began=4599.0)
    assert step.move is None, "confirm_within does not run while the overtaken write is open"


def test_sending_anew_does_not_count_against_the_attempts() -> None:
    pause = replace(PAUSE, attempt=3)
    step = step_of(pause, looked(pause, "RUNNING", "landed"), AT_ONCE)
    assert step.move is not None
    assert step.move.after.reason == "overtaken"
    assert step.move.after.counted < a_policy().max_attempts + step.move.after.extra_attempts


def test_a_target_that_cannot_be_read_any_more_is_put_before_an_operator_where_the_opposite_has_landed() -> None:
    lacking = judge(PAUSE, event_fact(gaps={"client_campaign_status": "missing"}))
    step = step_of(PAUSE, TargetRead(evidence=lacking, began=0.0, overtook="landed"), a_policy(), began=4599.0)
    assert step.move is not None
    assert (step.move.after.state, step.move.after.reason) == ("needs_human", "no_evidence")
    late = replace(looked(PAUSE, "RUNNING", "landed"), began=4700.0)
    seen = advance(step.move.after, step.settling, late, a_policy(), (NOW + timedelta(hours=2), 4701.0))
    assert seen.move is not None
    assert (seen.move.after.state, seen.move.after.reason) == ("planned", "overtaken"), "once it reads so"


def the_run(state: State, **changes: object) -> Write:
    """A run that was sent before the pause."""
    earlier = NOW - timedelta(seconds=30)
    run = a_write("run", state, id=WriteId(9), first_sent_at=earlier, last_sent_at=earlier, changed_at=earlier)
    return replace(run, **changes)  # type: ignore[arg-type]  # fields of Write


@cases(
    "other, expected",
    (the_run("unknown"), "unsettled", "it may still land"),
    (the_run("needs_human"), "unsettled", "so may this"),
    (the_run("needs_human", absent_proved=True), None, "proved absent"),
    (the_run("confirmed", changed_at=AFTER), "landed", "it was confirmed after the pause was sent"),
    (the_run("confirmed"), None, "it was settled before the pause was sent: nothing was overtaken"),
    (the_run("rejected", changed_at=AFTER), None, "it came to nothing"),
    (the_run("unknown", last_sent_at=AFTER), None, "it was sent after the pause"),
    (the_run("unknown", sent_seq=8), None, "so it was, though the clock was set back in between"),
    (the_run("confirmed", changed_seq=8), "landed", "and confirmed after it"),
    (the_run("planned", last_sent_at=None, first_sent_at=None, attempt=0), None, "it was never sent"),
    (replace(a_write("pause", "unknown"), id=WriteId(9)), None, "the same wish"),
)
def test_what_was_overtaken(other: Write, expected: str | None) -> None:
    assert overtaken(PAUSE, [other]) == expected


def test_a_boost_runs_what_a_pause_stops() -> None:
    assert [*set_beside(a_write("pause").intent)] == ["setup"]
    assert [*set_beside(a_write("run").intent)] == [], "it wants the very same"
    assert [*set_beside(a_write("optimisation", params={"value": "OFF"}).intent)] == []
