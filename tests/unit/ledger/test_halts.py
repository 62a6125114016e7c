"""A person's stop holds from the moment it returns, in every process, until it is lifted or runs out."""

from pathlib import Path

from tests.unit.ledger.examples import ACME, NOW, RULE, Look, after, kinds, open_ledger, planned, record, to_sending
from worker.ledger.sql import SqlLedger
from worker.model.commits import LogFilter
from worker.model.ids import PartnerId, RuleId


def test_a_halt_is_seen_by_the_next_sending_of_another_process(ledger: SqlLedger, tmp_path: Path) -> None:
    (write,) = planned(ledger)
    with open_ledger(tmp_path) as operator:
        halt = operator.append_halt(because="prices are wrong", by="ann", at=after(1))
    look = Look()

    record(ledger, to_sending(write, after(2)), look, amount=None)

    assert look.view.halts == (halt,)
    assert ledger.halts(after(2)) == (halt,)


def test_a_halt_and_its_end_are_in_the_log(ledger: SqlLedger) -> None:
    ledger.append_halt(partner=ACME, rule=RULE, until=after(60), because="prices", by="ann", at=NOW)
    ledger.resume_halts(because="mended", by="bob", at=after(1))

    halted, resumed = ledger.log(LogFilter())

    assert (halted["kind"], halted["by"], halted["partner"], halted["rule"]) == ("halted", "ann", ACME, RULE)
    assert halted["why"] == "until 2026-01-31 12:01:00 UTC: prices"
    assert (resumed["kind"], resumed["by"], resumed["why"]) == ("resumed", "bob", "mended")
    assert ledger.halts(after(1)) == ()


def test_a_halt_ends_by_itself_when_its_time_is_over(ledger: SqlLedger) -> None:
    halt = ledger.append_halt(until=after(60), because="x", by="ann", at=NOW)

    assert ledger.halts(after(59.9)) == (halt,)
    assert ledger.halts(after(60)) == ()


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
