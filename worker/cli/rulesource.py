"""The rule folder as the daemon sees it: a hash that is cheap to ask for, and a load that is whole or nothing."""

from pathlib import Path

from worker.model.rules import RuleSet
from worker.rules.files import files_hash
from worker.rules.load import load_rules
from worker.rules.registry import Registry


class FolderSource:
    """Rules from a folder or a file."""

    def __init__(self, path: Path, registry: Registry) -> None:
        self._path = path
        self._registry = registry

    def files_hash(self) -> str:
        """See `worker.rules.files.files_hash`."""
        return files_hash(self._path)

    def load(self) -> RuleSet:
        """The rule set. Raises `InputErrors` with every mistake."""
        return load_rules(self._path, self._registry)
