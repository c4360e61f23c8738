"""What MySQL's tests do, and the line here that each holds: taken out, an answering test fails.

Number of the scenario -> its steps in MySQL's test, the guarded line, and what takes its place.
``unit/house/test_scenarios.py`` fails when a line is gone; ``python -m tests.mutants.scenarios``
takes them out one at a time.
"""

from __future__ import annotations

from .guard import Guard
from .log_scenario_guards import LOG_GUARDS

_XA, _ORDER, _RETRY = "apply/group/xa_parts.py", "apply/group/commit_order.py", "runtime/retry.py"
_STAGER, _PIPELINE = "apply/group/stager.py", "apply/group/pipeline.py"
_WAVES, _MARK = "schedule/waves.py", "apply/group/low_water_mark.py"
_SKIPPED = "schedule/skipped_records.py"
_CUTS = "apply/group/cut_publisher.py"
_RECOVERY, _WRITER, _HISTORY = (
    "receiver/recovery.py",
    "receiver/writer.py",
    "control/records/log_identity.py",
)
_BRANCHES = "relay/xa_branches.py"


GUARDS: dict[int, Guard] = {
    1: Guard("writes stamps by hand: sn <= lc, sn <= the one before, lc 0 twice over a rotation",
             _WAVES, "if lc != 0 and sn <= lc:", "if False:"),
    3: Guard("a worker meets a duplicate key while the coordinator waits for a free one; STOP",
             "apply/group/failure_report.py", "self._applied.placed(error, group.records[at])",
             "pass"),
    4: Guard("two workers end at once while one waits for the low-water mark",
             _ORDER, "while self._head in self._done:", "if self._head in self._done:"),
    5: Guard("a worker fails, STOP REPLICA comes while the coordinator waits for last_committed",
             _PIPELINE,
             "fail(group.slot)\n            raise self._failures.named(error, group) from error",
             "fail(group.slot)\n            return"),
    6: Guard("starts the applier at a position inside a group, with several workers",
             "apply/start/applier.py", "if index.damage and not stop.is_set():", "if False:"),
    7: Guard("sends an event larger than replica_pending_jobs_size_max between small ones",
             _WAVES, "full = full or count_rows + rows[i] > most_rows"
             " or count_bytes + uncompressed[i] > size", "full = full or count_rows > most_rows"),
    8: Guard("STOP REPLICA under load: Exec_Source_Log_Pos is the last checkpoint's",
             _MARK, "self.executed.union(group.gtids), position",
             "self.executed.union(group.gtids), position + 1"),
    14: Guard("a transaction on two engines is logged as two groups, the second behind the first",
              _WAVES, "if barred or lc >= first or alone[i - 1]:", "if barred or alone[i - 1]:"),
    17: Guard("forces workers to end in another order than they began: the commits keep the log's",
              _ORDER, "if self._head != slot:", "if False:"),
    18: Guard("blocks the first of two transactions: the second says that it waits, then commits",
              _ORDER, "self._on_wait(slot, True)", "pass"),
    19: Guard("the earlier worker fails with others ready to commit: these end with 3030",
              _ORDER, "if self._turns_away(slot):", "if False:"),
    21: Guard("a deadlock victim has an error that isn't temporary: no retry, nobody hangs",
              _RETRY, "if not temporary(error):", "if False:"),
    22: Guard("retries used up in one that others wait for: it stops, and so do they",
              _RETRY, "raise self._given_up(error, workers) from error", "raise"),
    25: Guard("SET GTID_NEXT; COMMIT between two transactions: the empty one keeps its place",
              "schedule/group.py", "WITHOUT_ROWS = (Kind.EMPTY, Kind.ROLLBACK,",
              "WITHOUT_ROWS = (Kind.ROLLBACK,"),
    26: Guard("a filtered transaction between others waits for its turn, and is recorded",
              _SKIPPED, "records[\"kind\"][hits] = Kind.EMPTY", "records = records[~hits]"),
    31: Guard("XA COMMIT's worker is turned away: 3197, and the branch stays in XA RECOVER",
              _ORDER, "return CommitOrderError(_XA_RETRY, number=3197)",
              "return CommitOrderError(_TURNED_AWAY, number=3030)"),
    32: Guard("the transaction before an XA COMMIT fails: the branch stays, and is committed later",
              _ORDER, "ends_branch=bool(group.xa.ended)", "ends_branch=False"),
    37: Guard("a row lock makes workers fail with 1205: retried N times, then in vain; 1062 is not",
              "runtime/retry.py", "if had >= most:", "if had > most:"),
    38: Guard("reads the retry columns of replication_applier_status_by_worker while it is retried",
              _RETRY, "self._on_retry(Retry(error, number, slot, workers))", "pass"),
    39: Guard("two channels, a lock in one: the other's COUNT_TRANSACTIONS_RETRIES stays 0",
              "control/table/layout.py", "return os.path.join(self.state, \"status.json\")",
              "return os.path.join(self.state, \"../../status.json\")"),
    40: Guard("an XA transaction's worker waits for a lock until 1205, and is retried",
              "apply/group/xa_parts.py",
              "return retries.run(attempt, slot=group.slot, failed=failed)",
              "return attempt()"),
    52: Guard("relay_log_recovery=1: the receiver goes on from the applier's place",
              "service/receiving.py",
              "control_of(config)).executed",
              "control_of(config)).cut and None"),
    53: Guard("relay_log_recovery=1 without an applier's place: ROTATE says it",
              _RECOVERY, "name, position, described = place.name, place.position, False",
              "pass"),
    55: Guard("the receiver stops in mid-transaction and recovers: its boundary parser restarts",
              _WRITER, "os.ftruncate(self._fd, self.whole)", "pass"),
    57: Guard("a partial transaction at startup, then another one: the partial one is rolled back",
              _RECOVERY, "size = result.resume", "size = int(buf.size)"),
    59: Guard("stops in mid-transaction: it isn't in Retrieved_Gtid_Set",
              _RECOVERY, "result.numbers[:, GNO],", "result.numbers[:, GNO] + 1,"),
    62: Guard("malformed logs of twelve kinds: recovery ends, with the reason",
              _XA, "raise wrong_state()", "pass"),
    66: Guard("the replica dies in XA COMMIT: the branch is prepared when it starts again",
              _XA, "self.store.keep(one) if one.xid in fresh else one", "one"),
    68: Guard("one connection prepares, another one commits, on another worker of the replica",
              _XA, "commits[index] = ended_branch", "pass"),
    69: Guard("one-phase commits without rows, and one whose rows meet an error (1062, 1032)",
              "schedule/group.py", "WITH_ROWS = (Kind.ROWS, Kind.XA_ONE_PHASE, Kind.XA_COMMIT)",
              "WITH_ROWS = (Kind.ROWS, Kind.XA_COMMIT)"),
    70: Guard("XA on tables that a filter leaves out: PREPARE and COMMIT reach the replica",
              "decode/stage_worker.py",
              "if name in self.task.left_out or images.definition.database in SYSTEM_SCHEMAS:",
              "if name in self.task.left_out:"),
    71: Guard("XA END, PREPARE and COMMIT in a filtered database are not filtered",
              _BRANCHES, "self._prepared[branch.xid] = branch", "pass"),
    72: Guard("GTIDs of XA groups are in gtid_executed already: the groups are skipped, whole",
              _BRANCHES, "return self._prepared.pop(xid)", "return self._prepared[xid]"),
    73: Guard("XA COMMIT fails with 3197 at commit order; then it is retried, or rolled back",
              _XA, "if xid not in self._seen and xid in self._by_hand:", "if False:"),
    90: Guard("XA ROLLBACK of an XID that is not there: 1397, nothing is logged, the branch stays",
              _BRANCHES, "number=_UNKNOWN,", "number=_DUPLICATE,"),
    91: Guard("recovery of logs with one XID twice, without end, or with an XID that is none",
              _BRANCHES, "if branch.xid in self._prepared:", "if False:"),
}  # fmt: skip


