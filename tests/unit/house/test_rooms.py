"""Rooms that a stranger can read: folders, small modules, names, private words, docstrings.

Some rules are ratchets: a figure below that is better than before replaces the figure here, and a
worse one fails. ``python -m tests.unit.house.test_rooms`` prints the figures.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

from tests.support.imports import PACKAGE, ROOT, graph, modules
from tests.support.sources import tree
from tests.unit.house.test_house import bound_names

FOLDER_MODULES_MAX = 25
SMALL_MODULE_LINES, SMALL_MODULE_IMPORTERS = 50, 3
PRIVATE_WORDS = frozenset(
    {
        "one", "said", "there", "made", "held", "kept", "known", "told", "here", "behind", "mine",
        "others", "taken", "stands", "way", "asked", "shown", "done", "lost", "mark", "found",
    }
)  # fmt: skip
"""words that say nothing of what a value is"""
PRIVATE_WORDS_PER_1000 = 5.5
"""a ratchet; deltalake and pymysql have none, sqlglot has two"""
STATES_DESCRIBED = 0
"""a ratchet: functions that change something, and whose docstrings describe a state"""
FORWARDING_PERCENT = 0.9
"""a ratchet: methods that only pass a call on"""
FROZEN_ROOMS = ("convert", "expressions", "alter")
FROZEN_LINES = 5640
"""a ratchet: lines of code of the emulation of what MySQL computes, which gets no new forms
(docs/design/expressions.md)"""
NAMELESS = 56
"""a ratchet: modules whose public names have no word of the module's name. Those that are left are
named after what their names are about (``rules.masking`` has ``masked``)."""
SMALL_FOR_A_REASON = {
    "binlog.types.geometry_vector": "GEOMETRY and VECTOR are stored as no other type is",
    "delta.files.variant_struct": "``statistics`` and ``delta_columns``, which imports it, use it",
    "expressions.syntax": "what the readers of expressions hand to their resolution",
    "service.many_workers_daemon": "Spark starts it by its name",
    "service.receiver_parent": "Python's fork server imports it by its name",
}
"""modules with fewer lines and importers than the least -> why they are no part of another"""
UNIT_TESTED_PERCENT = 44
"""a ratchet: modules after which a unit test file is named"""
UNIT_TESTS_OF_NO_MODULE = {"cli/test_jobs.py": "tests jobs/, which is no part of the package"}
"""unit test files whose names begin with no module's name"""


def folders() -> Counter[str]:
    """Modules of each folder, without its ``__init__``."""
    paths = [path for path in modules().values() if path.name != "__init__.py"]
    return Counter(path.parent.as_posix().partition(f"/{PACKAGE}/")[2] for path in paths)


def small() -> dict[str, int]:
    """Modules that are small and have few importers -> their lines."""
    importers = Counter(other for others in graph().values() for other in others)
    sizes = {
        name: len(path.read_bytes().splitlines())
        for name, path in modules().items()
        if path.name not in ("__init__.py", "__main__.py")
    }
    return {
        name: lines
        for name, lines in sizes.items()
        if lines < SMALL_MODULE_LINES and importers[name] < SMALL_MODULE_IMPORTERS
    }


def twins() -> dict[str, list[str]]:
    """Basenames that several modules have."""
    names: dict[str, list[str]] = {}
    for name, path in modules().items():
        if path.name not in ("__init__.py", "__main__.py"):
            names.setdefault(path.stem, []).append(name)
    return {stem: where for stem, where in names.items() if len(where) > 1}


def _stems(name: str) -> list[str]:
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower().strip("_").split("_")
    return [word.removesuffix("s").removesuffix("e")[:6] for word in words if word]


def public_names(source: ast.Module) -> Iterator[str]:
    for node in source.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not node.name.startswith("_"):
                yield node.name
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name) and not target.id.startswith("_"):
                    yield target.id
        elif (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and not node.target.id.startswith("_")
        ):
            yield node.target.id


def tells_nothing(stem: str, source: ast.Module) -> bool:
    """Whether no public name of a module contains a word of the module's name."""
    public = list(public_names(source))
    words = set(_stems(stem))
    return bool(public) and not any(words & set(_stems(name)) for name in public)


