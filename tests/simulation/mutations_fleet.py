"""Flaws in what a fleet agrees on, each with the worlds that show it; beside those of `mutations`."""

from tests.simulation.mutations import MUTANTS as OF_ONE
from tests.simulation.mutations import Mutant, at, flaw, plain, several
from tests.simulation.nemesis import Try
from tests.simulation.scenes import FLEET as FLEET_SEEDS

OF_FLEET = "tests/unit/engine/test_fleet.py"
CLOCK = f"{OF_FLEET}::test_time_is_the_servers_as_exactly_as_its_fastest_answer"
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
        applied=flaw("ledger.ownership:Membership.recording", ("partner != OF_ALL and owner != own", "False")),
        shown_by=(Try(seed=30_490_114),),
    ),
    Mutant(
        name="an outcome of whoever owned it",
        why="the late answer of an old owner moves a write that another replica settles",
        applied=several(
            flaw("ledger.ownership:Membership.recording", ("partner != OF_ALL and owner != own", "False")),
            flaw("ledger.rows:update_write", ("raise StateConflict", "return\n    raise StateConflict")),
        ),
        shown_by=STALLED,
    ),
    Mutant(
        name="in flight for ever",
        why="an attempt whose replica is gone is left as it is",
        applied=flaw("engine.settle:Settler.found_sending", ("self._store(", "bool(")),
        shown_by=(at("fleet", "write", "killed after the last byte"), at("fleet", SENT, "killed after")),
    ),
    Mutant(
        name="over at the takeover",
        why="absence counts from the takeover on, though a byte of the one that is gone may still leave",
        applied=flaw("writes.life:_proved_absent", (" - settling.late_s", "")),
        shown_by=STALLED,
    ),
    Mutant(
        name="over at the second takeover",
        why="a second takeover does not begin anew the time in which a byte may still leave",
        applied=flaw("engine.settle:Settler.settle", ("self._ledger.late_s(write)", "0.0")),
        shown_by=(at("fleet, killed twice", "write", "stopped 20 s at the byte"),),
    ),
    Mutant(
        name="a handover without the pace",
        why="the next owner knows of no floor",
        applied=flaw(
            "engine.ports:Fleet.give_back",
            ("self._paces.handed_over(partner)", "{} if self._paces.handed_over(partner) else {}"),
        ),
        shown_by=(plain("fleet, told to end"), plain("fleet")),
    ),
    Mutant(
        name="a 429 that nobody stores",
        why="a Retry-After ends with the replica that heard it",
        applied=flaw("engine.ports:Fleet.save_pace", ("if partner in", "if not partner in")),
        shown_by=(at("fleet, killed soon", "read", "429, Retry-After ten years", 7),),
    ),
    Mutant(
        name="a halt that waits for nobody",
        why="a sending that had begun is recorded after the halt has returned",
        applied=flaw(
            "ledger.postgres:PostgresStore.begin_halt",
            ("connection.execute(select(func.pg_advisory_xact_lock(SENDINGS)))", "pass"),
        ),
        shown_by=(at("fleet", SENT, "stopped before it for 2 s, meanwhile a halt"),),
    ),
    Mutant(
        name="rules that wait for nobody",
        why="a sending under rules that are gone is recorded after their publish has returned",
        applied=flaw("ledger.sql:SqlLedger.publish", ("[None], self._store.begin_halt", "[None]")),
        shown_by=(at("fleet", SENT, "stopped before it for 2 s, meanwhile a remove rule"),),
    ),
    Mutant(
        name="under whatever rules",
        why="what was decided under rules that are gone is stored",
        applied=flaw("ledger.sql:SqlLedger._require_rules", ("if newest != self._generation:", "if False:")),
        shown_by=tuple(plain(f"fleet, a rule removed at {number}") for number in range(1, 8)),
    ),
    Mutant(
        name="the same as before",
        why="a replica that was not heard of goes on under its id",
        applied=flaw("ledger.ownership:Membership.beat", ("if replica in alive:", "if replica:")),
        shown_by=(plain("fleet of one, stalled"),),
    ),
    Mutant(
        name="a ledger of any day",
        why="a replica does not look at a connection whether the ledger has forgotten anything",
        applied=flaw("ledger.mark:Identity.meet", ("self._compare(connection)", "pass")),
        shown_by=(plain("fleet, restored"),),
    ),
    Mutant(
        name="a lease for a minute",
        why="the partners of a replica that is gone stay its own",
        applied=flaw("ledger.rows:living", ("- LEASE", "- 12 * LEASE")),
        shown_by=(plain("fleet, killed"),),
    ),
    Mutant(
        name="all at once",
        why="a replica that has too many partners gives all of them back",
        applied=flaw("engine.ports:surplus", ("[: max(1, beyond // AT_ONCE)]", "")),
        shown_by=(plain("fleet, one comes later"),),
    ),
    Mutant(
        name="none given back",
        why="whoever comes later gets nothing",
        applied=flaw("engine.ports:surplus", ("if len(own) < least + 2:", "if True:")),
        shown_by=(plain("fleet, one comes later"),),
    ),
    Mutant(
        name="unsent and forgotten",
        why="what was planned and not sent is forgotten by the next owner",
        applied=flaw(
            "engine.cycle:Cycle.run",
            ("self._act(state, writes)", f"self._act(state, [one for one in writes if {UNMET}])"),
        ),
        shown_by=(plain("fleet, held back"),),
    ),
    Mutant(
        name="a warning is nothing",
        why="a commit that may be lost with the server's disk is sent on",
        applied=flaw("ledger.postgres:PostgresStore.require_certain", ("raw.warned is not None", "False")),
        shown_by=(at("fleet", SENT, "a warning"),),
    ),
    Mutant(
        name="no answer is an answer",
        why="an attempt whose commit nobody answered is sent",
        applied=flaw(
            "ledger.sql:SqlLedger.record_sending",
            ("self._remember(after, journal.end(after.key.partner))\n    ", ""),
            (
                "    with self._recording([after.key.partner], self._store.begin_sending) as (connection, journal):",
                SENT_ALL_THE_SAME,
            ),
        ),
        shown_by=(at("fleet", SENT, "connection lost, though it is there"),),
    ),
    Mutant(
        name="no goodbye",
        why="a replica that is told to end leaves its partners to its lease",
        applied=several(
            flaw(
                "engine.ports:Fleet.give_back", ("if not busy(one)]", 'if self._state != "stopping" and not busy(one)]')
            ),
            flaw("engine.ports:Fleet.leave", ("self._membership.leave()", "pass")),
        ),
        shown_by=(Try(seed=30461190), Try(seed=30461798)),
    ),
    Mutant(
        name="given back in flight",
        why="a partner is given back while a request of it is under way",
        applied=flaw("engine.ports:Fleet.give_back", ("if not busy(one)", "")),
        shown_by=(Try(scene="fleet, all at once", always=("write", "slow")),),
    ),
    Mutant(
        name="under way and forgotten",
        why="of a request that is under way at a handover the next owner does not know",
        applied=flaw("reading.gate:Gate.handed_over", ("if flight.left:", "if False:")),
        shown_by=(*ENDED, Try(seed=FLEET_SEEDS + 20)),
    ),
    Mutant(
        name="taken unheard",
        why="a replica that had no answer when it took a partner goes on with it as if it knew its pace",
        applied=flaw(
            "engine.ports:Fleet.beat",
            ('self._state == "running"', "False"),
            ("(self._taken)", "(self._membership.epochs)"),
        ),
        shown_by=(at("fleet, told to end", "server commit", "connection lost, though it is there", 46),),
    ),
    Mutant(
        name="no rule, no fleet",
        why="rules without a rule are taken for none at all, and what is open stays so",
        applied=flaw(
            "engine.daemon:Daemon._share",
            ('self._rules_said["files_hash"] != NOTHING_PUBLISHED', "self._rules.current.rules"),
        ),
        shown_by=(
            at("fleet, the last rule removed", "write", "cut after"),
            at("fleet, the last rule removed", "write", "429 clean"),
        ),
    ),
    Mutant(
        name="the moment of the asking",
        why="what the server's clock said counts for when it was asked, however long the answer took",
        applied=flaw("engine.ports:ServersClock.heard", ("for one in (before, after)", "for one in (after, after)")),
        tested_by=CLOCK,
    ),
    Mutant(
        name="the slowest answer",
        why="an answer that took long makes the clock less exact, and sets it back",
        applied=flaw("engine.ports:ServersClock.heard", ("min(max(self._began, earliest), latest)", "earliest")),
        tested_by=CLOCK,
    ),
    Mutant(
        name="never set back",
        why="a server whose clock was set back is not followed",
        applied=flaw(
            "engine.ports:ServersClock.heard", ("min(max(self._began, earliest), latest)", "max(self._began, earliest)")
        ),
        tested_by=CLOCK,
    ),
    Mutant(
        name="a wall clock of its own",
        why="a replica goes by its machine's wall clock",
        applied=flaw(
            "engine.ports:ServersClock.now", ("self._began + timedelta(seconds=self.monotonic())", "self.own.now()")
        ),
        tested_by=f"{OF_FLEET}::test_time_goes_on_with_the_monotonic_clock_whatever_becomes_of_the_wall_clock",
    ),
    Mutant(
        name="no L",
        why="an attempt is stored without how long a byte of it may still leave",
        applied=flaw("engine.execute:Executor._record_sending", ("late_s=self._settings.late_s", "late_s=0.0")),
        shown_by=STALLED,
    ),
    Mutant(
        name="a lease that goes on",
        why="the lease of a replica is renewed while its loop stands",
        applied=flaw("ledger.ownership:Membership.beat", ('"beat": now, "state"', '"beat": now + 12 * LEASE, "state"')),
        shown_by=(plain("fleet, killed"), *HELD_UP),
    ),
    Mutant(
        name="reads for a minute",
        why="a replica still asks the service when its partners may be another's",
        applied=flaw("engine.ports:Fleet.beat", ("lease(began + READS_FOR_S)", "lease(began + 60.0)")),
        tested_by=f"{OF_FLEET}::test_a_beat_lets_read_for_less_than_the_lease_lasts",
    ),
    Mutant(
        name="a minute unused",
        why="after a takeover without a goodbye the quota counts as fresh",
        applied=flaw("reading.gate:Pacer.take_over", ("if not goodbye:", "if False:")),
        tested_by="tests/unit/reading/test_shared_paces.py"
        "::test_without_a_goodbye_the_quota_counts_as_used_up_and_is_not_forbidden",
    ),
    Mutant(
        name="a wait that nobody goes on with",
        why="what a 429 asked for is stored, and who takes the partner over does not look at it",
        applied=flaw("reading.gate:Pacer.take_over", ("if isinstance(blocked_s, int | float):", "if False:")),
        shown_by=(at("fleet, killed soon", "read", "429, Retry-After ten years", 7),),
    ),
    Mutant(
        name="counted on",
        why="a replica that is told of no partner has its share all the same",
        applied=flaw("engine.ports:Fleet.beat", ('if self._state != "stopping":', 'if self._state == "starting":')),
        tested_by=f"{OF_FLEET}::test_who_is_told_of_no_partner_is_not_counted_on",
    ),
    Mutant(
        name="watched on",
        why="who was given up watches on what another has now",
        applied=flaw("engine.ports:Fleet.beat", ("self.mine = frozenset()\n        return", "return")),
        tested_by=f"{OF_FLEET}::test_who_was_given_up_watches_nothing_until_the_next_beat",
    ),
)
MUTANTS = {**OF_ONE, **{one.name: one for one in _ALL}}
