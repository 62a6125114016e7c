"""What a first look leaves for good is kept from the garbage collector once, and not with every look."""

import gc
from collections.abc import Iterator
from weakref import ref

import pytest

from worker.engine.daemon import AT_MOST_EVERY_S, FULL_AFTER, WORTH_IT, Lasting, keep, seldom


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_what_there_is_after_a_first_look_is_no_longer_gone_through() -> None:
    kept = [{"event": [number]} for number in range(1000)]

    assert Lasting().looked("one", WORTH_IT, 0.0)

    assert gc.get_freeze_count() >= len(kept)
    assert all(one is not kept[0] for one in gc.get_objects())


def test_only_the_first_of_equal_looks_counts() -> None:
    lasting = Lasting()

    assert [lasting.looked("one", WORTH_IT, at) for at in (0.0, 3.0, 100.0, 1000.0)] == [True, False, False, False]
    assert lasting.looked("other rules", WORTH_IT, 1003.0)


def test_first_looks_at_many_partners_share_one_collection() -> None:
    lasting = Lasting()
    done = [lasting.looked(f"partner {number}", 10, number / 20) for number in range(1000)]

    assert done.index(True) == WORTH_IT // 10 - 1
    assert sum(done) == 1
    assert lasting.looked("partner 0", 10, 5.0 + AT_MOST_EVERY_S), "those that came after it are not forgotten"
    assert not lasting.looked("partner 1", 10, 5.0 + 3 * AT_MOST_EVERY_S)


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
