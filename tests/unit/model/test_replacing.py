"""The faster `replace` gives what the standard one gives."""

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from worker.model.ids import EventId, PartnerId, RuleId
from worker.model.memory import RuleMemory
from worker.model.replacing import replace


def test_it_replaces_what_the_standard_one_replaces() -> None:
    memory = RuleMemory(partner=PartnerId("p"), event=EventId("e"), rule=RuleId("r"), episode=3)
    at = datetime(2026, 3, 1, tzinfo=UTC)
    assert replace(memory, episode=4, fired_at=at) == dataclasses.replace(memory, episode=4, fired_at=at)
    assert replace(memory) == memory
    assert memory.episode == 3


def test_a_field_that_does_not_exist_is_refused() -> None:
    memory = RuleMemory(partner=PartnerId("p"), event=EventId("e"), rule=RuleId("r"), episode=3)
    with pytest.raises(AttributeError):
        replace(memory, epsiode=4)  # type: ignore[call-arg]


def test_a_record_that_checks_itself_is_checked_again() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Positive:
        number: int

        def __post_init__(self) -> None:
            if self.number < 0:
                raise ValueError("negative")

    assert replace(Positive(number=1), number=2).number == 2
    with pytest.raises(ValueError, match="negative"):
        replace(Positive(number=1), number=-1)


def test_a_record_of_one_field_is_replaced_too() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Single:
        number: int

    assert replace(Single(number=1), number=2) == Single(number=2)
