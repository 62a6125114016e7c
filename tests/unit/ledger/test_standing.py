"""Who only looks gets the answer of a start, beside a daemon that goes on meanwhile."""

from pathlib import Path

import pytest

from tests.unit.ledger.examples import NOW, key, open_ledger, plan, planned, sent
from worker.ledger import mark as standing
from worker.ledger.mark import Mark, read_mark
from worker.ledger.places import LedgerPlace
from worker.ledger.reading import open_reading


def test_a_daemon_that_sends_while_the_mark_is_looked_at_makes_no_ledger_look_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter(range(1, 100))

    def sending(place: LedgerPlace) -> Mark | None:
        """Reads the mark, and the daemon has sent before and after that."""
        with monkeypatch.context() as daemons_own:
            daemons_own.setattr(standing, "read_mark", read_mark)
            send()
            mark = read_mark(place)
            send()
        return mark

    with open_ledger(tmp_path) as daemon, open_reading(f"sqlite:///{tmp_path}/worker.db") as reader:

        def send() -> None:
            (write,) = planned(daemon, plan(key(event=f"e{next(numbers)}")))
            sent(daemon, write, NOW)

        send()
        monkeypatch.setattr(standing, "read_mark", sending)
        assert reader.refused() is None
        assert reader.verify() is None
        assert next(numbers) == 6, "the mark was looked at by each, and once"
