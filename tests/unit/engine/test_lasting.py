"""What a first look leaves for good is kept from the garbage collector once, and not with every look."""

import gc
from collections.abc import Iterator
from weakref import ref

import pytest

from worker.engine.daemon import FULL_AFTER, keep, seldom


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_what_there_is_after_a_first_look_is_no_longer_gone_through() -> None:
    kept = [{"event": [number]} for number in range(1000)]

    keep()

    assert gc.get_freeze_count() >= len(kept)
    assert all(one is not kept[0] for one in gc.get_objects())


def test_while_a_first_list_grows_hardly_any_collection_goes_through_all_of_it() -> None:
    seldom()
    gc.collect()
    full = gc.get_stats()[2]["collections"]

    grown = [{"event": [number]} for number in range(100_000)]

    assert gc.get_threshold()[2] == FULL_AFTER
    assert gc.get_stats()[2]["collections"] == full, f"of {len(grown)} events"


def test_what_became_garbage_since_the_first_time_is_not_kept_for_ever() -> None:
    class Ring:
        def __init__(self) -> None:
            self.itself = self

    keep()
    ring = Ring()
    gone = ref(ring)
    gc.collect()  # it is old now
    del ring

    keep()

    assert gone() is None
