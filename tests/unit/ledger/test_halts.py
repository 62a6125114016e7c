"""A person's stop holds from the moment it returns, in every process, until it is lifted or runs out."""

from pathlib import Path

import pytest

from tests.unit.ledger.examples import (
    ACME,
    NOW,
    RULE,
    PollView,
    after,
    key,
    kinds,
    mark_in,
    open_ledger,
    place_in,
    plan,
    planned,
    record,
    sent,
    to_sending,
)
from worker.ledger.mark import SLOT_BYTES
from worker.ledger.sql import SqlLedger
from worker.model.commits import LogFilter
from worker.model.errors import NotSafe
from worker.model.facts import PartnerId, RuleId


def test_a_halt_is_seen_by_the_next_sending_of_another_process(ledger: SqlLedger, tmp_path: Path) -> None:
    (write,) = planned(ledger)
    with open_ledger(tmp_path) as operator:
        halt = operator.append_halt(because="prices are wrong", by="ann", at=after(1))
    look = PollView()

    record(ledger, to_sending(write, after(2)), look, amount=None)

    assert look.view.halts == (halt,)
    assert ledger.halts(after(2)) == (halt,)


def test_a_halt_ends_by_itself_when_its_time_is_over_and_a_persons_end_of_it_is_in_the_log(ledger: SqlLedger) -> None:
    halt = ledger.append_halt(partner=ACME, rule=RULE, until=after(60), because="prices", by="ann", at=NOW)
    assert (ledger.halts(after(59.9)), ledger.halts(after(60))) == ((halt,), ())
    ledger.resume_halts(because="mended", by="bob", at=after(1))

    halted, resumed = ledger.log(LogFilter())

    assert (halted["kind"], halted["by"], halted["partner"], halted["rule"]) == ("halted", "ann", ACME, RULE)
    assert halted["why"] == "until 2026-01-31 12:01:00 UTC: prices"
    assert (resumed["kind"], resumed["by"], resumed["why"]) == ("resumed", "bob", "mended")
    assert ledger.halts(after(1)) == ()


def test_resuming_ends_only_what_it_names(ledger: SqlLedger) -> None:
    whole = ledger.append_halt(because="x", by="ann", at=NOW)
    partner = ledger.append_halt(partner=ACME, because="x", by="ann", at=NOW)
    rule = ledger.append_halt(rule=RULE, because="x", by="ann", at=NOW)

    assert ledger.resume_halts(partner=PartnerId("other"), because="y", by="ann", at=NOW) == ()
    assert ledger.resume_halts(rule=RuleId("other"), because="y", by="ann", at=NOW) == ()
    assert ledger.resume_halts(partner=ACME, because="y", by="ann", at=NOW) == (partner,)
    assert ledger.halts(NOW) == (whole, rule)
    assert ledger.resume_halts(because="y", by="ann", at=NOW) == (whole, rule)
    assert kinds(list(ledger.log(LogFilter()))) == ["halted"] * 3 + ["resumed"] * 3
    assert [halt.id for halt in (whole, partner, rule)] == [1, 2, 3]


def test_the_mark_moves_with_what_a_person_says_and_with_nothing_else(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    with open_ledger(tmp_path) as ledger:
        (write,) = planned(ledger)
        ledger.mark_words()
        assert mark_in(tmp_path).seq == 0, "the worker's own records"
        ledger.append_halt(because="prices", by="ann", at=NOW)
        halted = ledger.last_seq()
        ledger.mark_words()
        assert mark_in(tmp_path).seq == halted
        before = place.mark.read_bytes()
        ledger.mark_words()
        assert place.mark.read_bytes() == before, "said already"
        ledger.resume_halts(because="mended", by="ann", at=NOW)
        sent(ledger, write, NOW)
        sending = mark_in(tmp_path).seq
        ledger.mark_words()
        assert mark_in(tmp_path).seq == sending, "never back to an earlier word"
        ledger.append_halt(because="again", by="ann", at=NOW)

    with open_ledger(tmp_path) as ledger:
        ledger.mark_words()
        assert mark_in(tmp_path).seq == ledger.last_seq(), "what was said while no daemon ran"


def two_sent_with_a_word_between(folder: Path) -> int:
    """A ledger in which a person said something, not marked yet, before the second sending; its backup lacks that
    sending, and the half of the mark that names it is spoilt. Returns its number."""
    place = place_in(folder)
    with open_ledger(folder) as ledger:
        first, second = planned(ledger, plan(key(1)), plan(key(1, event="e2")))
        sent(ledger, first, NOW)
        ledger.append_halt(because="prices", by="ann", at=NOW)
        ledger.backup(folder / "backup.db")
        sent(ledger, second, NOW)
        newest = ledger.last_seq()
    body = bytearray(place.mark.read_bytes())
    slot = body.index(f'"seq": {newest}'.encode()) // SLOT_BYTES
    body[slot * SLOT_BYTES : slot * SLOT_BYTES + 9] = bytes(9)
    place.mark.write_bytes(body)
    assert mark_in(folder).seq < newest
    return newest


def test_a_word_does_not_stand_for_the_sending_that_a_spoilt_half_of_the_mark_named(tmp_path: Path) -> None:
    two_sent_with_a_word_between(tmp_path)
    (tmp_path / "backup.db").replace(tmp_path / "worker.db")

    with pytest.raises(NotSafe, match="shows no sending after that"):
        open_ledger(tmp_path)


def test_a_mark_that_is_made_whole_again_names_the_last_sending_and_no_word_before_it(tmp_path: Path) -> None:
    newest = two_sent_with_a_word_between(tmp_path)

    with open_ledger(tmp_path) as ledger:
        ledger.mark_words()
    assert mark_in(tmp_path).seq == newest
    (tmp_path / "backup.db").replace(tmp_path / "worker.db")
    with pytest.raises(NotSafe, match="was restored or lost records"):
        open_ledger(tmp_path)


@pytest.mark.parametrize("body", [None, b"", b"x" * 9000], ids=["taken away", "emptied", "overwritten"])
def test_a_mark_that_is_damaged_beside_a_running_daemon_is_put_back(tmp_path: Path, body: bytes | None) -> None:
    place = place_in(tmp_path)
    with open_ledger(tmp_path) as daemon:
        (write,) = planned(daemon)
        sent(daemon, write, NOW)
        before = mark_in(tmp_path).seq
        place.mark.unlink()
        if body is not None:
            place.mark.write_bytes(body)

        daemon.mark_words()

        assert mark_in(tmp_path).seq == before
        with open_ledger(tmp_path) as operator:
            operator.append_halt(because="prices", by="ann", at=NOW)
