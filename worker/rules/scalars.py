"""Where each character of a YAML text stands in the file: through quotes, escapes, folding and indentation.

Only white space is ever added, dropped or changed by plain and block texts, so their other characters stand in the file
in the same order; quoted texts change theirs by escapes alone. If the two sides do not agree after all, the answer is
None, and the caller points at the beginning: a place is never invented.
"""

import re

_BLOCK_HEADER = re.compile(r"[|>][^\n]*\n?")
_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|\r?\n[ \t]*|.)", re.DOTALL)
_BREAK = re.compile(r"[ \t]*\r?\n[ \t\r\n]*")


def offsets_of(raw: str, text: str) -> list[int] | None:
    """For each character of ``text``, and for its end, the offset in ``raw``, which is the scalar as it is written."""
    if raw.startswith('"'):
        return _double_quoted(raw, text)
    if raw.startswith("'"):
        return _by_visible(_single_quoted_units(raw), text)
    header = _BLOCK_HEADER.match(raw)
    begin = header.end() if header is not None else 0
    return _by_visible([(raw[index], index) for index in range(begin, len(raw))], text)


def _single_quoted_units(raw: str) -> list[tuple[str, int]]:
    """The characters within single quotes; a doubled quote is one."""
    units: list[tuple[str, int]] = []
    index = 1
    while index < len(raw) - 1:
        units.append((raw[index], index))
        index += 2 if raw.startswith("''", index) else 1
    return [*units, (" ", max(len(raw) - 1, 0))]


def _by_visible(units: list[tuple[str, int]], text: str) -> list[int] | None:
    """Matches the visible characters one by one; white space stands right behind what comes before it."""
    visible = [(char, index) for char, index in units if not char.isspace()]
    places: list[int] = []
    position = 0
    last = visible[0][1] if visible else (units[0][1] if units else 0)
    for char in text:
        if char.isspace():
            places.append(last)
            last += 1
            continue
        if position >= len(visible) or visible[position][0] != char:
            return None
        places.append(visible[position][1])
        last = visible[position][1] + 1
        position += 1
    return [*places, last]


def _double_quoted(raw: str, text: str) -> list[int] | None:
    places: list[int] = []
    index = 1
    while len(places) < len(text) and index < len(raw):
        escape = _ESCAPE.match(raw, index)
        folded = _BREAK.match(raw, index)
        if escape is not None:
            if "\n" not in escape.group():
                places.append(index)
            index = escape.end()
        elif folded is not None:
            blank = folded.group().count("\n") - 1
            places.extend([index] * max(blank, 1))
            index = folded.end()
        else:
            places.append(index)
            index += 1
    return [*places, index] if len(places) == len(text) else None
