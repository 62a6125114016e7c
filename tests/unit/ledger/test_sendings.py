"""No byte without a row and a mark; and what the brakes are shown is true at that moment."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.builders import cases
from tests.unit.ledger.examples import (
    ACME,
    E1,
    NOW,
    RULE,
    PollView,
    after,
    as_stored,
    become,
    intent,
    key,
    mark_in,
    no_brake,
    older_mark,
    open_ledger,
    place_in,
    planned,
    record,
    run_sql,
    sent,
    to_sending,
)
from tests.unit.ledger.examples import plan as on_one_target
from worker.ledger.lock import SenderLock
from worker.ledger.mark import write_mark
from worker.ledger.sql import SqlLedger
from worker.model.commits import Hold, LogFilter, Move, SendingView
from worker.model.errors import LedgerDamaged, LedgerUnwritable, SendingUnmarked
from worker.model.facts import EventId, RuleId
from worker.model.writes import Intent, Plan, State, Write, WriteKey


def plan(write_key: WriteKey | None = None, wanted: Intent | None = None) -> Plan:
    """One whose target no other has: of one target one attempt is open."""
    found = on_one_target(write_key, wanted)
    return replace(found, intent=replace(found.intent, target=f"{found.intent.target} {found.key}"))


def test_a_sending_is_stored_and_marked_before_the_call_returns(ledger: SqlLedger, tmp_path: Path) -> None:
    (write,) = planned(ledger)

    row = sent(ledger, write, after(1))

    mark = mark_in(tmp_path)
    last = list(ledger.log(LogFilter()))[-1]
    assert ledger.write(write.id) == row
    assert (mark.seq, mark.hash) == (last["seq"], last["hash"])
    assert last["kind"] == "sending"


@cases(
    "to, attempt",
    ("waiting", 1, "not a sending"),
    ("sending", 0, "not a new attempt"),
    ("sending", 2, "an attempt left out"),
)
def test_only_the_next_attempt_is_a_sending(ledger: SqlLedger, to: State, attempt: int) -> None:
    (write,) = planned(ledger)
    move = to_sending(write, after(1))
    bent = Move(before=write, after=replace(move.after, state=to, attempt=attempt))

    with pytest.raises(ValueError, match="next attempt"):
        record(ledger, bent, no_brake, amount=None)

    assert ledger.write(write.id) == write


def test_a_brake_lets_nothing_be_recorded_and_is_handed_back(ledger: SqlLedger) -> None:
    (write,) = planned(ledger)
    brake = Hold(reason="spend", why="used up")

    assert record(ledger, to_sending(write, after(1)), lambda _: brake, amount=None) is brake
    assert ledger.write(write.id) == write
    assert ledger.first_sendings(ACME, NOW) == {}
    assert sent(ledger, write, after(2)).attempt == 1


def test_a_mark_that_cannot_be_written_says_so_and_the_write_can_go_back_as_not_sent(
    ledger: SqlLedger, tmp_path: Path
) -> None:
    (write,) = planned(ledger)
    older_mark(tmp_path)
    obstacle = tmp_path / "worker.db.mark.new"
    obstacle.mkdir()

    with pytest.raises(SendingUnmarked) as caught:
        record(ledger, to_sending(write, after(1)), no_brake, amount=None)

    unmarked = caught.value.write
    assert as_stored(ledger, unmarked).state == "sending"
    assert caught.value.exit_code == 3
    assert "space" in caught.value.hint
    obstacle.rmdir()
    back = become(ledger, caught.value.write, "planned", after(2), uncounted=1)
    assert ledger.first_sendings(ACME, NOW) == {}, "an attempt proven unsent counts nowhere"
    assert sent(ledger, back, after(3)).attempt == 2
    ledger.close()
    open_ledger(tmp_path).close()


def test_other_unsettled_writes_of_the_target_are_shown_and_no_others(ledger: SqlLedger) -> None:
    busy, mine, elsewhere, settled, otherwise = planned(
        ledger,
        on_one_target(key(1)),
        on_one_target(key(2)),
        on_one_target(key(1, event="e2")),
        on_one_target(key(3)),
        on_one_target(key(4), intent("run", target="setup")),
    )
    unsettled = become(ledger, sent(ledger, busy, after(1)), "unknown", after(2))
    sent(ledger, elsewhere, after(3))
    become(ledger, sent(ledger, settled, after(4)), "rejected", after(5))
    sent(ledger, otherwise, after(6))
    look = PollView()

    record(ledger, to_sending(mine, after(10)), look, amount=None)

    assert look.view.on_target == (unsettled,)


def test_a_write_in_a_state_that_there_is_not_lets_nothing_pass_on_its_target(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    busy, mine = planned(ledger, on_one_target(key(1)), on_one_target(key(2)))
    sent(ledger, busy, after(1))
    run_sql(tmp_path, f"UPDATE writes SET state = 'sendinG' WHERE id = {busy.id}")  # noqa: S608
    with pytest.raises(LedgerDamaged, match="in no state that there is: 'sendinG'"):
        record(ledger, to_sending(mine, after(2)), PollView(), amount=None)
    ledger.close()


def test_sends_of_the_last_hour_leave_out_what_only_stops_and_what_was_not_sent(ledger: SqlLedger) -> None:
    old, stops, unsent, counts, mine, stranger = planned(
        ledger,
        plan(key(1), intent("run")),
        plan(key(2), intent("pause")),
        plan(key(3), intent("run")),
        plan(key(4), intent("run")),
        plan(key(5), intent("run")),
        plan(key(6, partner="partner-id-other"), intent("run")),
    )
    sent(ledger, old, after(-3601))
    sent(ledger, stops, after(-30))
    sent(ledger, stranger, after(-20))
    become(ledger, sent(ledger, unsent, after(-10)), "planned", after(-5), uncounted=1)
    sent(ledger, counts, after(-3599))
    look = PollView()

    record(ledger, to_sending(mine, NOW), look, amount=None)

    assert look.view.sent_last_hour == (after(-3599),)


def booked(ledger: SqlLedger, write: Write, at: datetime) -> list[tuple[int, float]]:
    """The money that the brake of this write's attempt would be shown, by write."""
    return [(one.write, one.amount) for one in ledger.sending_view(write, at).booked]