@cache
def private_words() -> tuple[Counter[str], int]:
    """(how often each private word is the name of something that is bound, all bindings)."""
    names: Counter[str] = Counter()
    total = 0
    for path in modules().values():
        source = tree(path)
        bound = [name for name, _ in bound_names(source)]
        bound += [node.name for node in ast.walk(source) if isinstance(node, ast.ClassDef)]
        bound = [name.strip("_") for name in bound if name != "self"]
        total += len(bound)
        names.update(name for name in bound if name in PRIVATE_WORDS)
    return names, total


STATE = re.compile(r"\s*(Whether|What|How many|How|Those|The same|That|Where|When)\b")


def described_as_states(source: ast.Module) -> Iterator[int]:
    """The lines of functions that assign attributes, and whose docstring is no command."""
    for node in ast.walk(source):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            properties = {ast.unparse(decorator) for decorator in node.decorator_list}
            text = ast.get_docstring(node) or ""
            changes = any(
                isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store)
                for inner in ast.walk(node)
            )
            if changes and STATE.match(text) and not properties & {"property", "cached_property"}:
                yield node.lineno


def forwards(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method only calls a method of one of its object's parts, with its own arguments."""
    body = node.body[1:] if ast.get_docstring(node) else node.body
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr):
        return False
    call = body[0].value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    part = call.func.value
    own = isinstance(part, ast.Attribute) and ast.unparse(part).startswith("self.")
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    parameters = {argument.arg for argument in [*node.args.args, *node.args.kwonlyargs]}
    return own and all(isinstance(arg, ast.Name) and arg.id in parameters for arg in given)


def forwarding() -> tuple[int, int]:
    """(methods that only forward, all methods)."""
    methods = [
        node
        for path in modules().values()
        for owner in ast.walk(tree(path))
        if isinstance(owner, ast.ClassDef)
        for node in owner.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return sum(map(forwards, methods)), len(methods)


def untyped_options(source: ast.Module) -> Iterator[int]:
    """The lines of functions with ``**options: Any``: mypy checks no call of them."""
    for node in ast.walk(source):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            rest = node.args.kwarg
            if rest is not None and rest.annotation and ast.unparse(rest.annotation) == "Any":
                yield node.lineno


def nameless() -> list[str]:
    """Modules that have a name of which none of their public names has a word."""
    return [
        name
        for name, path in modules().items()
        if path.name not in ("__init__.py", "__main__.py") and tells_nothing(path.stem, tree(path))
    ]


@cache
def unit_tests() -> dict[str, str | None]:
    """Unit test file -> the module that its name begins with.

    ``tests/unit/relay/test_log.py`` and ``test_log_readers.py`` test ``relay/log.py``. A folder's
    name stands for its ``__init__``.
    """
    folder, package = ROOT / "tests" / "unit", modules()
    tested: dict[str, str | None] = {}
    for path in sorted(folder.rglob("test_*.py")):
        place = path.relative_to(folder)
        if place.parts[0] == "house":
            continue
        words = path.stem.split("_")[1:]
        stems = ["_".join(words[:count]) for count in range(len(words), 0, -1)]
        names = [".".join([*place.parent.parts, stem]) for stem in stems]
        if place.parent.parts and place.parent.name in stems:
            names.append(".".join(place.parent.parts))
        tested[place.as_posix()] = next((name for name in names if name in package), None)
    return tested


@cache
def annotated_graph() -> dict[str, set[str]]:
    """Module -> modules of its room that it imports, also those for type checkers only."""
    known = modules()
    edges: dict[str, set[str]] = {name: set() for name in known}
    for name, path in known.items():
        package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom) and node.level:
                start = package[: len(package) - node.level + 1]
                origin = [*start, *(node.module.split(".") if node.module else [])]
                for alias in node.names:
                    whole = ".".join([*origin, alias.name])
                    target = whole if whole in known else ".".join(origin)
                    if target != name and target.split(".")[0] == name.split(".")[0]:
                        edges[name].add(target)
    return edges


def reached(start: str) -> set[str]:
    """All modules that a module reaches by imports, itself only if there is a cycle."""
    seen: set[str] = set()
    todo = [start]
    while todo:
        for target in annotated_graph().get(todo.pop(), ()):
            if target not in seen:
                seen.add(target)
                todo.append(target)
    return seen


def in_cycles() -> Counter[str]:
    """Modules of each room that are in a cycle of imports, those for type checkers counted."""
    return Counter(name.split(".")[0] for name in annotated_graph() if name in reached(name))


