"""A secret that cannot be printed by accident.

Passwords and tokens travel in this wrapper, so that no log line, exception or dataclass repr can show one: the text
comes out of ``reveal`` only, and that is called where a request is built and nowhere else.
"""

from collections.abc import Callable


class Secret:
    """A secret text, or where to get it now: a file may be replaced while the process runs."""

    __slots__ = ("_source",)

    def __init__(self, source: str | Callable[[], str]) -> None:
        self._source = source

    def reveal(self) -> str:
        """The text itself."""
        return self._source if isinstance(self._source, str) else self._source()

    def __repr__(self) -> str:
        return "Secret(…)"

    def __str__(self) -> str:
        return "…"