def _like(number: int, steps: str) -> Guard:
    """Another of MySQL's tests that the same line answers."""
    one = GUARDS[number]
    return Guard(steps, one.module, one.line, one.mutant)


GUARDS[2] = Guard(
    "a worker fails with others ahead of it; the restart fills what lies between",
    "apply/group/per_table_order.py",
    "self.finish(staged.group)",
    "pass",
)
GUARDS |= {
    9: _like(55, "a transaction without its end, then ROTATE: the connection was made again"),
    10: _like(57, "a part of a transaction in the relay log: rolled back, and fetched again"),
    11: _like(59, "the receiver is stopped and started in mid-transaction"),
    15: Guard("filtered transactions leave gaps in the stamps: barriers",
              _WAVES, "barred = fresh or lc == 0 or sn > previous + 1",
              "barred = fresh or lc == 0"),
    23: Guard("DROP DATABASE, OPTIMIZE, REPAIR between transactions: they commit in their place",
              _WAVES, "if i == 0 or full or barrier[i] or barrier[i - 1]:", "if i == 0 or full:"),
    24: Guard("DDL of each kind between transactions of other workers",
              _WAVES, "if i == 0 or full or barrier[i] or barrier[i - 1]:", "if i == 0 or full:"),
    30: _like(68, "XA parts of every kind between transactions, their commits in the log's order"),
    41: Guard("relay logs are renamed, the index names them: a retry finds its file by the index",
              "relay/log.py", "    if indexes:", "    if False:"),
    43: _like(22, "a commit-order deadlock with retries used up: nobody hangs"),
    44: _like(37, "single-threaded: 1205 and 1213 are retried, and counted"),
    47: _like(2, "a gap is left by an error; removed, the restart fills it"),
    49: Guard("relay_log_recovery=1 with gaps: they are filled first",
              _HISTORY, "present, renewed=cut is not None or highest > 0)",
              "present, renewed=False)"),
    56: _like(57, "relay logs cut in DDL, DML, XA and payloads: the tail ends at a boundary"),
    63: Guard("SOURCE_DELAY: nothing is applied before its time",
              _SKIPPED, "/ 1e6 + delay_s - time.time())", "/ 1e6 - time.time())"),
    64: Guard("replica_exec_mode=IDEMPOTENT: duplicate keys and missing rows pass",
              _STAGER, "return EveryTable(copied) if ", "return copied if "),
    65: _like(66, "interleaved branches, clients disconnect, the server restarts"),
    67: _like(68, "E1 E2 P2 P1 C1 C2: the second prepares first"),
    82: _like(69, "the server dies at a sync point of XA COMMIT ONE PHASE"),
    83: Guard("the server dies at a sync point of XA ROLLBACK, and goes on when it starts again",
              _CUTS, "self._ended += group.xa.ended", "pass"),
    84: _like(66, "several crashes with XA and other transactions between"),
    85: _like(66, "crash behind the GTID's record of XA PREPARE: found prepared, not twice"),
    86: _like(66, "the parts of a transaction lie in different binary logs"),
    87: _like(66, "the client disconnects behind XA PREPARE"),
}  # fmt: skip
GUARDS |= {50: _like(49, "the same with GTIDs, auto-position on and off")}
GUARDS |= {51: _like(49, "the relay logs are gone: with auto-position all is fetched again")}
_DIES = "the server dies at a sync point of XA {}, and goes on when it starts again"
GUARDS |= {number: _like(66, _DIES.format("PREPARE")) for number in range(74, 78)}
GUARDS |= {
    number: Guard(_DIES.format("COMMIT"), _CUTS, "self._ended += group.xa.ended", "pass")
    for number in range(78, 82)
}