@cases(
    "then, counts",
    ([], True, "nobody knows yet"),
    (["unknown"], True, "it may have taken effect"),
    (["unknown", "needs_human"], True, "so it may, and a person is asked"),
    (["unknown", "needs_human", "cancelled"], True, "a person gave it up, and nobody ever knew"),
    (["applied"], True, "it was accepted"),
    (["applied", "unconfirmed"], True, "it was accepted, whatever reads say"),
    (["rejected"], False, "the service said no"),
    (["planned"], False, "it was never sent"),
    (["unknown", "skipped"], False, "it was proved absent, and no longer wanted"),
    (["unknown", "cancelled"], False, "it was proved absent, and its rule is gone"),
    (["unknown", "needs_human", "planned"], False, "a person says that it did not take effect"),
    (["applied", "needs_human", "planned"], False, "so does one of what the service had accepted"),
    (["applied", "needs_human", "skipped"], False, "it was proved absent, though the service had accepted it"),
)
def test_money_counts_as_sent_unless_it_is_known_not_to_be(ledger: SqlLedger, then: list[State], counts: bool) -> None:
    first, mine = planned(ledger, plan(key(1), intent("create_draft")), plan(key(2), intent("create_draft")))
    row = sent(ledger, first, after(1), amount=300.0)
    for step, state in enumerate(then, start=2):
        row = become(ledger, row, state, after(step))

    assert booked(ledger, mine, after(9)) == ([(first.id, 300.0)] if counts else [])


def test_no_write_counts_against_itself(ledger: SqlLedger) -> None:
    first, other = planned(ledger, plan(key(1), intent("create_draft")), plan(key(2), intent("create_draft")))
    unknown = become(ledger, sent(ledger, first, after(1), amount=300.0), "unknown", after(2))
    assert booked(ledger, unknown, after(3)) == []

    sent(ledger, unknown, after(3), amount=400.0)

    assert booked(ledger, other, after(4)) == [(first.id, 400.0)], "the attempt before it is proved absent"


def test_the_money_of_a_week_is_shown_and_an_event_never_forgets(ledger: SqlLedger) -> None:
    long_ago, same, elsewhere, stranger = planned(
        ledger,
        plan(key(1), intent("create_draft")),
        plan(key(2), intent("create_draft")),
        plan(key(1, event="e2"), intent("create_draft")),
        plan(key(1, partner="partner-id-other"), intent("create_draft")),
    )
    sent(ledger, long_ago, after(-8 * 24 * 3600), amount=300.0)
    sent(ledger, stranger, after(-1), amount=70.0)

    assert booked(ledger, same, NOW) == [(long_ago.id, 300.0)]
    assert booked(ledger, elsewhere, NOW) == []

    sent(ledger, elsewhere, after(-6 * 24 * 3600), amount=50.0)
    assert booked(ledger, same, NOW) == [(long_ago.id, 300.0), (elsewhere.id, 50.0)]


