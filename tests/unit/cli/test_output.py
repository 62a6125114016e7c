"""What commands print for scripts."""

import json
import math

import pytest

from worker.cli.output import print_json


def test_a_number_that_is_not_finite_is_a_text_because_json_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    print_json([{"before": {"bid": math.inf, "budget": 5.5}}])
    printed = capsys.readouterr().out
    assert json.loads(printed, parse_constant=pytest.fail) == [{"before": {"bid": "Infinity", "budget": 5.5}}]


def test_what_people_write_is_printed_as_they_wrote_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"title": "Münster"})
    assert capsys.readouterr().out == '{\n  "title": "Münster"\n}\n'
