"""``python -m tests.simulation``: plays simulated worlds, and any one of them again.

``--seeds N --from S``   drawn worlds, one a seed
``--singles [SCENE]``    every single fault at every point, of one named scene or of all
``--pairs [SCENE]``      every pair of faults in the life of one write; with ``--part K/N`` only every N-th of them
``--alike``              every single fault of all scenes, and writes down which end in the same world
``--skip N``             with these two: goes on where one that was stopped had played N worlds
``--replay SEED``        one drawn world, with its trace, its log and its verdict
``--scene S --harm 'N:NAME' …``   one named scene with harms at points, as a failure names it
``--mutant NAME``        with any of these: the worker with this flaw put into it
"""

import argparse
import hashlib
import re
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import chain, islice

from tests.simulation.alike import keep, walked
from tests.simulation.mutations_blind import MUTANTS
from tests.simulation.nemesis import (
    BASE_SEED,
    Tally,
    Try,
    all_singles,
    pairs,
    seldom_collecting,
    singles,
    swarm,
    tally_of,
    tried,
)
from tests.simulation.scenes import WALKED

EVERY = 200


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a command


def main(arguments: list[str]) -> int:
    """Plays what was asked for; 1 where anything was wrong."""
    asked = _parser().parse_args(arguments)
    with MUTANTS[asked.mutant].applied() if asked.mutant else nullcontext():
        if asked.replay is not None:
            return _replay(Try(seed=asked.replay))
        if asked.scene and asked.harm is not None:
            harms = tuple((int(one.split(":", 1)[0]), one.split(":", 1)[1]) for one in asked.harm)
            return _replay(Try(scene=asked.scene, seed=asked.first or BASE_SEED, harms=harms))
        if asked.alike:
            return _alike()
        if asked.digest:
            return _digests(_asked(asked))
        return _many(_asked(asked), asked.stop_after)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--singles", nargs="?", const="all")
    parser.add_argument("--pairs", nargs="?", const="all")
    parser.add_argument("--alike", action="store_true")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--replay", type=int)
    parser.add_argument("--scene")
    parser.add_argument("--harm", action="append")
    parser.add_argument("--digest", action="store_true", help="only a hash of each world's trace: the same everywhere")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), metavar="NAME")
    parser.add_argument(
        "--stop-after", type=float, default=float("inf"), help="seconds; for a campaign of a known length"
    )
    return parser


def _asked(asked: argparse.Namespace) -> Iterator[Try]:
    part, parts = (int(one) for one in asked.part.split("/"))
    if asked.seeds:
        yield from swarm(asked.first, asked.seeds)
    if asked.singles:
        found = all_singles() if asked.singles == "all" else singles(asked.singles)
        yield from islice(found, part + asked.skip * parts, None, parts)
    if asked.pairs:
        scenes = WALKED if asked.pairs == "all" else (asked.pairs,)
        both = chain.from_iterable(pairs(scene) for scene in scenes)
        yield from islice(both, part + asked.skip * parts, None, parts)


def _many(tries: Iterator[Try], stop_after: float) -> int:
    total, began, used = Tally(), time.monotonic(), time.process_time()
    for one in seldom_collecting(tries):
        played = tally_of(one)
        total.add(played)
        for _, wrong in played.failures:
            say(f"{one}\n    " + "\n    ".join(wrong[:4]))
        if total.seen["worlds"] % EVERY == 0:
            _progress(total, began, used)
        if time.monotonic() - began > stop_after:
            break
    _progress(total, began, used)
    say(", ".join(f"{count} {what}" for what, count in sorted(total.seen.items())))
    say(f"{len(total.harms)} kinds of harm, {sum(total.harms.values())} harms")
    say(f"{len(total.failures)} worlds with complaints")
    return 1 if total.failures or not total.seen["worlds"] else 0


def _alike() -> int:
    total, found = Tally(), {}
    for scene in WALKED:
        played, found[scene] = walked(scene)
        total.add(played)
        same = int(found[scene]["alike"], 16).bit_count()
        say(f"{scene}: {played.seen['worlds']} single faults, {same} of them like one before")
        for one, wrong in played.failures:
            say(f"{one}\n    " + "\n    ".join(wrong[:4]))
    if total.failures:
        say(f"{len(total.failures)} worlds with complaints; nothing was written")
        return 1
    keep(found)
    return 0


def _digests(tries: Iterator[Try]) -> int:
    for one in tries:
        said = tried(one)[0].told
        say(f"{one} {hashlib.sha256(said.encode()).hexdigest()} {said.count(chr(10))} lines")
    return 0


def _progress(total: Tally, began: float, used: float) -> None:
    took, cpu, worlds = time.monotonic() - began, time.process_time() - used, total.seen["worlds"]
    days = total.virtual_s / 86400
    say(
        f"{worlds} worlds, {days:.1f} virtual days, {took:.0f} s ({worlds / max(took, 0.001):.1f} a second, "
        f"{worlds / max(cpu, 0.001):.1f} a second of processor time), {len(total.failures)} with complaints"
    )


_FOLDER = re.compile(r"/\S+/(?=worker\.db)")
"""Where a ledger was, which no seed decides."""


def _replay(one: Try) -> int:
    played, wrong, _ = tried(one)
    say(played.history.what)
    say(played.told)
    for life, rows in enumerate(played.history.logs):
        for row in rows:
            say(
                f"{life}/{row['seq']} {row['at'][11:23]} {row['event'] or ''} w{row['write'] or ''} {row['kind']} "
                f"{row['reason'] or ''}: {_FOLDER.sub('', row['why'])}"
            )
    say("\n".join(["", *(f"WRONG {one}" for one in wrong)]) if wrong else "nothing to complain of")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