def test_an_episode_counts_from_its_first_attempt_that_was_sent(ledger: SqlLedger) -> None:
    one, step, late, unsent = planned(
        ledger, plan(key(1)), plan(key(1, position=1)), plan(key(2)), plan(key(1, event="e2", rule="other"))
    )
    become(ledger, sent(ledger, one, after(1)), "planned", after(2), uncounted=1)
    sent(ledger, step, after(3))
    sent(ledger, late, after(9))
    sent(ledger, unsent, after(4))

    assert ledger.first_sendings(ACME, NOW) == {
        (E1, RULE): [after(3), after(9)],
        (EventId("e2"), RuleId("other")): [after(4)],
    }


def test_a_later_step_of_an_episode_begun_earlier_is_no_new_beginning(ledger: SqlLedger) -> None:
    one, step = planned(ledger, plan(key(1)), plan(key(1, position=1)))
    sent(ledger, one, after(1))
    sent(ledger, step, after(100))

    assert ledger.first_sendings(ACME, NOW + timedelta(seconds=50)) == {}
    assert ledger.first_sendings(ACME, after(1)) == {(E1, RULE): [after(1)]}


def test_which_of_two_was_sent_later_does_not_go_by_a_clock_that_is_set_back(ledger: SqlLedger) -> None:
    one, two = planned(ledger, plan(key(1)), plan(key(2), intent("run")))
    first = sent(ledger, one, after(60))
    second = sent(ledger, two, after(1))
    landed = become(ledger, first, "unknown", after(2))

    assert first.sending_order is not None
    assert second.sending_order is not None
    assert second.sending_order > first.sending_order, "by the wall clock it is a minute older"
    assert landed.change_order > second.sending_order > first.change_order
    assert landed.sending_order == first.sending_order, "what becomes of it does not send it"
    again = sent(ledger, become(ledger, landed, "planned", after(3)), after(3))
    assert again.sending_order is not None
    assert again.sending_order > second.sending_order
    assert two.sending_order is None, "it was not sent then"


def test_a_decision_on_what_was_read_before_does_not_turn_the_order_back(ledger: SqlLedger) -> None:
    """The executor goes on with the write as it recorded it, which does not know its numbers."""
    (write,) = planned(ledger)
    move = to_sending(write, after(1))
    record(ledger, move, no_brake, amount=None)
    assert move.after.sent_seq == 0

    assert become(ledger, move.after, "unknown", after(2)).sent_seq == 2


def put_back(folder: Path) -> None:
    """A backup takes the place of what is in the ledger's file, through SQLite itself."""
    with closing(sqlite3.connect(folder / "backup.db")) as old, closing(sqlite3.connect(folder / "worker.db")) as now:
        old.backup(now)


def test_what_is_put_back_beneath_an_open_ledger_is_never_sent_from_and_the_mark_stays(
    ledger: SqlLedger, tmp_path: Path
) -> None:
    first, second = planned(ledger, plan(key(1)), plan(key(1, event="e2")))
    ledger.backup(tmp_path / "backup.db")
    sent(ledger, first, after(1))
    mark = place_in(tmp_path).mark.read_bytes()
    put_back(tmp_path)

    with pytest.raises(LedgerUnwritable, match="was restored or lost records"):
        record(ledger, to_sending(second, after(2)), no_brake, amount=None)
    with pytest.raises(LedgerUnwritable, match="was restored"):
        ledger.append_halt(because="x", by="ann", at=after(3))
    with pytest.raises(LedgerUnwritable, match="was restored"):
        ledger.mark_words()
    assert place_in(tmp_path).mark.read_bytes() == mark


def test_nothing_is_decided_on_what_was_put_back_beneath_an_open_ledger(ledger: SqlLedger, tmp_path: Path) -> None:
    """It still had the write as planned: a poll that saw its effect ended it as not wanted any more, as if nothing had
    ever been sent."""
    (write,) = planned(ledger)
    ledger.backup(tmp_path / "backup.db")
    become(ledger, sent(ledger, write, after(1)), "applied", after(2))
    put_back(tmp_path)

    with pytest.raises(LedgerUnwritable, match="was restored or lost records"):
        become(ledger, write, "skipped", after(3))
    with closing(sqlite3.connect(tmp_path / "worker.db")) as other:
        assert other.execute("SELECT state FROM writes").fetchall() == [("planned",)]


