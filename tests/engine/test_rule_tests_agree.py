"""A rule test says what the daemon does: the same rule and changes, in a test and in a worker beside the twin."""

from pathlib import Path

import pytest

from tests.unit.engine.ruletest_bench import a_bench, ran
from tests.worlds import Town, draft, town, world

BACK = "previous.event.status == 'cancelled' && event.status != 'archived'"
RULES = {
    "two facts are watched": f'{{id: r, on_change: [event, suggested_tcs], when: "{BACK}", do: [pause]}}',
    "one fact is watched": f'{{id: r, on_change: event, when: "{BACK}", do: [pause]}}',
    "a condition holds for a while": "{id: r, when: \"event.status == 'cancelled'\", for: 3s, do: [pause]}",
    "each time, and not too often": "{id: r, when: \"event.status == 'cancelled'\", cooldown: 9s, do: [run]}",
}
STATUSES = (
    "active cancelled active+ active",
    "active cancelled cancelled active cancelled",
    "cancelled active cancelled archived active",
    "active archived+ cancelled active+ archived",
)
"""What the event's status is at each look; with a plus, the suggested clusters have changed as well. The daemon reads
these after the event, so by then a cancellation is what was before: those come alone here."""


@pytest.mark.parametrize("statuses", STATUSES)
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_the_rule_fires_at_the_same_looks(tmp_path: Path, rule: str, statuses: str) -> None:
    looks = statuses.split()
    facts = [(status.strip("+"), number if "+" in status else 0) for number, status in enumerate(looks)]
    steps = "".join(
        f"  - {{at: {3 * number}s, set: {{event: {{status: {status}}}{_clusters(run)}}}, expect: []}}\n"
        for number, (status, run) in enumerate(facts)
    )
    given = "given: {event: {client_campaign_status: RUNNING}, setup: {state: DRAFT}, suggested_tcs: [{tc: cluster 1}]}"
    done = ran(a_bench(rule), f"{given}\nsteps:\n{steps}")
    in_test = [round(one.at.total_seconds()) // 3 for one in done.failures]
    with town(tmp_path, world(draft("e1")), f"rules:\n  - {rule}\n") as (here, play):

        async def plot(here: Town) -> None:
            for status, run in facts:
                here.set("e1", status=status)
                if run:
                    here.suggest("e1", 1 + run)
                await here.run(1)

        play(plot)
        in_daemon = [number for number, look in enumerate(here.reports) if look.fired]
        assert len(here.reports) == len(looks)
    assert in_test == in_daemon


def _clusters(run: int) -> str:
    return f", suggested_tcs: [{{tc: cluster {1 + run}}}]" if run else ""
