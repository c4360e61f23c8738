"""AddActions: the same files as a dict of actions, whether of a checkpoint or of commits."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_repl.delta.log import add_actions
from spark_repl.delta.log.add_actions import AddActions, from_rows
from spark_repl.delta.log.file_rows import ADD, to_rows
from spark_repl.delta.log.log_state import totals_of

Action = dict[str, Any]
PATHS = st.sampled_from(
    [f"{part}{n}.parquet" for part in ("", "a=%20/", "é/", "Z") for n in range(5)]
)


@st.composite
def adds(draw: st.DrawFn) -> Action:
    """An ``add`` action, with a deletion vector or without, and values of partitions."""
    add: Action = {
        "path": draw(PATHS),
        "partitionValues": draw(st.sampled_from([{}, {"p": "1"}, {"p": None}])),
        "size": draw(st.integers(0, 1 << 40)),
        "dataChange": True,
    }
    if draw(st.booleans()):
        add["deletionVector"] = {
            "storageType": "u", "pathOrInlineDv": "ab", "offset": 1, "sizeInBytes": 4,
            "cardinality": draw(st.integers(1, 9)),
        }  # fmt: skip
    return add


@st.composite
def commits(draw: st.DrawFn) -> list[Action]:
    removes = [{"remove": {"path": draw(PATHS)}} for _ in range(draw(st.integers(0, 3)))]
    files = {add["path"]: {"add": add} for add in draw(st.lists(adds(), max_size=3))}
    return draw(st.permutations([*removes, *files.values()]))


def after(files: dict[str, Action], actions: list[Action]) -> dict[str, Action]:
    """Return the result by the protocol: removals come before additions."""
    gone = {action["remove"]["path"] for action in actions if "remove" in action}
    kept = {path: add for path, add in files.items() if path not in gone}
    return kept | {a["add"]["path"]: a["add"] for a in actions if "add" in a}


def size_of(add: Action) -> Action:
    values = {name: add.get(name) for name in ("path", "partitionValues", "size", "stats")}
    return values | {"deleted": add.get("deletionVector", {}).get("cardinality", 0)}


def compare(found: AddActions, files: dict[str, Action]) -> None:
    assert len(found) == len(files) and set(found) == set(files)
    assert dict(found.items()) == files and found == files
    assert sorted(add["path"] for add in found.values()) == sorted(files)
    assert all(found[path] == add for path, add in files.items())
    assert "none" not in found and found.get("none") is None
    paths, vectors = found.paths().to_pylist(), pickle.loads(pickle.dumps(found.vectors()))
    assert vectors.get(-1) is None and vectors.get(len(paths)) is None
    assert paths == list(found)
    with_vector = {path for path, add in files.items() if "deletionVector" in add}
    assert {paths[at] for at in vectors} == with_vector
    assert all(vectors[at] == files[paths[at]]["deletionVector"] for at in vectors)
    assert found.totals() == totals_of(files.values())
    sizes = found.sizes().to_pylist(maps_as_pydicts="strict")
    assert sizes == [size_of(files[path]) for path in paths]


@pytest.mark.parametrize("few", [0, 4, 1_000])
@given(first=st.lists(adds(), max_size=12), then=st.lists(commits(), max_size=6))
def test_files_are_those_of_the_protocol(
    few: int, first: list[Action], then: list[list[Action]]
) -> None:
    """From rows of a checkpoint, or few of them, and folded into them again or not."""
    files = {add["path"]: add for add in first}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(add_actions, "_FEW", few)
        found = from_rows([to_rows([add], ADD) for add in files.values()])
        compare(found, files)
        for actions in then:
            before, found = found, found.after([actions])
            compare(before, files)
            files = after(files, actions)
            compare(found, files)


def test_commits_one_after_the_other_are_those_at_once() -> None:
    first = from_rows([to_rows([{"path": "a", "size": 1}], ADD)])
    commit = [{"remove": {"path": "a"}}, {"add": {"path": "b", "size": 2}}]
    again = [{"add": {"path": "a", "size": 3}}]
    assert first.after([commit, again]) == first.after([commit]).after([again])
    assert list(first) == ["a"], "it stays as it is"
