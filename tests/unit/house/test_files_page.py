"""docs/files.md: of each kind of file that it lists a test shows how it ends, or stays one."""

from __future__ import annotations

import pytest

from tests.support.written_files import RELAY, STATE, TARGET, patterns

from .test_docs import missing_tests

ROUNDS = "applier/test_files.py::test_each_file_is_known_and_has_an_end"
KINDS = "applier/test_files_by_kind.py::test_"
SHARED = f"{KINDS}channels_of_one_table_have_files_of_their_own"
PINNED = f"{KINDS}a_pinned_cut_keeps_its_files_until_it_is_unpinned"
XA_STORE = "unit/control/transaction_files/test_xa_store.py"
TIDYING = "unit/control/table/test_control_cleanup.py::test_"
INDEXES = "unit/relay/test_index.py::test_"
CLEANED = "unit/delta/log/test_log_cleanup.py::test_"
REPLACED = f"{KINDS}a_folder_that_nothing_names"
RESTORED = "unit/receiver/test_restored_log.py"
ENDS = {
    TARGET: {
        "T/[column=value/]part-*.parquet": f"{ROUNDS} {SHARED} {PINNED}"
        " spark/test_upkeep.py::test_vacuum_removes_what_nobody_needs_and_its_key_index",
        "T/*/part-*.parquet": "live/test_repair.py::test_rows_that_were_changed_by_hand"
        " spark/test_upkeep.py::test_vacuum_removes_what_nobody_needs_and_its_key_index",
        "T/deletion_vector_*.bin": ROUNDS,
        "T/_change_data/[column=value/]*": f"{KINDS}a_change_data_feed"
        " spark/test_upkeep.py::test_vacuum_removes_what_nobody_needs_and_its_key_index",
        "T/_delta_log/*.json": f"{CLEANED}a_checkpoint_that_young_versions_need_stays"
        f" {CLEANED}promised_versions_stay_readable_after_a_clean_up",
        "T/_delta_log/*.crc": f"{CLEANED}checksums_of_old_versions_go",
        "T/_delta_log/*.checkpoint.parquet": f"{ROUNDS}"
        f" {CLEANED}checkpoints_are_thinned_where_few_commits_lie_between",
        "T/_delta_log/_last_checkpoint": REPLACED,
        "T/_delta_log/.*.tmp": f"{CLEANED}files_of_killed_commits_are_removed",
        "T/_delta_log/*#*": f"{CLEANED}files_of_killed_commits_are_removed",
        "T/_delta_log/_commit_*.json.tmp": f"{CLEANED}files_of_killed_commits_are_removed",
        "_repl/control/*.parquet": f"{KINDS}pruned_cuts_of_many_tables_leave_one_row_a_table"
        f" {TIDYING}what_commits_that_failed_have_left_goes_behind_an_hour",
        "_repl/control/_delta_log/*": f"{TIDYING}what_was_replaced_goes_though_its_removal_is"
        "_forgotten",
        "_repl/lease.json": "unit/control/table/test_owner_lease.py::test_a_rival_gives_up_when_the"
        "_owner_renews",
        "_repl/move.json": "applier/test_target_move.py"
        "::test_killed_move_leaves_the_source_valid_and_goes_on",
        "_repl/xa/*.events": f"{KINDS}prepared_branches_have_a_file_each_until_they_end",
        "_repl/xa/*.new": f"{KINDS}prepared_branches_have_a_file_each_until_they_end",
        "_repl/staging/*/*/*.arrow": "unit/apply/group/test_staging_folder.py"
        "::test_owner_removes_what_earlier_ones_left",
        "_repl/staging/verify-*/*": "unit/verify/test_store_workers.py"
        "::test_failure_leaves_nothing_in_the_store",
        "_repl/quarantine/*/*.events": f"{KINDS}a_table_in_quarantine_has_files_until_it_ends",
        "_repl/quarantine/*/*.new": f"{KINDS}a_table_in_quarantine_has_files_until_it_ends",
    },
    STATE: {
        "index/*.idx": f"{ROUNDS} {INDEXES}indexes_of_files_that_are_gone",
        "index/stopping": "spark/test_stream.py::test_damage_stops_the_applier_behind_what_is_good",
        "keys/S/*/*.npy": f"{ROUNDS} {SHARED} {PINNED}",
        "keys/S/*.npy": ROUNDS,
        "keys/S/*/*.segment.arrow": "property/test_key_segments.py"
        "::test_files_that_a_look_up_opens_are_bounded",
        "checkpoint/*/metadata": "spark/test_stream.py::test_a_streams_checkpoint_is_bounded",
        "checkpoint/*/offsets/*": "spark/test_stream.py::test_a_streams_checkpoint_is_bounded",
        "checkpoint/*/commits/*": "spark/test_stream.py::test_a_streams_checkpoint_is_bounded",
        "checkpoint/*/sources/*/*": "spark/test_stream.py::test_a_streams_checkpoint_is_bounded",
        "staging/*/*": f"{ROUNDS} unit/control/table/test_owner.py::test_a_folder_is_handed_on",
        "requests/*.json": f"{KINDS}a_repair_that_is_asked_for",
        "requests/*.repair": f"{KINDS}a_repair_that_is_asked_for",
        "requests/*.read/*.arrow": f"{KINDS}a_repair_that_is_asked_for",
        "verify/*": f"{KINDS}a_verify_leaves_its_locks_and_its_last_result",
        "verify/*/*/*": f"{KINDS}a_verify_leaves_its_locks_and_its_last_result",
        "status.json": ROUNDS,
        "run.json": "unit/observe/reports/test_run_report.py::test_status_while_a_run_starts",
        "vacuumed/T": REPLACED,
        "forgotten/T": REPLACED,
        "replaced/T": REPLACED,
        "durable/T": REPLACED,
        "durable/_repl/control": ROUNDS,
        "xa/*.events": f"{XA_STORE}::test_only_a_branchs_own_files_are_forgotten",
        "index/*.part": ROUNDS,
        "keys/S/*/*.part": ROUNDS,
        "*.new": ROUNDS,
        "requests/*.part": ROUNDS,
        "verify/*.part": f"{KINDS}a_verify_leaves_its_locks_and_its_last_result",
        "checkpoint/*/*/.*.tmp": "unit/runtime/test_part_files.py"
        "::test_part_files_of_killed_writers_are_removed",
    },
    RELAY: {
        "relay.[0-9]*": f"{ROUNDS} unit/source/test_dump.py"
        "::test_a_purge_keeps_the_file_that_is_written",
        "relay.index": ROUNDS,
        "relay.end": ROUNDS,
        "receiver.json": ROUNDS,
        "relay.*.archived": "unit/receiver/test_archiver.py::test_a_purge_removes_what_is_archived",
        "relay.restored": f"{RESTORED}::test_restored_again_and_again",
        "relay.restoring": f"{RESTORED}::test_a_kill_at_each_step_of_a_restoration",
        "receiver.uuid": "live/test_repair.py::test_rows_that_were_changed_by_hand",
        "relay.lock": ROUNDS,
        "relay.index.lock": ROUNDS,
        "relay.purge.lock": ROUNDS,
        "*.part": "unit/receiver/test_recovery.py::test_what_a_rotation_left_behind_is_removed",
    },
}


@pytest.mark.parametrize("section", ENDS)
def test_each_kind_of_file_has_a_test_of_its_end(section: str) -> None:
    assert patterns(section).keys() == ENDS[section].keys()


def test_the_named_tests_exist() -> None:
    named = "\n".join(tests for section in ENDS.values() for tests in section.values())
    assert missing_tests(named) == []
