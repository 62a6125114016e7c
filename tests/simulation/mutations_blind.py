"""Flaws that were written without sight of the judge, the scenes and the other flaws, by somebody who had read the
contract and the worker alone. ``why`` is the order of events that was foretold to show each.

Of 44, the worlds that there were found 15. Five more were found once a world was made for them, three once the judge
had a claim as well, and 18 are found by a test that is named with each: no world has what they need. Two changed
nothing that anybody could see, because another guard stands behind each: a pre-flight is ended with its process, and
a stop waits for what it has overtaken. In their place stand two that take that guard away. One is not in the table,
because nothing finds it: see docs/proof.md.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from unittest.mock import patch

from tests.simulation.mutations import Mutant, at, flaw, plain, several
from tests.simulation.mutations_fleet import MUTANTS as OF_ALL_BEFORE
from tests.simulation.nemesis import Try
from worker.api import exchanges
from worker.ledger import reading, rows

_UNKNOWN = 'return RuleResult(memory=memory, held=Hold(reason="fact_unknown"'


def constants(*values: tuple[str, object]) -> Callable[[], AbstractContextManager[None]]:
    """Names of modules that have another value."""

    @contextmanager
    def applied() -> Iterator[None]:
        with ExitStack() as stack:
            for name, value in values:
                stack.enter_context(patch(name, value))
            yield

    return applied


_BLIND: tuple[Mutant, ...] = (
    Mutant(
        name="an attempt may leave for as long as an applied write is looked for, not for one time-out",
        why="the process is stopped, or its sign-in or connection hangs, for longer than api.timeout between the "
        "record and the first byte; a person halts meanwhile; it wakes and sends",
        applied=flaw(
            "engine.execute:Executor._record_sending",
            ("self._settings.timeout.total_seconds", "self._settings.confirm_within.total_seconds"),
        ),
        shown_by=(at("pause", "write", "stalled 15 s before the first byte"),),
    ),
    Mutant(
        name="any time-out of a request counts as not sent, not only that of the connection",
        why="a write takes effect and its answer does not come within the time-out; the write is planned again and "
        "sent a second time",
        applied=flaw(
            "api.exchanges:outcome_of_error", ("httpx.ConnectTimeout | httpx.PoolTimeout", "httpx.TimeoutException")
        ),
        shown_by=(at("pause", "write", "hang after"),),
    ),
    Mutant(
        name="a 409 is taken for a refusal, so that nothing is looked for behind it",
        why="a 409 hides an effect, or none: the write ends as rejected at once though the contract calls it unknown; "
        "the wanted effect is lost, or the log tells of nothing where there is something",
        applied=constants(("worker.api.exchanges.REFUSALS", exchanges.REFUSALS | {409})),
        shown_by=(at("pause", "write", "409 applied"),),
    ),
    Mutant(
        name="a 2xx whose body breaks off counts as accepted",
        why="the answer to a write that cannot be read back is cut short after its 200; it is confirmed by an answer "
        "that nobody has whole, where a person should be asked",
        applied=flaw(
            "api.exchanges:Exchanges.write", ("is not None:", "is not None and not 200 <= whole.status <= 299:")
        ),
        shown_by=(at("hide", "write", "cut in the answer", 1),),
    ),
    Mutant(
        name="a denied write that no read shows is in doubt where the token had not worked of late, and not where it "
        "had",
        why="a reset, which cannot be read back, takes effect and answers 401 one second after the token was "
        "accepted; it is taken as not sent and sent again",
        applied=flaw("writes.life:_may_have_landed", ("None and ago <=", "None and ago >")),
        shown_by=(at("hide", "write", "403 applied", 1),),
    ),
    Mutant(
        name="an attempt that is proven unsent begins anew how long the write is held",
        why="connections are refused for hours; each attempt begins the hour anew; the write goes off at an odd hour "
        "with nobody asked",
        applied=flaw("writes.life:move", ('(to == "planned" and write.state != "sending")', 'to == "planned"')),
        tested_by="tests/unit/writes/test_states.py::test_since_when_a_write_could_be_sent",
    ),
    Mutant(
        name="attempts proven not sent count against the most that are allowed",
        why="two connections are refused, then a 429 without effect: the write goes to a person as used up, where it "
        "should be sent again",
        applied=flaw("writes.life:_not_sent", ("uncounted=uncounted, ", "")),
        tested_by="tests/unit/writes/test_attempts.py",
    ),
    Mutant(
        name="a pre-flight goes on after the worker was told to stop, and its write is sent",
        why="SIGTERM while a pre-flight reads; the sending is recorded after it",
        applied=several(
            flaw("engine.execute:Executor._record_sending", ("self._stopping() or state.left", "state.left")),
            flaw("engine.daemon:Daemon._finish", ("        task.cancel()\n", "        pass\n")),
        ),
        shown_by=(at("stopped", "write", "slow"),),
    ),
    Mutant(
        name="the facts of a pre-flight may be as old as a time-out, not as an interval",
        why="one of the reads of a pre-flight is slow; the condition turns false meanwhile; the write leaves on facts "
        "older than an interval",
        applied=flaw("engine.preflight:Preflight._too_old", ("self._settings.interval", "self._settings.timeout")),
        shown_by=(at("draft taken away", "read", "slow", 7),),
    ),
    Mutant(
        name=("whether a record is too old is asked before the connection is made, and not once it stands"),
        why="making the connection takes longer than a time-out, or the process is stopped in it; the bytes leave all "
        "the same",
        applied=flaw("api.transport:Wire.write", ("if late():\n                raise Stale\n            ", "")),
        shown_by=(at("pause", "write", "stalled 15 s before the first byte"),),
    ),
    Mutant(
        name="after a restart the wait before another attempt goes on by the wall clock",
        why="a crash while a write is unknown; the wall clock is ahead after the restart, or the machine was off; "
        "three reads, and it is sent again long before settle has passed; a late effect lands as well",
        applied=flaw(
            "engine.settle:Settler.settle",
            (
                "settling = Settling(ended=self._clock.monotonic(), looked_at=looked_at, late_s=late_s)",
                (
                    "gone_s = max(0.0, (self._clock.now() - write.changed_at).total_seconds())\n"
                    "        settling = Settling(ended=self._clock.monotonic() - gone_s,"
                    " looked_at=looked_at, late_s=late_s)"
                ),
            ),
        ),
        tested_by="tests/engine/test_restarted_often.py"
        "::test_an_unknown_write_reaches_a_person_also_where_no_process_lives_long_enough",
    ),
    Mutant(
        name="reads of the target count each, however close together",
        why="the list and a read of the event itself show the target twice within a second: three reads in a row do "
        "not span three intervals",
        applied=flaw("writes.life:_counted", ("policy.interval.total_seconds() if settling.absent > 0 else ", "")),
        tested_by="tests/unit/writes/test_row_of_evidence.py",
    ),
    Mutant(
        name="a read that cannot tell keeps the row of absences before it",
        why=("absent, cannot tell, absent, absent: the third absence makes the row, though they were not in a row"),
        applied=flaw("writes.life:_counted", ("absent=0, last_read", "last_read")),
        shown_by=(Try(scene="boost", named=(("write", 0, "503 clean"), ("read", 15, "fields missing"))),),
    ),
    Mutant(
        name="one more attempt is made than max_attempts allows",
        why=("three attempts come to nothing, each proved absent: a fourth is made where a person is to be asked"),
        applied=flaw("writes.life:attempts_left", ("write.counted <", "write.counted <=")),
        shown_by=(Try(scene="stubborn", always=("write", "cut before")),),
    ),
    Mutant(
        name="an opposite write makes an absence doubtful only where it was sent before, not after",
        why="a run is unknown and has landed, a pause overtakes it and is confirmed; reads show PAUSED as before the "
        "run, which is now proved absent, though it had its effect",
        applied=flaw("writes.evidence:covered", ("other.sending_order >= sent", "other.sending_order < sent")),
        shown_by=(at("overtaken", "write", "504 after 8 s, applied after 11 s"),),
    ),
    Mutant(
        name="a failed read of the event after a 404 of the setup counts as its answer",
        why="a create_draft is unknown and has landed; for a while the service answers 404 for the setup and fails "
        "for the event; the setup counts as absent and is created twice",
        applied=flaw("engine.settle:Settler.reconcile", ("isinstance(event, Known)", "event is not None")),
        shown_by=(Try(scene="launch", named=(("write", 0, "429 clean"), ("read", 12, "cut"))),),
    ),
    Mutant(
        name="a list of campaigns that is not whole is taken as it is where anything stands in it",
        why="a create_campaign is unknown and has landed on page 2, which cannot be read; page 1 shows it absent; it "
        "is created again",
        applied=flaw("api.client:ApiService._campaigns", ("if lacks:", "if lacks and not campaigns:")),
        tested_by="tests/engine/test_whole_lists.py"
        "::test_what_a_list_does_not_show_is_no_proof_and_what_it_shows_is"
        "[where no later page can be asked for, no campaign is started]",
    ),
    Mutant(
        name=("what else has come into the list beside a campaign that is to be created is no third value"),
        why="a create_campaign lands under another spelling or run, or another hand creates one: the list has gained "
        "one, and it reads as before; it is sent again",
        applied=flaw("writes.evidence:_campaign", ("sorted(names, key=str)", "[]")),
        tested_by="tests/unit/writes/test_evidence.py"
        "::test_a_list_that_has_gained_or_lost_a_campaign_is_a_third_value_for_one_that_was_to_be_created",
    ),
    Mutant(
        name="a stop is sent anew as soon as a read disagrees, without waiting until none can lag",
        why="a pause overtakes an unknown run, both land in order; the run is confirmed late by a lagging read, and "
        "the next lagging read still shows RUNNING: the pause is sent a second time",
        applied=flaw(
            "writes.life:_undone",
            ("- settling.ended - settling.late_s >= policy.settle.total_seconds()", ">= settling.ended"),
        ),
        tested_by="tests/unit/writes/test_overtaking.py::test_a_read_that_may_lag_sends_nothing_anew",
    ),
    Mutant(
        name="a halt is read before the pre-flight, and not again with the record",
        why="halt returns while a pre-flight is under way; the write is recorded as sending after it",
        applied=flaw("guards:held_in_transaction", ("halted(situation) or ", "")),
        shown_by=(plain("one rule halted"),),
    ),
    Mutant(
        name="the limit of a rule for a day is counted for each event",
        why="per_rule_per_day: 1 and two events: both are written to",
        applied=flaw("engine.views:held_by_pace", ("view.rule_sendings()", "view.sendings")),
        tested_by="tests/unit/engine/test_waits.py"
        "::test_a_rule_fires_for_as_many_events_a_day_as_it_may_and_the_others_are_held",
    ),
    Mutant(
        name="money of an unknown write counts no more once the write is put before a person",
        why="a boost whose answer was lost goes to needs_human (a third value, no evidence); the next one passes "
        "spend.per_day though the first has spent",
        applied=constants(
            (
                "worker.ledger.rows.PROVE_ABSENCE",
                {**rows.PROVE_ABSENCE, "unknown": (*rows.PROVE_ABSENCE["unknown"], "needs_human")},
            )
        ),
        shown_by=(Try(scene="dear week", named=(("write", 0, "429 applied"),), blind_s=(10.9, 150.0)),),
    ),
    Mutant(
        name="only writes that the service accepted count for the hour",
        why="writes_per_hour: 2; two writes get 429 and are unknown; a third is sent in the same hour",
        applied=constants(("worker.ledger.reading._SENT", reading._SENT.where(reading._A.outcome == "accepted"))),
        shown_by=(at("few an hour", "write", "429 applied"),),
    ),
    Mutant(
        name="a stop overtakes any other write, another stop of the same target too",
        why="a pause is unknown, its effect is late; the condition goes and comes, a second pause is sent beside the "
        "first",
        applied=flaw(
            "guards:_may_overtake", (" and not other.intent.stops and other.intent.wish != write.intent.wish", "")
        ),
        shown_by=(at("called off and on", "write", "504 applied after 8 s"),),
    ),
    Mutant(
        name=("whether a boost spends more than was approved is asked of what it carries itself, not of the draft"),
        why="a boost is approved at 500, the draft's budget is raised to 900 before it is sent: 900 are published "
        "unasked",
        applied=flaw("guards:as_approved", ("budget_of(situation)", "amount_of(situation.write.intent)")),
        tested_by="tests/unit/guards/test_checks.py"
        "::test_a_boost_spends_all_the_money_of_the_draft_and_the_range_is_for_its_total_budget",
    ),
    Mutant(
        name="spend.per_day is compared with what was sent for the same event",
        why="per_day: 1000; three events with 500 each within a day: 1500 are sent",
        applied=flaw("guards:held_by_spend", ("counted, now, DAY", "of_event, now, DAY")),
        shown_by=(plain("dear"),),
    ),
    Mutant(
        name="the next step starts after one that no read ever confirmed",
        why="do: [update_draft, boost]: the draft's update is accepted and has no effect; it ends unconfirmed, and "
        "the boost publishes the old draft",
        applied=flaw("guards:sequence", ('!= "confirmed"', 'not in ("confirmed", "unconfirmed")')),
        tested_by="tests/unit/guards/test_checks.py::test_a_step_starts_when_the_ones_before_are_done",
    ),
    Mutant(
        name="an unknown look begins `for` anew",
        why="for: 10m, and one read fails every few minutes: the rule never fires",
        applied=flaw(
            "engine.episodes:decide_condition",
            (_UNKNOWN, f"memory = replace(memory, true_since=None)\n            {_UNKNOWN}"),
        ),
        tested_by="tests/unit/engine/test_episodes.py::test_for_counts_from_the_first_definite_true_look",
    ),
    Mutant(
        name="whatever becomes of a field that the rule itself writes counts as its own doing",
        why="a rule watches setup and updates the draft's budget to 500; another hand sets it to 700 while the write "
        "is not final: the change moves the baseline and fires nothing",
        applied=flaw("engine.changes:_with_own", (" and alike(value[name], wanted.get(name, value[name]))", "")),
        tested_by=("tests/unit/engine/test_changes_fired.py::test_another_value_than_its_own_write_wanted_is_a_change"),
    ),
    Mutant(
        name="a change that a key of the rule has held for long counts as kept by something unknown",
        why=("on_change with cooldown: 2h: what the cooldown held fires into waiting, where it is to go off by itself"),
        applied=flaw("engine.changes:_overdue", ("memory.pending_unheld_since", "memory.pending_since")),
        tested_by="tests/unit/engine/test_changes.py"
        "::test_what_its_own_keys_held_for_longer_than_the_gap_does_not_wait",
    ),
    Mutant(
        name="which of two answers is the older goes by the wall clock",
        why="the wall clock is set back by an hour: for that hour every answer counts as older than what is known, "
        "and no cancelled event is seen",
        applied=flaw(
            "engine.state:_older",
            (
                "return told and isinstance(new, Known) and _began(new) < _began(old)",
                (
                    "stamp = old.read_at\n"
                    "    return told and isinstance(new, Known) and stamp is not None and new.read_at < stamp"
                ),
            ),
        ),
        shown_by=(at("pause", "read", "clock an hour back", 3),),
    ),
    Mutant(
        name="a window that reaches beyond what was kept takes the oldest value that is left",
        why="changes were pruned after 8 days, then a rule asks delta over 14 days: it is computed from what is left, "
        "and fires on a figure that nobody knows",
        applied=flaw(
            "engine.derived:_Record.end",
            ("self.blind.append((_EVER, now - (self.kept or timedelta()), NOT_KEPT))\n    ", ""),
        ),
        tested_by="tests/engine/test_windows.py"
        "::test_a_rule_that_asks_further_back_than_was_kept_is_unknown_until_it_is",
    ),
    Mutant(
        name="enforcing goes on after a write that reads never confirmed",
        why="repeat: enforce; the service accepts a run and it never shows: it is sent again every ten minutes, for "
        "ever",
        applied=constants(("worker.engine.episodes.BAD_ENDS", frozenset({"rejected", "refused"}))),
        shown_by=(at("enforce for long", "write", "a person undoes it"),),
    ),
    Mutant(
        name="a write before a person ends with its episode though nothing proves it absent",
        why="a boost is unknown and goes to a person; the condition turns false: it ends as skipped, its money counts "
        "as not spent, and it has landed",
        applied=flaw(
            "engine.episodes:ends_of",
            ('(write.state == "needs_human" and write.absent_proved)', 'write.state == "needs_human"'),
        ),
        shown_by=(at("called off, before a person", "write", "504 applied after 8 s"),),
    ),
    Mutant(
        name="a rule whose firing is held has no wish yet, so that a weaker one may act against it",
        why="a rule of priority 10 wants PAUSED and is held by its cooldown or `for`; the rule of priority 0 runs the "
        "campaign meanwhile",
        applied=flaw("engine.planning:standing_wishes", ("memory.open)", "memory.open and memory.fired)")),
        tested_by="tests/unit/engine/test_conflicts.py"
        "::test_a_rule_wishes_as_long_as_its_episode_is_open_also_while_its_firing_is_held",
    ),
    Mutant(
        name="`again` also reopens what reads never confirmed",
        why=("a boost was accepted, reads lagged until it was unconfirmed, a person says again: it is sent twice"),
        applied=flaw(
            "engine.operators:ended_without_effect",
            ("WITHOUT_EFFECT and not may_have_effect(write)", '{*WITHOUT_EFFECT, "unconfirmed"}'),
        ),
        shown_by=(at("again, unconfirmed", "write", "a person undoes it"),),
    ),
    Mutant(
        name="`--not-applied` grants an attempt beyond all that are allowed, not exactly one",
        why="one attempt was made, a person says --not-applied: up to three more follow by themselves",
        applied=flaw("writes.life:_verdict", ("write.counted + 1 - policy.max_attempts", "write.extra_attempts + 1")),
        tested_by="tests/unit/writes/test_people.py::test_not_applied_grants_exactly_one_more_attempt",
    ),
    Mutant(
        name="an undo does not look whether another hand came in between since it was planned",
        why="an undo of a pause waits (halt); another hand sets RUNNING and then PAUSED of its own will; the undo "
        "sets RUNNING over it",
        applied=flaw(
            "engine.execute:Executor._judged",
            (" if write.sent else touched_meanwhile(self._ledger, write, others)", ""),
        ),
        shown_by=(plain("undone, there and back"),),
    ),
    Mutant(
        name="resume of one partner ends a halt of everything as well",
        why=("halt of everything and halt of a partner; resume --partner: the other partners write again"),
        applied=flaw(
            "ledger.sql:SqlLedger.resume_halts",
            ("partner in (None, one.partner)", "(partner in (None, one.partner) or one.partner is None)"),
        ),
        tested_by="tests/unit/ledger/test_halts.py::test_resuming_ends_only_what_it_names[file]",
    ),
    Mutant(
        name=("`again` leaves the episode's number, so that a decision of the same moment is stored over it"),
        why="`again` returns while the daemon decides on the memory as it was: its commit takes the place of the "
        "reopening, and nothing fires; or `again` of the same write twice, both accepted",
        applied=flaw("engine.operators:_reopened", ("memory.episode + 1", "memory.episode")),
        tested_by="tests/engine/test_again.py::test_an_episode_is_reopened_once",
    ),
    Mutant(
        name="a mark that cannot be written is passed over, and the write is sent",
        why="the disk is full for the mark: the byte leaves, a backup of before is put back and fits the old mark: "
        "the write is sent twice",
        applied=flaw(
            "ledger.sql:SqlLedger._remember",
            (
                "raise SendingUnmarked(str(error), write=sent, hint=error.hint) from error",
                "del error  # the next mark tells of it",
            ),
        ),
        shown_by=(at("many at once", "mark", "disk full"),),
    ),
    Mutant(
        name="a ledger belongs to its mark as soon as it has a record of that number",
        why="a backup is put back and commands append records until it is as long as the mark says: it starts, and "
        "sends again what it has forgotten",
        applied=flaw(
            "ledger.mark:compared",
            ("mark.hash != (found.hash if mark.seq else GENESIS)", "mark.seq and found.hash is None"),
        ),
        tested_by="tests/unit/ledger/test_sendings.py::test_what_was_said_in_a_ledger_that_was_put_back_moves_no_mark",
    ),
    Mutant(
        name="after an accepted restore only pairs that the ledger knows wait for a person",
        why="a ledger restored to before an event was met: its condition is true at the first poll, and it is acted "
        "on a second time without a word of a person's",
        applied=flaw(
            "engine.views:silence_before",
            ("(looked is None or looked < memory.restored_at)", "looked is not None and looked < memory.restored_at"),
        ),
        shown_by=(plain("mark lost"),),
    ),
)
MUTANTS = {**OF_ALL_BEFORE, **{one.name: one for one in _BLIND}}
