"""What lies in a rule folder is a rule, or is named as what it is: nothing is passed over in silence."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from worker.model.errors import InputErrors
from worker.rules.load import files_hash, load_rules, read_files

NOBODY = 65534
RULE = "rules: [{{id: {0}, when: event.status == 'cancelled', do: [pause]}}]\n"


def write(folder: Path, name: str, rule: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(RULE.format(rule), "utf-8")
    return file


@contextmanager
def folder_of_somebody() -> Iterator[Path]:
    """A folder that a user without rights may read; while the block lasts, a superuser has none."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@contextmanager
def without_rights() -> Iterator[None]:
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if before == 0:
            os.seteuid(before)


NOWHERE = "is a link that leads nowhere"
DENIED = "cannot be read: Permission denied"
TROUBLES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "a link to a file that is gone": (lambda at: (at / "odd.yaml").symlink_to("nowhere.yaml"), "odd.yaml", NOWHERE),
    "a link to a folder that is gone": (lambda at: (at / "team").symlink_to("nowhere"), "team", NOWHERE),
    "a link to itself": (lambda at: (at / "odd.yaml").symlink_to("odd.yaml"), "odd.yaml", NOWHERE),
    "a link that leads back": (
        lambda at: (at / "deep" / "up").symlink_to(".."),
        "deep/up",
        "leads back to a folder that it stands in",
    ),
    "a folder in a file's place": (
        lambda at: (at / "odd.yaml").mkdir(),
        "odd.yaml",
        "is a folder, and named like a file of rules",
    ),
    "a file that is none": (lambda at: os.mkfifo(at / "odd.yaml"), "odd.yaml", "is no file that can be read"),
    "a file that may not be read": (lambda at: write(at, "odd.yaml", "odd").chmod(0), "odd.yaml", DENIED),
    "a folder that may not be read": (lambda at: (at / "odd").mkdir(mode=0), "odd", DENIED),
}


@pytest.mark.parametrize("trouble", list(TROUBLES))
def test_what_could_hold_rules_and_cannot_be_read_is_an_error_that_names_it(trouble: str) -> None:
    make, name, message = TROUBLES[trouble]
    with folder_of_somebody() as folder:
        write(folder, "deep/good.yaml", "good")
        assert [rule.id for rule in load_rules(folder).rules] == ["good"]
        make(folder)

        with without_rights(), pytest.raises(InputErrors) as caught:
            load_rules(folder)

        assert [(one.file, one.message) for one in caught.value.problems] == [(str(folder / name), message)]
        assert caught.value.problems[0].hint
        with without_rights():
            assert files_hash(folder).startswith("unreadable "), "a running worker sees that something changed"


def test_links_are_followed_inside_of_the_folder(tmp_path: Path) -> None:
    """As a ConfigMap is mounted: each file a link into a folder that is itself a link to the newest version."""
    write(tmp_path / "rules", "..2026/a.yaml", "linked-file")
    (tmp_path / "rules" / "..data").symlink_to("..2026")
    (tmp_path / "rules" / "a.yaml").symlink_to("..data/a.yaml")
    (tmp_path / "link").symlink_to("rules")
    for folder in ("rules", "link"):
        assert [rule.id for rule in load_rules(tmp_path / folder).rules] == ["linked-file"]


def test_a_link_out_of_the_folder_shows_nobody_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "secret").write_text("password: hunter2hunter2")
    (tmp_path / "team").mkdir()
    (tmp_path / "rules" / "a.yaml").symlink_to(tmp_path / "secret")
    (tmp_path / "rules" / "team").symlink_to("../team")
    (tmp_path / "rules" / "notes.txt").symlink_to(tmp_path / "secret")  # no rule, so nobody reads it
    with pytest.raises(InputErrors) as caught:
        load_rules(tmp_path / "rules")
    assert [one.message for one in caught.value.problems] == ["is a link that leads out of the folder"] * 2
    assert "hunter2" not in str(caught.value)


def test_what_is_hidden_is_a_test_or_has_another_ending_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "counts")
    for name in (".hidden.yaml", ".git/b.yaml", "tests/t.yaml", "deep/tests/t.yaml", "c.yml", "d.txt"):
        write(tmp_path, name, "does-not")
    for name in (".#a.yaml", "notes.txt", "tests/t2.yaml"):
        (tmp_path / name).symlink_to("nowhere")

    assert [rule.id for rule in load_rules(tmp_path).rules] == ["counts"]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nowhere", "there is no such file or folder"),
        ("a.yaml/deeper", "there is no such file or folder"),
        ("link", NOWHERE),
    ],
)
def test_where_there_are_no_rules_at_all_is_told(tmp_path: Path, place: str, message: str) -> None:
    write(tmp_path, "a.yaml", "counts")
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(InputErrors, match=message):
        load_rules(tmp_path / place)


def test_files_are_given_by_name_and_one_that_cannot_be_read_is_named() -> None:
    with folder_of_somebody() as folder:
        rule = write(folder, "a.yaml", "counts")
        assert dict(read_files(folder)) == {str(rule): rule.read_text("utf-8")}
        rule.chmod(0)
        with without_rights(), pytest.raises(InputErrors, match=DENIED):
            read_files(folder)
