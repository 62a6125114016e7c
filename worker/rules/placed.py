"""Gives every part of the parser's tree its place in the text.

The parser makes the words ``true`` and ``false`` out of names and loses where they stood, and with them the end, or the
beginning, of all that ends or begins with one. A part without its place cannot be cut out and judged by itself.
"""

import re
from typing import Any

_WORDS = re.compile(
    r"""(?P<skipped>//[^\n]*|[rR]?'''.*?'''|[rR]?\"\"\".*?\"\"\"|[rR]'[^'\n]*'|[rR]"[^"\n]*"
    |'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|\.\s*\w+)|\b(?:true|false)\b""",
    re.VERBOSE | re.DOTALL,
)


def placed(tree: Any, source: str) -> Any:  # noqa: ANN401 - the parser's tree, which only `worker.rules.cel` knows
    """The same tree; its parts know where they begin and end."""
    words = (found for found in _WORDS.finditer(source) if found["skipped"] is None)
    for token in tree.scan_values(lambda one: one.type == "BOOL_LIT"):
        word = next(words)
        token.start_pos, token.end_pos = word.span()
    for part in tree.iter_subtrees():  # from the leaves up
        places = [_span(one) for one in part.children]
        start, end = _span(part)
        if start is None:
            part.meta.start_pos = min((one for one, _ in places if one is not None), default=None)
        if end is None:
            part.meta.end_pos = max((one for _, one in places if one is not None), default=None)
    return tree


def _span(part: Any) -> tuple[int | None, int | None]:  # noqa: ANN401 - as above
    at = getattr(part, "meta", part)  # a word is its own place
    return getattr(at, "start_pos", None), getattr(at, "end_pos", None)
