"""Problems: what is wrong with a target at one moment, each with a hint.

A full disk is seen by the process that looks: an applier that waits for room on a disk cannot
write so into a file of that disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ...runtime.target_uri import is_remote
from ..reports.verify_status import (
    open_failed_comparisons,
    unrepaired_foreign_changes,
    unrepaired_rows,
)

_RECEIVER_STARTS_S = 60.0
_MOST = 5
"""most problems of one kind that are named"""
_LAST_ERROR = "APPLYING_TRANSACTION_LAST_TRANSIENT_ERROR_MESSAGE"


@dataclass(frozen=True)
class Problem:
    """A problem: ``what`` is wrong, a ``hint``, and the page of ``docs/`` about it, with its
    heading."""

    what: str
    hint: str
    doc: str = ""


def _of_error(kind: object) -> str:
    """Return the heading about a class of errors; of all errors if it is unknown."""
    return f"troubleshooting.md#{str(kind).lower()}" if kind else "troubleshooting.md"


def problems(status: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of a status without its ``problems`` field, the worst first."""
    of_tables = list(_of_tables(status))
    of_target = [
        *_of_disks(status),
        *_of_applier(status),
        *_of_receiver(status),
        *_of_retries(status),
    ]
    verified = _of_verify(status)
    of_target += [Problem(note["what"], note["hint"]) for note in status["notes"]]
    return [*of_target, *_first(of_tables), *verified, *_first(list(_of_branches(status)))]


def _first(listed: list[Problem]) -> list[Problem]:
    more = len(listed) - _MOST
    return [*listed[:_MOST], *([Problem(f"... and {more} more", "see --json")] if more > 0 else [])]


def _of_disks(status: Mapping[str, Any]) -> Iterator[Problem]:
    for disk in status["full_disks"]:
        yield Problem(
            f"the disk of {' and '.join(disk['names'])} is full: {disk['bytes']:,} bytes left at"
            f" {disk['path']}",
            "make room there: the applier waits for it, and then continues; if run has ended,"
            " start it again: spark-repl run --config F",
            "troubleshooting.md#a-disk-is-full",
        )


def _of_applier(status: Mapping[str, Any]) -> Iterator[Problem]:
    owner, state, run = status["owner"], status["state"], status["run"]
    if state == "crashed":
        process = run["process"] if run else owner
        yield Problem(
            f"the applier has crashed: process {process['pid']} is gone, and did not say why",
            "start it again (spark-repl run --config F, or apply): it applies what was not"
            " committed; its log and the kernel's show whether it was killed or lacked memory",
            "troubleshooting.md",
        )
    (coordinator,) = status["replication_applier_status_by_coordinator"]
    if run and run["error"]:
        yield Problem(
            f"run {'has failed' if run['alive'] else 'was stopped'} at {run['at']}: {run['error']}"
            f"{next_attempt_text(run)}",
            run["hint"] or "see docs/operations.md, Errors",
            _of_error(run["kind"]),
        )
    elif state != "starting" and (message := coordinator.get("LAST_ERROR_MESSAGE")):
        yield Problem(
            f"the applier {'has met' if state == 'running' else 'was stopped by'} an error:"
            f" {message}",
            coordinator.get("LAST_ERROR_HINT") or "see docs/operations.md, Errors",
            _of_error(coordinator.get("LAST_ERROR_KIND")),
        )
    if state in ("running", "starting") and not run and not owner["here"]:
        yield Problem(
            f"whether the applier still runs can't be seen from here: it runs on"
            f" {owner['host']}, or in another container",
            "look there",
        )


def next_attempt_text(run: Mapping[str, Any]) -> str:
    """Return the time of the next restart of a failed run, as the end of a sentence."""
    if not run["alive"] or not run["attempt"]:
        return ""
    when = f"at {run['again_at']}, or at SIGHUP" if run["again_at"] else "at SIGHUP"
    return f"; begins again {when} (attempt {run['attempt']})"


def _of_receiver(status: Mapping[str, Any]) -> Iterator[Problem]:
    for receiver in status["replication_connection_status"]:
        state, message = receiver["SERVICE_STATE"], receiver["LAST_ERROR_MESSAGE"]
        hint = receiver.get("LAST_ERROR_HINT") or "see its log"
        doc = _of_error(receiver.get("LAST_ERROR_KIND"))
        if state == "CONNECTING":
            yield Problem(f"the receiver is not connected: {message or 'it is trying'}", hint, doc)
        elif state == "OFF" and message:
            if status["run"] and message in status["run"]["error"]:
                continue  # it ended the run, whose problem names it
            yield Problem(f"the receiver was stopped by an error: {message}", hint, doc)
        elif state == "OFF" and status["state"] == "running" and not _is_new(status["owner"]):
            yield Problem(
                "the receiver does not run: nothing new comes in",
                "run starts it again by itself; without run: spark-repl receive --config F",
            )
        elif receiver["SERVICE_DOING"]:
            yield Problem(
                f"the receiver is {receiver['SERVICE_DOING']}: the relay log is full",
                "the applier makes room when it gets on; or raise relay.space_limit_bytes",
            )
        if error := receiver.get("ARCHIVE_ERROR_MESSAGE"):
            yield Problem(
                f"the relay log is not archived: {error}",
                "the receiver tries again by itself, and goes on without; see relay.archive",
            )


