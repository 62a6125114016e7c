"""What keeps the code pleasant to read, and what keeps it testable, as ordinary tests over its syntax trees.

Each test lists everything it found, with where and what to do, so that one run is enough to put things right. What
ruff and import-linter know a rule for is asked there: clocks, `assert`, docstrings, one importer, no circle.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from worker.cli.app import COMMANDS, MODULES

ROOT: Final = Path(__file__).resolve().parents[2]
WORKER: Final = ROOT / "worker"

CODE_LINES_MAX: Final = 32_437
"""Code lines of worker/, without comments, docstrings and blanks. It goes down; a commit that raises it says what for.
From 34,220: chapters, one truth, one evaluator, one binder, one cycle for what-if, and less around them.
Of it 44 lines by which the page undoes a write, and 30 by which the log tells of each change of what a rule names."""
FILES_MAX: Final = 130
"""Files of worker/: a file is a chapter, and what is read together stands together."""
FILE_LINES_MAX: Final = 700
FUNCTION_LINES_MAX: Final = 60
PARAMETERS_MAX: Final = 6
VAGUE_WORDS: Final = frozenset({"manager", "helper", "util", "handler", "data", "info"})

ENTRANCES: Final = {"worker/__main__.py": "where a process begins"}

NO_CODE: Final = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One source file, read, parsed and walked through once for all tests."""

    path: str
    text: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]

    def at(self, node: ast.stmt | ast.expr | ast.arg, what: str) -> str:
        return f"{self.path}:{node.lineno}: {what}"


@cache
def modules() -> tuple[Module, ...]:
    return tuple(
        Module(path=file.relative_to(ROOT).as_posix(), text=text, tree=tree, nodes=tuple(ast.walk(tree)))
        for file in sorted(WORKER.rglob("*.py"))
        for text in [file.read_text("utf-8")]
        for tree in [ast.parse(text, filename=str(file))]
    )


def functions(module: Module) -> Iterator[FunctionNode]:
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def complain(found: Sequence[str], rule: str, remedy: str) -> None:
    """Fails with everything that was found at once."""
    if found:
        pytest.fail(f"{rule}\n  " + "\n  ".join(found) + f"\n{remedy}", pytrace=False)


def defined_names(module: Module) -> Iterator[tuple[ast.stmt | ast.expr | ast.arg, str]]:
    for node in module.nodes:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, node.name
        elif isinstance(node, ast.arg):
            yield node, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node, node.id


def dotted_path(module: Module) -> str:
    """`worker.cli.app` for `worker/cli/app.py`, and the package for its `__init__.py`."""
    return module.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported_names(module: Module) -> Iterator[str]:
    """Every imported module by its dotted name, and what is taken from one by name: that may be a module as well."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def words(name: str) -> frozenset[str]:
    """The words of a name in snake_case or CamelCase, in lower case and without a plural's s."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return frozenset(form for part in parts for form in (part.lower(), part.lower().removesuffix("s")))


def test_the_house_does_not_grow_without_a_reason() -> None:
    lines, files = sum(map(code_lines, modules())), len(modules())
    found = [f"{lines} code lines, and it may have {CODE_LINES_MAX}"] if lines > CODE_LINES_MAX else []
    found += [f"{files} files, and it may have {FILES_MAX}"] if files > FILES_MAX else []
    remedy = "Take away before you add, and put a new thing where what it is read with stands; a commit that raises a "
    complain(found, "worker/ has:", f"{remedy}figure says what for.")


def code_lines(module: Module) -> int:
    """Lines on which something stands that is no comment and no docstring."""
    documented = {
        line
        for node in module.nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if ast.get_docstring(node, clean=False) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
    code = {line for one in tokens if one.type not in NO_CODE for line in range(one.start[0], one.end[0] + 1)}
    return len(code - documented)


def test_no_file_is_longer_than_one_sitting() -> None:
    found = [
        f"{module.path}: {lines} lines"
        for module in modules()
        if (lines := len(module.text.splitlines())) > FILE_LINES_MAX
    ]
    complain(found, f"files longer than {FILE_LINES_MAX} lines:", "Give what changes together a file of its own.")


def test_no_function_is_longer_than_a_screen() -> None:
    found = [
        module.at(node, f"{node.name}, {lines} lines")
        for module in modules()
        for node in functions(module)
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]
    remedy = "Let the parent branch and leaves compute: name the steps as functions."
    complain(found, f"functions longer than {FUNCTION_LINES_MAX} lines:", remedy)


def test_a_class_name_exists_once() -> None:
    places: dict[str, list[str]] = {}
    for module in modules():
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(module.at(node, node.name))
    twice = [place for _, found in sorted(places.items()) if len(found) > 1 for place in found]
    complain(twice, "class names that stand twice in worker/:", "Name each for what it is, in the words of the field.")


def is_command(node: FunctionNode) -> bool:
    """A command's options are its parameters; Typer reads them from there, and nobody calls it by hand."""
    return any(ast.unparse(decorator).partition("(")[0].endswith(".command") for decorator in node.decorator_list)


def test_no_function_takes_more_than_six_parameters() -> None:
    def count(node: FunctionNode) -> int:
        named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        variadic = [argument for argument in (node.args.vararg, node.args.kwarg) if argument is not None]
        return len([argument for argument in named if argument.arg not in {"self", "cls"}]) + len(variadic)

    found = [
        module.at(node, f"{node.name}, {count(node)} parameters")
        for module in modules()
        for node in functions(module)
        if count(node) > PARAMETERS_MAX and not is_command(node)
    ]
    remedy = "What travels together is a thing: make it a frozen dataclass with a name."
    complain(found, f"functions with more than {PARAMETERS_MAX} parameters:", remedy)


def test_nothing_has_a_name_that_says_nothing() -> None:
    files = [module.path for module in modules() if words(Path(module.path).stem) & VAGUE_WORDS]
    names = [
        module.at(node, name)
        for module in modules()
        for node, name in defined_names(module)
        if words(name) & VAGUE_WORDS
    ]
    remedy = "Say what it is in the words of the domain: an answer, an observation, a row, a reason."
    complain(files + names, f"names with one of the words {', '.join(sorted(VAGUE_WORDS))}:", remedy)


def test_no_module_is_an_orphan() -> None:
    """A module that nothing of ours imports is either dead, or an entrance with a reason."""
    used = {name for module in modules() for name in imported_names(module)}
    used |= {f"worker.cli.{MODULES.get(name, name)}" for name in COMMANDS}
    found = [
        module.path
        for module in modules()
        if dotted_path(module) not in used
        and not module.path.endswith("__init__.py")
        and "/migrations/" not in module.path
        and module.path not in ENTRANCES
    ]
    remedy = "Wire it in where it is needed, or remove it; an entrance goes into ENTRANCES with its reason."
    complain(found, "modules that no other module imports:", remedy)
