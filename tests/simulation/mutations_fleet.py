"""Flaws in what a fleet agrees on, each with the worlds that show it; beside those of `mutations`."""

from tests.simulation.mutations import MUTANTS as OF_ONE
from tests.simulation.mutations import Mutant, at, flaw, plain, several
from tests.simulation.nemesis import Try
from tests.simulation.scenes import FLEET as FLEET_SEEDS

ROWS = "worker.ledger.ownership:Membership"
FLEET = "worker.engine.fleet"
SENT = "server sending"
UNMET = "one.sent or one.id not in self.__dict__.setdefault(str(id(state)), {one.id for one in writes})"
SENT_ALL_THE_SAME = """    from contextlib import suppress
    recording = self._recording([after.key.partner], self._store.begin_sending)
    with suppress(LedgerUnwritable), recording as (connection, journal):"""
HELD_UP = tuple(plain(f"fleet, stalled at {number}") for number in range(1, 8))
ENDED = tuple(plain(f"fleet, ends at {number}") for number in range(1, 8))
STALLED = (at("fleet", "write", "stalled 30 s after the first byte"), at("fleet", "write", "stopped 20 s at the byte"))

_ALL = (
    Mutant(
        name="whoever owns it",
        why="what a replica records of a partner is stored, whoever has the partner",
        applied=flaw(f"{ROWS}.recording", ("partner != OF_ALL and owner != own", "False")),
        shown_by=HELD_UP,
    ),
    Mutant(
        name="an outcome of whoever owned it",
        why="the late answer of an old owner moves a write that another replica settles",
        applied=several(
            flaw(f"{ROWS}.recording", ("partner != OF_ALL and owner != own", "False")),
            flaw(
                "worker.ledger.rows:update_write", ("    raise StateConflict(", "    return\n    raise StateConflict(")
            ),
        ),
        shown_by=STALLED,
    ),
    Mutant(
        name="in flight for ever",
        why="an attempt whose replica is gone is left as it is",
        applied=flaw("worker.engine.settle:Settler.found_sending", ("self._store(", "bool(")),
        shown_by=(at("fleet", "write", "killed after the last byte"), at("fleet", SENT, "killed after")),
    ),
    Mutant(
        name="over at the takeover",
        why="absence counts from the takeover on, though a byte of the one that is gone may still leave",
        applied=flaw("worker.writes.life:_proved_absent", (" - settling.late_s", "")),
        shown_by=STALLED,
    ),
    Mutant(
        name="over at the second takeover",
        why="a second takeover does not begin anew the time in which a byte may still leave",
        applied=flaw(
            "worker.engine.settle:Settler.settle",
            ("self._ledger.late_s(write)", "0.0"),
        ),
        shown_by=(at("fleet, killed twice", "write", "stopped 20 s at the byte"),),
    ),
    Mutant(
        name="a handover without the pace",
        why="the next owner knows of no floor",
        applied=flaw(
            f"{FLEET}:Fleet.give_back",
            ("self._paces.handed_over(partner)", "{} if self._paces.handed_over(partner) else {}"),
        ),
        shown_by=(plain("fleet, told to end"), plain("fleet")),
    ),
    Mutant(
        name="a 429 that nobody stores",
        why="a Retry-After ends with the replica that heard it",
        applied=flaw(f"{FLEET}:Fleet.save_pace", ("if partner in", "if not partner in")),
        shown_by=(at("fleet, killed soon", "read", "429, Retry-After ten years", 7),),
    ),
    Mutant(
        name="a halt that waits for nobody",
        why="a sending that had begun is recorded after the halt has returned",
        applied=flaw(
            "worker.ledger.postgres:PostgresStore.begin_halt",
            ("connection.execute(select(func.pg_advisory_xact_lock(SENDINGS)))", "pass"),
        ),
        shown_by=(at("fleet", SENT, "stopped before it for 2 s, meanwhile a halt"),),
    ),
    Mutant(
        name="rules that wait for nobody",
        why="a sending under rules that are gone is recorded after their publish has returned",
        applied=flaw("worker.ledger.sql:SqlLedger.publish", ("[None], self._store.begin_halt", "[None]")),
        shown_by=(at("fleet", SENT, "stopped before it for 2 s, meanwhile a remove rule"),),
    ),
    Mutant(
        name="under whatever rules",
        why="what was decided under rules that are gone is stored",
        applied=flaw("worker.ledger.sql:SqlLedger._require_rules", ("if newest != self._generation:", "if False:")),
        shown_by=tuple(plain(f"fleet, a rule removed at {number}") for number in range(1, 8)),
    ),
    Mutant(
        name="the same as before",
        why="a replica that was not heard of goes on under its id",
        applied=flaw(f"{ROWS}.beat", ("if replica in alive:", "if replica:")),
        shown_by=(plain("fleet of one, stalled"),),
    ),
    Mutant(
        name="a ledger of any day",
        why="a replica does not look at a connection whether the ledger has forgotten anything",
        applied=flaw("worker.ledger.identity:Identity.meet", ("self._compare(connection)", "pass")),
        shown_by=(plain("fleet, restored"),),
    ),
    Mutant(
        name="a lease for a minute",
        why="the partners of a replica that is gone stay its own",
        applied=flaw("worker.ledger.rows:living", ("- LEASE", "- 12 * LEASE")),
        shown_by=(plain("fleet, killed"),),
    ),
    Mutant(
        name="all at once",
        why="a replica that has too many partners gives all of them back",
        applied=flaw(f"{FLEET}:surplus", ("[: max(1, beyond // AT_ONCE)]", "")),
        shown_by=(plain("fleet, one comes later"),),
    ),
    Mutant(
        name="none given back",
        why="whoever comes later gets nothing",
        applied=flaw(f"{FLEET}:surplus", ("if len(own) < least + 2:", "if True:")),
        shown_by=(plain("fleet, one comes later"),),
    ),
    Mutant(
        name="unsent and forgotten",
        why="what was planned and not sent is forgotten by the next owner",
        applied=flaw(
            "worker.engine.cycle:Cycle.run",
            (
                "self._act(state, writes)",
                f"self._act(state, [one for one in writes if {UNMET}])",
            ),
        ),
        shown_by=(plain("fleet, held back"),),
    ),
    Mutant(
        name="a warning is nothing",
        why="a commit that may be lost with the server's disk is sent on",
        applied=flaw("worker.ledger.postgres:PostgresStore.require_certain", ("raw.warned is not None", "False")),
        shown_by=(at("fleet", SENT, "a warning"),),
    ),
    Mutant(
        name="no answer is an answer",
        why="an attempt whose commit nobody answered is sent",
        applied=flaw(
            "worker.ledger.sql:SqlLedger.record_sending",
            ("self._remember(after, journal.end(after.key.partner))\n    return None", "return None"),
            (
                "    with self._recording([after.key.partner], self._store.begin_sending) as (connection, journal):",
                SENT_ALL_THE_SAME,
            ),
        ),
        shown_by=(at("fleet", SENT, "connection lost, though it is there"),),
    ),
    Mutant(
        name="given back in flight",
        why="a partner is given back while a request of it is under way",
        applied=flaw(f"{FLEET}:Fleet.give_back", ("if not busy(one)", "")),
        shown_by=(Try(scene="fleet, all at once", always=("write", "slow")),),
    ),
    Mutant(
        name="under way and forgotten",
        why="of a request that is under way at a handover the next owner does not know",
        applied=flaw("worker.reading.gate:Gate.handed_over", ("if flight.left:", "if False:")),
        shown_by=(*ENDED, Try(seed=FLEET_SEEDS + 20)),
    ),
    Mutant(
        name="taken unheard",
        why="a replica that had no answer when it took a partner goes on with it as if it knew its pace",
        applied=flaw(
            f"{FLEET}:Fleet.beat",
            ('if self._state == "running":', "if False:"),
            ("own = frozenset(self._taken)", "own = frozenset(self._membership.epochs)"),
        ),
        shown_by=(at("fleet, told to end", "server commit", "connection lost, though it is there", 43),),
    ),
    Mutant(
        name="no rule, no fleet",
        why="rules without a rule are taken for none at all, and what is open stays so",
        applied=flaw(
            "worker.engine.daemon:Daemon._share",
            ('if self._rules_said["files_hash"] != NOTHING_PUBLISHED', "if self._rules.current.rules"),
        ),
        shown_by=(
            at("fleet, the last rule removed", "write", "cut after"),
            at("fleet, the last rule removed", "write", "429 clean"),
        ),
    ),
)
MUTANTS = {**OF_ONE, **{one.name: one for one in _ALL}}
OF_A_FLEET = tuple(one.name for one in _ALL)
