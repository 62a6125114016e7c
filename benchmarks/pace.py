"""How well the pace finds a limit that nobody tells: modelled limiters, 30, 90 and 600 requests a minute, and one that
moves.

The worker's own pacer runs under virtual time. Eight readers want more than is allowed, and every two minutes or so a
write asks for its pre-flight of four reads. Fifteen minutes each, the first five of which are for finding the limit;
the worst of six seeds. *found* is when a minute first used 80% with at most 5% of 429.

Deterministic. Ends with 1 where behind a limit that does not move less than 80% was used, or more than 5% were 429.
Where no burst at all is granted, five requests within three seconds cannot be had at 30 a minute: that row is shown and
not judged.
"""

import sys
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, from anywhere

from tests.limiters import FOUND_S, LIMITERS, MEASURED_S, Behind, Rate, steady_work

END_S = FOUND_S + MEASURED_S
LIMITS = (30, 90, 600)
SEEDS = range(6)
USED_AT_LEAST, REFUSED_AT_MOST = 0.8, 0.05


def moving(second: float) -> float:
    """90 a minute, half of it from the fifth minute to the tenth."""
    return 45.0 if FOUND_S <= second < FOUND_S + MEASURED_S / 2 else 90.0


def runs(name: str, rate: Rate) -> list[Behind]:
    """One for each seed."""
    nominal = max(300.0, 2.0 * rate(0.0))
    return [steady_work(LIMITERS[name](), rate, nominal=nominal, seed=seed) for seed in SEEDS]


def shares(every: list[Behind]) -> tuple[float, float, str]:
    """Used, refused, and both with what writes and reads met, as columns of a table."""
    used = min(one.used(FOUND_S, END_S) for one in every)
    refused = max(one.refused(FOUND_S, END_S) for one in every)
    kinds = [fmean(one.refused(0.0, END_S, kind) for one in every) for kind in ("write", "read")]
    written = [took for one in every for took in one.written]
    took = f"{fmean(written):.0f} s, {max(written):.0f} s" if written else "never"
    return used, refused, f"{used:.0%} | {refused:.1%} | {kinds[0]:.1%} | {kinds[1]:.1%} | {took}"


def seconds(value: float) -> str:
    """As a table shows it."""
    return "not" if value == float("inf") else f"{value:.0f} s"


def main() -> int:
    """Measures and prints; 1 where a target is missed."""
    missed = []
    print("| limiter | a minute | used | 429 | 429 of writes | of reads | a write took (mean, most) | found |")
    print("|---|---|---|---|---|---|---|---|")
    for name in LIMITERS:
        for limit in LIMITS:
            every = runs(name, lambda _, limit=limit: float(limit))  # type: ignore[misc]
            used, refused, columns = shares(every)
            found = max(one.found_s() for one in every)
            print(f"| {name} | {limit} | {columns} | {seconds(found)} |")
            judged = name != "token bucket, burst 1" or limit >= 90
            if judged and (used < USED_AT_LEAST or refused > REFUSED_AT_MOST):
                missed.append(f"{name}, {limit} a minute")
    print("\n90 a minute, 45 from the fifth minute to the tenth:\n")
    print("| limiter | used | 429 | 429 of writes | of reads | a write took (mean, most) | found halved | doubled |")
    print("|---|---|---|---|---|---|---|---|")
    for name in LIMITERS:
        every = runs(name, moving)
        halved = max(one.found_s(FOUND_S) for one in every)
        doubled = max(one.found_s(FOUND_S + MEASURED_S / 2) for one in every)
        print(f"| {name} | {shares(every)[2]} | {seconds(halved)} | {seconds(doubled)} |")
    for one in missed:
        print(f"missed: {one}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
