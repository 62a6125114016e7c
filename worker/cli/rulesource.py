"""The rule folder as the daemon sees it: a hash that is cheap to ask for, and a load that is whole or nothing."""

import hashlib
from pathlib import Path

from worker.model.errors import InputErrors
from worker.model.rules import RuleSet
from worker.rules.load import files_hash, load_rules
from worker.rules.registry import Registry


class FolderSource:
    """Rules from a folder or a file."""

    def __init__(self, path: Path, registry: Registry) -> None:
        self._path = path
        self._registry = registry

    def files_hash(self) -> str:
        """The hash of what is on disk now; where it cannot be read, of the trouble, so that a load will say it."""
        try:
            return files_hash(self._path)
        except InputErrors as error:
            return "unreadable " + hashlib.sha256(str(error).encode()).hexdigest()

    def load(self) -> RuleSet:
        """The rule set. Raises `InputErrors` with every mistake."""
        return load_rules(self._path, self._registry)
