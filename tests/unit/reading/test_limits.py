"""Behind limits as services have them, modelled, the pace finds the limit and stays near it (contract: 80% and 5%)."""

from functools import cache

import pytest

from tests.limiters import FOUND_S, LIMITERS, MEASURED_S, Behind, Strays, steady_work

END_S = FOUND_S + MEASURED_S
BURSTS = [name for name in LIMITERS if name != "token bucket, burst 1"]


@cache
def behind(name: str, per_minute: int, seed: int) -> Behind:
    nominal = max(300, 2 * per_minute)
    return steady_work(LIMITERS[name](), lambda _: per_minute, nominal=nominal, seed=seed)


@pytest.mark.parametrize(("per_minute", "seed"), [(30, 1), (30, 2), (90, 1), (90, 2), (600, 1)])
@pytest.mark.parametrize("name", BURSTS)
def test_behind_a_steady_limit_80_percent_are_used_and_5_are_429(name: str, per_minute: int, seed: int) -> None:
    seen = behind(name, per_minute, seed)

    assert seen.used(FOUND_S, END_S) >= 0.8
    assert seen.refused(FOUND_S, END_S) <= 0.05
    assert len(seen.written) >= 3, "and writes get done"
    assert max(seen.written) < 90.0


def test_where_a_write_cannot_be_had_because_no_burst_is_granted_the_reads_go_on() -> None:
    seen = behind("token bucket, burst 1", 30, 1)

    assert seen.written == [], "five requests within three seconds, where one is allowed every two"
    assert seen.used(FOUND_S, END_S) >= 0.65
    assert seen.refused(FOUND_S, END_S) <= 0.05


@pytest.mark.parametrize("per_minute", [90, 600])
def test_without_bursts_the_limit_is_found_too(per_minute: int) -> None:
    seen = behind("token bucket, burst 1", per_minute, 1)

    assert seen.used(FOUND_S, END_S) >= 0.8
    assert len(seen.written) >= 3


@pytest.mark.parametrize("name", ["token bucket, burst 4", "token bucket, burst 20", "fixed minute"])
def test_a_limit_that_moves_is_found_again_within_minutes(name: str) -> None:
    def rate(second: float) -> float:
        return 45.0 if 300.0 <= second < 600.0 else 90.0

    seen = steady_work(LIMITERS[name](), rate, nominal=300.0)

    assert seen.found_s(300.0) < 120.0, "after it was halved"
    assert seen.found_s(600.0) < 240.0, "after it was doubled"
    assert seen.refused(FOUND_S, END_S) <= 0.05


@pytest.mark.parametrize(("name", "per_minute"), [*((name, 60) for name in BURSTS), ("fixed minute", 300)])
def test_a_stray_429_in_each_minute_does_not_keep_the_pace_low(name: str, per_minute: int) -> None:
    """One of some sixty answers; the waits after it alone are an eighth of the time."""
    seen = steady_work(Strays(LIMITERS[name]()), lambda _: per_minute, nominal=600.0, lasts_s=2.0 * END_S)

    assert seen.used(FOUND_S, 2.0 * END_S) >= 0.6
    assert seen.used(END_S, 2.0 * END_S) >= 0.6, "nor does it fall with time"
    assert len(seen.written) >= 3


def test_a_write_meets_a_429_more_rarely_than_a_read() -> None:
    every = [
        behind(name, per_minute, seed)
        for name in ("token bucket, burst 4", "token bucket, burst 20")
        for per_minute in (30, 90)
        for seed in range(6)
    ]
    writes = [one.passed for seen in every for one in seen.seen if one.kind == "write"]
    reads = [one.passed for seen in every for one in seen.seen if one.kind == "read"]

    assert len(writes) > 100
    assert writes.count(False) / len(writes) < reads.count(False) / len(reads)