def _is_new(owner: Mapping[str, Any]) -> bool:
    """Return whether an applier began so recently that its receiver may still start."""
    began = datetime.fromisoformat(owner["since"])
    return (datetime.now(UTC) - began).total_seconds() < _RECEIVER_STARTS_S


def _of_verify(status: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what the last verify found: lost tables, rows that differ or are undecided."""
    verified = status.get("verify")
    if not verified:
        return
    reported = {*status["waiting"], *status["quarantined"]}  # problems of their own
    yield from _first([
        Problem(
            f"{name} was not compared at {verified['at']}: {why}",
            f"see it in spark-repl verify --config F --table {name}; to have the source's rows"
            f" again: spark-repl snapshot --config F --table {name}",
        )
        for name, why in open_failed_comparisons(verified).items()
        if name not in reported
    ])  # fmt: skip
    yield from _first([
        Problem(
            f"{name} was changed by another writer in version {change['version']}, seen at"
            f" {verified['at']}: readers of its newest version have rows that are not the source's",
            change["hint"],
        )
        for name, change in unrepaired_foreign_changes(verified).items()
        if name not in reported
    ])  # fmt: skip
    for counted, what, hint in (
        ("differing", "rows differed from the source's",
         "spark-repl verify --config F --repair; what differs: status --json, verify.differences"),
        ("undecided", "rows changed at every look, so it is not known whether they are equal,",
         "spark-repl verify --config F --table DB.T, when less is written to it"),
    ):  # fmt: skip
        yield from _rows(verified, counted, what, hint)


def _rows(verified: Mapping[str, Any], counted: str, what: str, hint: str) -> Iterator[Problem]:
    if wrong := unrepaired_rows(verified, counted):
        count = sum(wrong.values())
        named = ", ".join(sorted(wrong)[:_MOST]) + ", ..." * (len(wrong) > _MOST)
        yield Problem(f"{count} {what} at {verified['at']}: {named}", hint, "verify.md")


def _of_retries(status: Mapping[str, Any]) -> Iterator[Problem]:
    if status["state"] != "running":
        return
    for worker in status["replication_applier_status_by_worker"]:
        if worker.get(_LAST_ERROR):
            yield Problem(
                f"worker {worker['WORKER_ID']} tries again, attempt"
                f" {worker['APPLYING_TRANSACTION_RETRIES_COUNT'] + 1}: {worker[_LAST_ERROR]}",
                "it goes on by itself if that passes",
            )


def _of_tables(status: Mapping[str, Any]) -> Iterator[Problem]:
    for name, why in status["waiting"].items():
        yield Problem(
            f"{name} waits for a copy since {why['since']}: {why['reason']} ({why['copy']})",
            f"run copies it by itself; else spark-repl snapshot --config F --table {name}",
            "operations.md#copies-of-tables",
        )
    for name, why in status["quarantined"].items():
        failed = f"; replayed in vain: {why['failed']}" if why["failed"] else ""
        yield Problem(
            f"{name} is in quarantine since {why['since']}, {why['transactions']} transactions are"
            f" kept: {why['reason']}{failed}",
            why["hint"],
            "quarantine.md",
        )
    if status["state"] != "running":
        for name, position in status["ahead"].items():
            yield Problem(f"{name} is ahead of the last cut, at {position}",
                          "the next start brings the others there")  # fmt: skip


def _of_branches(status: Mapping[str, Any]) -> Iterator[Problem]:
    for branch in status["xa_recover"]:
        if branch["old"]:
            xid = f"{branch['gtrid']},{branch['bqual']},{branch['format_id']}"
            yield Problem(
                f"the XA branch {xid} is prepared since {branch['age_s']} s:"
                " is its XA COMMIT lost?",
                "if XA RECOVER on the source does not have it: spark-repl xa commit --config F"
                f" --xid {xid}, or xa rollback",
            )


_FULL_BYTES = 1 << 20
"""a disk with less free space is full"""


@dataclass(frozen=True)
class FullDisk:
    """A full disk. ``names``: what is on the disk; ``path``: a path there; ``bytes``: its free
    bytes."""

    names: tuple[str, ...]
    path: str
    bytes: int


def bytes_left(path: str) -> int | None:
    """Return the bytes that accounts may still write at ``path``; None if unknown."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize if disk.f_blocks else None


def full_disks(
    places: Mapping[str, str], left: Callable[[str], int | None] = bytes_left
) -> list[FullDisk]:
    """Return the full disks of ``places``, which are paths by name.

    Places on the same disk are named together. Places on an object store have no disk.
    """
    full = dict[int, FullDisk]()
    for name, path in places.items():
        size = None if is_remote(path) else left(path)
        if size is None or size >= _FULL_BYTES:
            continue
        device = os.stat(path).st_dev if os.path.exists(path) else -1
        disk = full.get(device, FullDisk((), os.path.abspath(path), size))
        full[device] = FullDisk((*disk.names, name), disk.path, disk.bytes)
    return list(full.values())
