"""Output of commands: a dict as lines or as JSON, a run's result, and tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..observe.screen import columns

if TYPE_CHECKING:
    from ..observe.reports.applier_status import Result


def emit(fields: Any, as_json: bool) -> None:
    """Print the fields as one JSON object on the last line of standard output, or as
    ``name: value`` lines."""
    if as_json:
        print(json.dumps(fields, default=str))
        return
    for name, value in fields.items():
        print(f"{name}: {json.dumps(value, default=str) if isinstance(value, dict) else value}")


def print_result(result: Result, as_json: bool) -> None:
    """Print a run's result; as lines, only the part that users need after a run."""
    emit(_fields(result) if as_json else _lines(result), as_json)
    if result.tail and not as_json:
        print(f"Not applied: {result.tail}", file=sys.stderr)


def _lines(result: Result) -> dict[str, str]:
    """Return what was applied, in which time, and up to where; ``notes``: what is unusual."""
    counters = result.counters
    applied = [_counted(counters.transactions, "transaction"),
               _counted(counters.row_changes, "row change")]  # fmt: skip
    if counters.statements:
        applied.append(_counted(counters.statements, "statement"))
    unusual = {
        "transactions that some table had already": counters.already,
        "skipped transactions": counters.skipped,
        "retries": counters.retries + counters.task_retries,
        "zero dates": counters.zero_dates,
        "values with bytes without a character": counters.text_errors,
    }
    notes = [f"{name}: {number:,}" for name, number in unusual.items() if number]
    lines = {
        "applied": ", ".join(applied),
        "seconds": f"{result.seconds:,.1f}",
        "relay_position": result.relay_position,
        "gtid_executed": result.gtid_executed,
        "notes": "; ".join(notes + counters.warnings),
    }
    return {name: text for name, text in lines.items() if text}


def _counted(number: int, noun: str) -> str:
    """Return the number with the noun, in its plural if need be: "1,347 transactions"."""
    return f"{number:,} {noun}" + ("s" if number != 1 else "")


def print_results(results: Mapping[str, Result], as_json: bool) -> None:
    """Print the results of several channels, by name."""
    if as_json:
        emit({name: _fields(result) for name, result in results.items()}, True)
        return
    for name, result in results.items():
        print(f"channel: {name}")
        print_result(result, False)


def _fields(result: Result) -> dict[str, Any]:
    counters = result.counters
    return {
        "transactions": counters.transactions,
        "row_changes": counters.row_changes,
        "groups": counters.groups,
        "waves": counters.waves,
        "cuts": counters.cuts,
        "statements": counters.statements,
        "statements_by_way": counters.ways,
        "seconds": round(result.seconds, 3),
        "gtid_executed": result.gtid_executed,
        "relay_position": result.relay_position,
        "retries": counters.retries,
        "task_retries": counters.task_retries,
        "already_there": counters.already,
        "skipped": counters.skipped,
        "applied_at_start": counters.at_start,
        "zero_dates": counters.zero_dates,
        "text_errors": counters.text_errors,
        "warnings": counters.warnings,
        "tail": result.tail,
    }


def print_table(names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print columns as wide as their longest cell. Cells are never cut: users copy them."""
    for line in columns(names, rows):
        print(line)


def cells(names: Sequence[str], line: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a line: blank for None, but not for zero."""
    return tuple("" if line[name] is None else str(line[name]) for name in names)
