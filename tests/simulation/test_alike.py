"""Of single faults that end in the same world one is played; which they are is found by playing all of them."""

from itertools import islice

import pytest

from tests.simulation import alike
from tests.simulation.alike import first_of_each, known, points_of, seen_in
from tests.simulation.nemesis import crossed, singles, tried

READS = 5
"""So many reads at least have a harm of their own in each story."""
FEW = 16
"""Singles at the first points of a scene: a process that begins a transaction, and dies before, in or after it."""


def test_what_is_left_out_is_the_same_world_as_one_before() -> None:
    met: set[str] = set()
    found = 0
    for number, one in enumerate(islice(singles("pause"), FEW)):
        world = seen_in(tried(one)[0].history)
        found |= (world in met) << number
        met.add(world)
    assert 1 < len(met) < FEW, "some of these differ, and some do not"
    assert known()["pause"]["points"] == points_of("pause"), "write it anew: python -m tests.simulation --alike"
    assert int(known()["pause"]["alike"], 16) & ((1 << FEW) - 1) == found


def test_where_the_worker_comes_to_other_places_every_fault_is_played(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = list(singles("pause"))
    assert len(list(first_of_each(["pause"]))) < len(everything)
    monkeypatch.setattr(alike, "known", lambda: {"pause": {"points": "of another day", "alike": "ff"}})
    assert list(first_of_each(["pause"])) == everything
    monkeypatch.setattr(alike, "known", dict)
    assert list(first_of_each(["pause"])) == everything


def test_a_part_of_them_comes_to_every_point_and_tries_every_harm() -> None:
    whole, part = list(first_of_each(["pause", "hide"])), list(first_of_each(["pause", "hide"], every=1000))
    assert len(part) < len(whole) / 2
    assert {one.harms[0][1] for one in part} == {one.harms[0][1] for one in singles("pause")}
    for scene in ("pause", "hide"):
        all_of, few_of = ([one for one in those if one.scene == scene] for those in (whole, part))
        assert {one.harms[0][0] for one in few_of} == {one.harms[0][0] for one in all_of}
        assert {one.harms[0][1] for one in few_of} == {one.harms[0][1] for one in all_of}
        first_at = {one.harms[0][0]: one.harms[0][1] for one in reversed(few_of)}
        of_reads = [first_at[at] for at, kind in enumerate(crossed(scene)) if kind == "read" and at in first_at]
        assert len(set(of_reads)) > max(READS, len(of_reads) - 2), "not the same harm at every read"
