"""How a table, a value and a sentence are spelled in Markdown, and a picture in SVG."""

import json
from collections.abc import Iterable, Sequence
from typing import Final


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with a head line."""
    lines = [head, *rows]
    spelled = ["| " + " | ".join(_cell(text) for text in line) + " |" for line in lines]
    return "\n".join((spelled[0], "|" + "---|" * len(head), *spelled[1:], ""))


def _cell(text: str) -> str:
    """Text that stays in its cell; what looks like a tag is one only to a browser, and not within code."""
    parts = text.replace("|", "\\|").split("`")
    return "`".join(part if number % 2 else part.replace("<", "&lt;") for number, part in enumerate(parts))


def flow(value: object) -> str:
    """A value as one would write it in YAML, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {flow(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(part) for part in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if not value or value[0] in "{[@*&!%'\"=" else value
    return json.dumps(value)


def code(name: str) -> str:
    """A name in the type of code; words stay words."""
    return f"`{name}`" if " " not in name and "-" not in name else name


def sentence(words: str) -> str:
    """Words as a sentence of their own."""
    return f"{words[:1].upper()}{words[1:]}."


_STYLE: Final = (
    "text{font:12px sans-serif;fill:#222}.t{font-weight:bold}.s{font-size:11px}"
    "@media (prefers-color-scheme:dark){svg{background:#fff}}"
)


def picture(title: str, width: int, height: int, parts: Iterable[str]) -> str:
    """A whole picture, on white also where the page around it is dark."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    return "\n".join((head, f"<title>{title}</title>", f"<style>{_STYLE}</style>", *parts, "</svg>\n"))
