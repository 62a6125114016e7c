"""Makes cases.json of the public test data of CEL: ``python -m tests.conformance FOLDER``.

The folder is tests/simple/testdata of google/cel-spec, texts in the format of protocol buffers. Of it are taken the
files about values that JSON and a clock have, and of each case its text, what its names stand for, and what it gives.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

FILES = (
    *("basic", "comparisons", "conversions", "fields", "fp_math", "integer_math", "lists", "logic", "macros"),
    *("macros2", "parse", "plumbing", "string", "timestamps"),
)
CASES = Path(__file__).with_name("cases.json")
_TOKEN = re.compile(r"""\s+|\#[^\n]*|(?P<token>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[\w.+-]+|\[[\w./]+\]|[{}<>:,;])""")
_ESCAPE = re.compile(
    r"\\(?:[xX](?P<byte>[0-9a-fA-F]{1,2})|(?P<octal>[0-7]{1,3})"
    r"|(?:u|U0)(?P<code>(?<=u)[0-9a-fA-F]{4}|[0-9a-fA-F]{7})|(?P<letter>.))"
)
LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
BYTES = 0x10FF00
"""Where the bytes of numbered escapes are put aside: no character of the data."""
Message = dict[str, list[Any]]


def message_of(tokens: list[str]) -> Message:
    """The fields of a message, up to its end; each may stand several times."""
    found: Message = {}
    while tokens and tokens[-1] not in ("}", ">"):
        name = tokens.pop()
        if name in (",", ";"):
            continue
        if tokens[-1] == ":":
            tokens.pop()
        if tokens[-1] in ("{", "<"):
            tokens.pop()
            value: Any = message_of(tokens)
            tokens.pop()
        elif tokens[-1][0] in "\"'":
            value = b""
            while tokens and tokens[-1][0] in "\"'":
                value += text_of(tokens.pop())
        else:
            value = tokens.pop()
        found.setdefault(name, []).append(value)
    return found


def text_of(token: str) -> bytes:
    """The bytes of a text: numbered escapes stand for bytes, but for \\u and \\U, which stand for characters."""

    def plain(found: re.Match[str]) -> str:
        byte, letter = found["byte"] or found["octal"], found["letter"]
        if byte:
            return chr(int(byte, 16 if found["byte"] else 8) + BYTES)
        return chr(int(found["code"], 16)) if found["code"] else LETTERS.get(letter, letter)

    text = _ESCAPE.sub(plain, token[1:-1])
    return b"".join(bytes([ord(char) - BYTES]) if ord(char) >= BYTES else char.encode() for char in text)


def value_of(value: Message) -> Any:  # noqa: ANN401 # JSON
    """A value as [kind, JSON]."""
    ((kind, (inner, *_)),) = value.items()
    if kind == "list_value":
        return ["list", [value_of(one) for one in inner.get("values", [])]]
    if kind == "map_value":
        entries = inner.get("entries", [])
        return ["map", [[value_of(one["key"][0]), value_of(one["value"][0])] for one in entries]]
    if kind in ("string_value", "type_value"):
        return [kind.removesuffix("_value"), inner.decode()]
    if kind == "bytes_value":
        return ["bytes", inner.hex()]
    if kind == "object_value":
        ((name, (fields, *_)),) = inner.items()
        short = name.strip("[]").rpartition(".")[2]
        return [
            short,
            {field: parts[0] for field, parts in fields.items()} if short in ("Duration", "Timestamp") else None,
        ]
    return [kind.removesuffix("_value").removesuffix("64"), inner]


def cases_of(name: str, text: str) -> list[dict[str, Any]]:
    """The cases of one file."""
    tokens = [token for found in _TOKEN.finditer(text) if (token := found["token"])]
    found = []
    for section in message_of(tokens[::-1])["section"]:
        for case in section.get("test", []):
            path = "/".join((name, section["name"][0].decode(), case["name"][0].decode()))
            one: dict[str, Any] = {"name": path, "text": case["expr"][0].decode()}
            bound = {each["key"][0].decode(): each["value"][0] for each in case.get("bindings", [])}
            if bound:
                one["with"] = {
                    key: value_of(each["value"][0]) if "value" in each else ["error", None]
                    for key, each in bound.items()
                }
            if "value" in case:
                one["gives"] = value_of(case["value"][0])
            elif "typed_result" in case:
                one["gives"] = value_of(case["typed_result"][0]["result"][0])
            else:
                one["gives"] = (
                    ["error", None] if "eval_error" in case or "any_eval_errors" in case else ["bool", "true"]
                )
            found.append(one)
    return found


def main() -> None:
    """Reads the folder and writes the cases, one a line."""
    folder = Path(sys.argv[1])
    cases = [case for name in FILES for case in cases_of(name, (folder / f"{name}.textproto").read_text("utf-8"))]
    lines = ",\n".join(json.dumps(case, ensure_ascii=True) for case in cases)
    CASES.write_text(f"[\n{lines}\n]\n", "utf-8")
    sys.stdout.write(f"{len(cases)} cases in {CASES.name}\n")


if __name__ == "__main__":
    main()
