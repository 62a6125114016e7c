"""What the library looks for in vain is looked for once, and not several times a request."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

import pytest

from worker.api.transport import SNIFFIO, pooled, single_use


class Asked(MetaPathFinder):
    """Notes what is searched for."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        self.names.append(fullname)
        return None


def test_a_library_that_is_not_installed_is_searched_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, SNIFFIO, raising=False)
    installed = find_spec(SNIFFIO) is not None
    asked = Asked()
    monkeypatch.setattr(sys, "meta_path", [asked, *sys.meta_path])
    for make in (pooled, single_use, pooled):
        make()
        try:
            __import__(SNIFFIO)
        except ImportError:
            assert not installed
        else:
            assert installed
    assert asked.names.count(SNIFFIO) <= (2 if installed else 1)