def test_there_are_no_cycles_of_annotations() -> None:
    assert in_cycles() == {}


def test_no_folder_has_too_many_modules() -> None:
    large = {name: n for name, n in folders().items() if n > FOLDER_MODULES_MAX}
    assert large == {}


def test_small_modules_have_a_reason() -> None:
    assert set(small()) == set(SMALL_FOR_A_REASON)


def test_no_two_modules_have_one_name() -> None:
    assert twins() == {}


def test_modules_name_what_they_have() -> None:
    assert len(nameless()) <= NAMELESS, nameless()


def test_private_words_become_fewer() -> None:
    words, total = private_words()
    assert 1000 * words.total() / total <= PRIVATE_WORDS_PER_1000, words.most_common(10)


def test_docstrings_of_commands_are_commands() -> None:
    wrong = [f"{n}:{at}" for n, path in modules().items() for at in described_as_states(tree(path))]
    assert len(wrong) <= STATES_DESCRIBED, wrong


def test_methods_that_only_forward_become_fewer() -> None:
    count, methods = forwarding()
    assert 100 * count / methods <= FORWARDING_PERCENT


def code_lines(text: str) -> int:
    """Lines of a module without docstrings, comments and blank lines."""
    words = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in words
        for number, line in enumerate(text.splitlines(), 1)
    )


def frozen_lines() -> int:
    """Lines of code of the rooms that only become smaller."""
    return sum(
        code_lines(path.read_text("utf-8"))
        for name, path in modules().items()
        if name.split(".")[0] in FROZEN_ROOMS
    )


def test_the_emulation_of_mysql_becomes_no_larger() -> None:
    assert frozen_lines() <= FROZEN_LINES


def test_unit_tests_are_named_after_modules() -> None:
    nameless = {path for path, module in unit_tests().items() if module is None}
    assert nameless == set(UNIT_TESTS_OF_NO_MODULE)


def unit_tested_percent() -> float:
    """Modules after which a unit test file is named, of 100 modules without ``__init__``."""
    names = {name for name, path in modules().items() if not path.stem.startswith("__")}
    return 100 * len(names & set(unit_tests().values())) / len(names)


def test_modules_with_a_unit_test_become_more() -> None:
    assert unit_tested_percent() >= UNIT_TESTED_PERCENT


def test_no_function_takes_untyped_options() -> None:
    wrong = {n for n, path in modules().items() if list(untyped_options(tree(path)))}
    assert wrong == set()


def test_the_rules_of_rooms_bite() -> None:
    assert tells_nothing("told_apart", ast.parse("class Channel: pass"))
    assert not tells_nothing("table_names", ast.parse("def name_of(): pass"))
    source = "class A:\n def a(self):\n  '''Whether it is.'''\n  self.b = 1\n"
    assert list(described_as_states(ast.parse(source))) == [2]
    assert list(described_as_states(ast.parse(source.replace("Whether it is", "Set it")))) == []
    (method,) = ast.parse("def a(self, b):\n return self._c.a(b)").body
    assert isinstance(method, ast.FunctionDef) and forwards(method)
    (method,) = ast.parse("def a(self, b):\n return self._c.a(b + 1)").body
    assert isinstance(method, ast.FunctionDef) and not forwards(method)
    assert list(untyped_options(ast.parse("def f(**options: Any): pass"))) == [1]
    assert code_lines('"""Text."""\n\n# why\nA = 1\n"""two\nlines"""\nB = 2\n') == 2


if __name__ == "__main__":
    words, total = private_words()
    print("folders", folders().most_common(8))
    print("small", small())
    print("twins", twins())
    print("names that tell nothing", len(nameless()), nameless())
    print("private words per 1,000", round(1000 * words.total() / total, 1), words.most_common())
    states = [f"{n}:{at}" for n, p in modules().items() for at in described_as_states(tree(p))]
    print("states", len(states), states)
    print("forwarding %", round(100 * forwarding()[0] / forwarding()[1], 1))
    print("annotation cycles", in_cycles())
    print("lines of the frozen rooms", frozen_lines())
    print("unit-tested modules %", round(unit_tested_percent(), 1))
    print("options", [n for n, p in modules().items() if list(untyped_options(tree(p)))])