def test_nor_on_what_has_forgotten_an_operators_word_that_was_noticed(ledger: SqlLedger, tmp_path: Path) -> None:
    """Found by a seeded world: a rule fired by an `again` that the ledger put back did not know."""
    (write,) = planned(ledger)
    ledger.backup(tmp_path / "backup.db")
    with open_ledger(tmp_path) as other:
        other.append_halt(because="x", by="ann", at=after(1))
    ledger.mark_words()
    put_back(tmp_path)

    with pytest.raises(LedgerUnwritable, match="was restored or lost records"):
        become(ledger, write, "skipped", after(3))


def test_nor_does_looking_for_such_a_word_make_what_was_put_back_the_ledger(ledger: SqlLedger, tmp_path: Path) -> None:
    """Found by a seeded world: nothing was sent yet, so no mark told, and what waited was lost without a word."""
    ledger.backup(tmp_path / "backup.db")
    planned(ledger)
    put_back(tmp_path)

    with pytest.raises(LedgerUnwritable, match="was restored or lost records"):
        ledger.mark_words()


def test_records_of_commands_in_between_keep_nobody_from_going_on(ledger: SqlLedger, tmp_path: Path) -> None:
    first, second = planned(ledger, plan(key(1)), plan(key(1, event="e2")))
    with open_ledger(tmp_path) as other:
        other.append_halt(because="x", by="ann", at=after(1))
        other.resume_halts(because="seen", by="ann", at=after(2))

    become(ledger, first, "skipped", after(3))
    sent(ledger, second, after(4))
    assert [one.state for one in ledger.writes()] == ["skipped", "sending"]


def test_what_was_said_in_a_ledger_that_was_put_back_moves_no_mark(ledger: SqlLedger, tmp_path: Path) -> None:
    (write,) = planned(ledger)
    ledger.backup(tmp_path / "backup.db")
    sent(ledger, write, after(1))
    mark = place_in(tmp_path).mark.read_bytes()
    put_back(tmp_path)
    with closing(sqlite3.connect(tmp_path / "worker.db")) as other:
        words = "SELECT seq + 1, at, 'halted', 'x', 'ann', hash, 'h' || seq FROM action_log ORDER BY seq DESC LIMIT 1"
        for _ in range(3):
            other.execute(f"INSERT INTO action_log (seq, at, kind, why, by, prev, hash) {words}")
        other.commit()

    with pytest.raises(LedgerUnwritable, match="was restored or lost records"):
        ledger.mark_words()
    assert place_in(tmp_path).mark.read_bytes() == mark


def with_the_mark_of_another(folder: Path) -> None:
    (folder / "other").mkdir()
    with open_ledger(folder / "other"):
        pass
    shutil.copy(place_in(folder / "other").mark, place_in(folder).mark)


def with_a_mark_ahead(folder: Path) -> None:
    mark = mark_in(folder)
    write_mark(place_in(folder), replace(mark, seq=mark.seq + 7, hash="0" * 64))


@pytest.mark.parametrize("harm", [with_the_mark_of_another, with_a_mark_ahead])
def test_a_mark_that_is_not_this_ledgers_own_past_stops_all_sends(
    ledger: SqlLedger, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    (write,) = planned(ledger)
    harm(tmp_path)
    mark = place_in(tmp_path).mark.read_bytes()

    with pytest.raises(LedgerUnwritable, match="was restored"):
        record(ledger, to_sending(write, after(1)), no_brake, amount=None)
    assert place_in(tmp_path).mark.read_bytes() == mark


def test_a_log_that_is_removed_while_a_sending_is_recorded_keeps_the_byte_from_leaving(
    ledger: SqlLedger, tmp_path: Path
) -> None:
    (write,) = planned(ledger)
    before = mark_in(tmp_path)

    def remove(_: SendingView) -> None:
        place_in(tmp_path).wal.unlink()

    with pytest.raises(SendingUnmarked, match="is not the one that it opened"):
        record(ledger, to_sending(write, after(1)), remove, amount=None)
    assert mark_in(tmp_path) == before


def test_nothing_is_sent_under_a_lock_that_others_cannot_see(ledger: SqlLedger, tmp_path: Path) -> None:
    place = place_in(tmp_path)
    first, second = planned(ledger, plan(key(1)), plan(key(1, event="e2")))
    with SenderLock.acquire(place, now=NOW) as lock:
        ledger.sends_under(lock.identity)
        row = sent(ledger, first, after(1))
        place.lock.unlink()

        with pytest.raises(LedgerUnwritable, match="lock was removed or replaced"):
            record(ledger, to_sending(second, after(2)), no_brake, amount=None)
        with pytest.raises(LedgerUnwritable, match="was removed or replaced"):
            ledger.mark_words()
        become(ledger, row, "applied", after(3))
    assert [one.state for one in ledger.writes()] == ["applied", "planned"], "what was heard of the first is kept"
