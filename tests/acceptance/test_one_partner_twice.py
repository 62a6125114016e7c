"""One partner under two of the account's groups: everything is done once, and somebody is told."""

from pathlib import Path

import pytest

from tests.acceptance.processes import FIRST, SECOND, home, sandbox, until

pytestmark = pytest.mark.timeout(180)
BOTH_HAVE = "e1"


@pytest.mark.parametrize("partners", ["discover", f"[{SECOND}, {FIRST}]"])
def test_of_two_groups_that_are_one_partner_one_is_watched_and_the_other_held(tmp_path: Path, partners: str) -> None:
    with sandbox(tmp_path) as box:
        box.post("change", {"partner": SECOND, "set": {"id": "4101"}})  # as the first one's record says
        where = home(tmp_path, box)
        where.told(f"partners: {partners}")
        for partner in (FIRST, SECOND):
            box.cancel(BOTH_HAVE, partner)
        with where.worker() as worker:
            where.comes_to("confirmed")
            held = until(lambda: where.json("status")["partners_held"], "status says so")
            assert list(where.json("status")["partners"]) == [FIRST]
            assert list(held) == [SECOND]
            assert f"the same partner as {FIRST}" in held[SECOND]
            assert "partner_held" in worker.errors
            box.await_look()
            assert worker.stop() == 0
        assert [one["partner"] for one in box.effects()] == [FIRST]
        told = [one for one in where.log() if one["reason"] == "same_partner"]
        assert [(one["kind"], one["partner"]) for one in told] == [("held", SECOND)]
        assert "4101" in told[0]["why"]