GUARDS |= LOG_GUARDS

_HAS = Guard("", _STAGER, "mask = records[\"end\"] <= table.position",
             "mask = records[\"end\"] < 0")  # fmt: skip


def _after_a_crash(steps: str) -> Guard:
    """Held by the line that tells what a table has already."""
    return Guard(steps, _HAS.module, _HAS.line, _HAS.mutant)


GUARDS |= {
    12: Guard("UNTIL a position, SQL_BEFORE_GTIDS, SQL_AFTER_GTIDS, with several workers",
              "schedule/until.py", "if int(np.count_nonzero(wanted)) < missing.count():",
              "if False:"),
    13: Guard("workers write their rows of slave_worker_info at one moment",
              "control/table/control.py",
              "with self._lock:\n"
              "            self._append([*self._pending.rows, PendingRow(row, detail)], check)",
              "self._append([*self._pending.rows, PendingRow(row, detail)], check)"),
    16: Guard("several binary logs are put in place of the relay logs, and applied",
              "relay/log.py", "files.sort(key=lambda f: (f.number, f.name))",
              "files.sort(key=lambda f: -f.number)"),
    27: _after_a_crash("dies at each stage of the commit order: nothing is lost or applied twice"),
    29: Guard("a client commits beside the applier: both are there, and known",
              "write/tables/table_commits.py",
              "refused = refused or self._foreign(table, number, actions, columns)",
              "refused = None"),
    33: _like(18, "reads each worker's stage while one waits for another"),
    34: _like(23, "account, ALTER, partition and other statements between transactions, in order"),
    42: Guard("a transaction with ROWS_QUERY events is retried, and they are freed once",
              _RETRY, "if not temporary(error):", "if True:"),
    45: Guard("dies before and behind the commit, of rows and of DDL: once, in the end",
              "write/rows/group_writer.py",
              "lacking = {name: t for name, t in tables.items() if t.position < cut.position}",
              "lacking = dict(tables)"),
    46: _after_a_crash("a grid of what is assigned, processed, checkpointed; dies; restarts"),
    48: _like(39, "two channels, one dies with gaps: each recovers by itself"),
    54: Guard("GTID_ONLY: positions in the repositories are old, GTIDs say where it goes on",
              "apply/stream/stream_checkpoint.py",
              "if places[0] is not None and not low <= places[0].position <= high:",
              "if False:"),
    58: Guard("a transaction's parts lie in two relay logs, stops and starts between",
              "relay/file_transactions.py",
              "if index.before is not None and not len(index.records):", "if False:"),
    60: Guard("the server dies behind CHANGE SOURCE: the receiver goes on from the applier's place",
              "relay/source_places.py", "return self._order >= other._order",
              "return self._order > other._order"),
    61: Guard("the source dies at each point of its commit: its log's bad tail is trimmed",
              "relay/index.py", "if missing := head.previous_gtids.subtract(executed):",
              "if missing := GtidSet():"),
    88: Guard("XIDs with NUL bytes are logged and applied",
              "binlog/events/xid.py", "*(bytes.fromhex(match[i].decode()) for i in (1, 2))",
              "*(bytes.fromhex(match[i].decode()).rstrip(b\"\\0\") for i in (1, 2))"),
    89: _like(72, "XA ROLLBACK of a branch without rows"),
}  # fmt: skip
