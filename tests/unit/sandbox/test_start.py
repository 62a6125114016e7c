"""What an operator asks of a twin on the command line is what it does, and what makes no sense is refused by name."""

from pathlib import Path

import pytest

from tests.builders import cases
from worker.sandbox.app import page
from worker.sandbox.faults import Fault, Match
from worker.sandbox.settings import SandboxInputError
from worker.sandbox.start import FIRST_DAY, FIRST_PARTNER, built, fault_from, setting_from

CHOSEN = Match(method="PUT", path="/client_campaign_status")


@cases(
    "text, fault",
    ("storm", Fault(kind="storm"), "a kind alone hits everything once"),
    ("storm for_s=20 retry_after=5", Fault(kind="storm", params={"for_s": 20, "retry_after": 5}), "with params"),
    ("cut_after POST", Fault(kind="cut_after", match=Match(method="POST")), "for one method"),
    ("cut_after write", Fault(kind="cut_after", match=Match(method="WRITE")), "for every write"),
    (
        "answer_after PUT /client_campaign_status times=2 skip=1 status=503",
        Fault(kind="answer_after", match=CHOSEN, times=2, skip=1, params={"status": 503}),
        "for one path, twice, after the first",
    ),
    ("garbage ^/events/$ times=null", Fault(kind="garbage", match=Match(path="^/events/$"), times=None), "always"),
    (
        "stale_reads partner=partner-id-harbour-hall host=api",
        Fault(kind="stale_reads", match=Match(partner="partner-id-harbour-hall", host="api")),
        "for one partner",
    ),
    ("{kind: vanish, params: {eid: e3}}", Fault(kind="vanish", params={"eid": "e3"}), "as in a story"),
)
def test_a_fault_is_asked_for_in_a_line(text: str, fault: Fault) -> None:
    assert fault_from(text) == fault


@cases(
    "text, words",
    ("", "fault.kind cannot be ''", "nothing"),
    ("storm for=20", "fault.params have no 'for', did you mean 'for_s'", "another param"),
    ("slow PUT client_campaign_status", "not 'CLIENT_CAMPAIGN_STATUS'; a path has a / in it", "no path"),
    ("storm host=moon", "fault.match.host cannot be 'moon'", "no such host"),
    ("{[", "is not YAML", "no YAML"),
)
def test_a_fault_that_makes_no_sense_is_refused(text: str, words: str) -> None:
    with pytest.raises(SandboxInputError, match=words):
        fault_from(text)


def test_a_setting_is_a_name_and_a_value() -> None:
    assert setting_from("page_parameter=p") == ("page_parameter", "p")
    assert setting_from("users=[{username: a, password: b}]")[1] == [{"username": "a", "password": "b"}]
    with pytest.raises(SandboxInputError, match="write name=value"):
        setting_from("page_parameter")


@cases(
    "dialect, settings, words",
    ("tense", [], "unknown dialect 'tense', did you mean 'terse'", "no such dialect"),
    ("standard", ["page=p"], "unknown key 'page' in settings", "no such setting"),
    ("standard", ["task_fails=OFF"], "cannot be 'OFF'", "no value of it"),
)
def test_a_beginning_that_makes_no_sense_is_refused(dialect: str, settings: list[str], words: str) -> None:
    with pytest.raises(SandboxInputError, match=words):
        built(None, None, FIRST_DAY, dialect=dialect, settings=settings)


def test_the_last_word_is_the_command_lines(tmp_path: Path) -> None:
    story = tmp_path / "story.yaml"
    story.write_text("settings: {page_parameter: q, task_duration_s: 9}\nevents: 3\n", "utf-8")
    service = built(story, None, FIRST_DAY, dialect="terse", settings=["task_duration_s=1"], faults=["storm"])

    found = service.settings
    assert (found.setup_draft, found.page_parameter, found.task_duration_s) == ("draft", "q", 1)
    assert [fault.kind for fault in service.faults.left] == ["storm"]


def test_the_page_shows_what_is_not_as_usual() -> None:
    usual = built(None, None, FIRST_DAY)
    other = built(None, None, FIRST_DAY, dialect="toggling", faults=[f"cut_after PUT partner={FIRST_PARTNER}"])

    assert "Settings" not in page(usual)
    for words in ("<td>setup_after_publish</td><td>absent</td><td>readable</td>", f"PUT {FIRST_PARTNER}", "cut_after"):
        assert words in page(other)
