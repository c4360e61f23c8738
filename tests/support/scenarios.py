"""MySQL's own tests of what the applier promises, and what answers each of them here.

Number -> (MySQL 9.7's test below mysql-test, answers). An answer is a test's id, of a test that
states what MySQL's asserts, or, for what has no meaning here, the reason as a sentence. Commit
order, positions and retries are 1-64, XA 65-91, the others in ``log_scenarios.py``;
``unit/house/test_scenarios.py`` checks this table.
"""

from __future__ import annotations

from .log_scenarios import LOG_SCENARIOS

_APPLIER, _RESTART = "applier/test_order.py", "applier/test_restarts.py"
_POSITIONS, _SLOTS = "applier/test_source_positions.py", "applier/test_slots.py"
_ORDER, _RETRY = "unit/apply/group/test_commit_order.py", "unit/runtime/test_retry.py"
_XA, _XA_ERRORS = "applier/test_xa.py", "applier/test_xa_errors.py"
_SCENARIOS = "applier/test_scenarios.py"
_PARTS = "unit/receiver/test_recovery_partial_transactions.py"
_ENGINES, _RELAY = "applier/engines", "unit/receiver/test_writer.py"
_FILTERS, _BESIDE = "applier/test_filters.py", "applier/test_channels_beside.py"
_SPARK_ORDER, _SPARK_XA = "spark/test_order.py", "spark/test_xa.py"
_HISTORY, _SCHEDULE, _LIVE = (
    "spark/test_history.py",
    "unit/schedule/test_waves.py",
    "live/test_receiver.py",
)

_NO_LOCKS = (
    "Groups hold no locks that an earlier one could wait for: they are staged without touching a"
    " table, and write it in their turn only."
)
_NO_BINLOG = "The target has no binary log of its own, so no group commit of one to keep in order."
_WITH_FILTERS = "MySQL's 3898 warns of filters beside XA, which it does not support; here they are."

SCENARIOS: dict[int, tuple[str, tuple[str, ...]]] = {
    # A. Scheduler
    1: ("rpl_mts_logical_clock_timestamping", (
        f"{_SCHEDULE}::test_unset_stamps_gaps_and_files_are_barriers",
        f"{_SCHEDULE}::test_inconsistent_stamps_are_applied_in_isolation_with_mysqls_words",
    )),
    2: ("rpl_mts_logical_clock_recovery", (
        f"{_ENGINES}/test_lanes.py::test_a_failure_leaves_nothing_of_its_transaction",
        "applier/test_gaps.py::test_status_shows_each_tables_own_position",
        "property/test_histories.py::test_any_interleaving_is_serial_apply",
    )),
    3: ("rpl_mts_logical_clock_crash", (f"{_APPLIER}::test_error_while_the_coordinator_waits",)),
    4: ("rpl_mts_logical_clock_assertion_failure", (
        f"{_ORDER}::test_done_out_of_order_waits_for_the_gap",
        "unit/apply/group/test_per_table_order.py::test_each_table_keeps_the_logs_order",
    )),
    5: ("rpl_mts_logical_clock_applier_error_concurrent_stop_slave", (
        f"{_APPLIER}::test_error_and_stop_at_once",
    )),
    6: ("rpl_mts_logical_clock_wrong_start_pos", (
        f"{_SCENARIOS}::test_a_start_inside_a_group",
        f"{_APPLIER}::test_until_inside_a_transaction_applies_the_whole_of_it",
    )),
    7: ("rpl_mts_pending_max", (
        f"{_APPLIER}::test_a_transaction_larger_than_the_bounds_is_a_group",
    )),
    8: ("rpl_mts_stop_slave_report_pos", (
        f"{_APPLIER}::test_stop_reports_the_position_of_the_last_cut",
    )),
    9: ("rpl_mts_slave_hang_with_partial_trx", (
        f"{_PARTS}::test_a_connection_that_ends_inside_a_transaction",
        f"{_RELAY}::test_the_same_stream_gives_the_same_log",
        f"{_RESTART}::test_a_transaction_without_end_stops_before_the_next",
    )),
    10: ("rpl_mts_execute_partial_trx_with_auto_pos_on", (
        f"{_RELAY}::test_a_file_truncated_anywhere_recovers",
        f"{_RESTART}::test_every_cut_tail_ends_at_a_boundary",
    )),
    11: ("rpl_mts_gtids_restart_slave_io_lost_trx", (f"{_RELAY}::test_goes_on_after_a_stop",)),
    12: ("rpl_mts_until", (
        "unit/schedule/test_until.py::test_each_form_of_until_ends_at_its_transaction",
        f"{_SPARK_ORDER}::test_until_ends_a_run_before_or_after_gtids",
    )),
    13: ("rpl_mts_debug", (
        "unit/control/table/test_control.py::test_several_threads_write_at_once",
    )),
    14: ("binlog_mts_logical_clock", (
        f"{_SCHEDULE}::test_a_wave_ends_where_a_transaction_depends_on_its_first",
    )),
    15: ("rpl_binlog_transaction_dependency_tracking_with_filters", (
        f"{_SCHEDULE}::test_unset_stamps_gaps_and_files_are_barriers",
        "property/test_schedule.py::test_waves_are_those_of_the_serial_reading",
        f"{_FILTERS}::test_each_rule_lets_its_tables_through_and_all_gtids_count",
    )),
    16: ("rpl_gtid_binary_log_as_relay_log", (
        f"{_APPLIER}::test_plain_binary_logs_are_relay_logs",
    )),
    # B. Commit order
    17: ("rpl_mts_replica_preserve_commit_order", (
        f"{_ORDER}::test_slots_pass_in_order_of_dispatch",
    )),
    18: ("rpl_mts_replica_preserve_commit_order_wait_nobinlog", (
        f"{_ORDER}::test_a_group_that_waits_for_its_turn_is_reported",
        f"{_APPLIER}::test_status_shows_a_group_that_waits_for_an_earlier_one",
    )),
    19: ("rpl_mts_replica_preserve_commit_order_error", (
        f"{_ORDER}::test_all_behind_a_failed_one_are_turned_away",
        f"{_ENGINES}/test_faults.py::test_committed_set_stays_a_prefix",
    )),
    20: ("rpl_mts_replica_preserve_commit_order_deadlock", (_NO_LOCKS,)),
    21: ("rpl_mts_spco_deadlock_hang_on_non_temp_error", (
        f"{_RETRY}::test_an_error_that_is_not_temporary_is_not_retried",
        f"{_APPLIER}::test_retries_in_vain_let_no_later_group_commit",
    )),
    22: ("rpl_mts_spco_deadlock_slave_trans_retries_hang", (
        f"{_APPLIER}::test_retries_in_vain_let_no_later_group_commit",
        f"{_ENGINES}/test_faults.py::test_retries_in_vain_stop_and_the_next_run_commits_once",
    )),
    23: ("rpl_mts_replica_preserve_commit_order_drop_database", (
        f"{_APPLIER}::test_statements_commit_in_the_order_of_the_log",
    )),
    24: ("rpl_mts_replica_preserve_commit_order_trans_DDL_nobinlog", (
        f"{_APPLIER}::test_statements_commit_in_the_order_of_the_log",
    )),
    25: ("rpl_mts_replica_preserve_commit_order_empty_gtid_nobinlog", (
        f"{_APPLIER}::test_empty_and_skipped_transactions_take_their_slots",
    )),
    26: ("rpl_mts_replica_preserve_commit_order_nobinlog_filter", (
        f"{_APPLIER}::test_empty_and_skipped_transactions_take_their_slots",
        "unit/schedule/test_until.py::test_a_skipped_transaction_keeps_its_slot",
        f"{_SLOTS}::test_waits_for_the_one_before_and_is_waited_for",
        f"{_FILTERS}::test_each_rule_lets_its_tables_through_and_all_gtids_count",
    )),
    27: ("rpl_mts_replica_preserve_commit_order_crash_nobinlog", (
        "crash/test_kill.py::test_a_kill_at_each_point_leaves_the_servers_tables",
        "property/test_histories.py::test_any_interleaving_is_serial_apply",
    )),
    28: ("rpl_mts_replica_preserve_commit_order_with_binlog", (_NO_BINLOG,)),
    29: ("rpl_mta_commit_order_gtid_update_nobinlog", (
        "spark/test_on_foreign_change.py::test_insert_between_plan_and_commit",
        "applier/test_foreign_commits.py::test_delete_right_behind_our_commit",
    )),
    30: ("rpl_mts_replica_preserve_commit_order_xa_prepare", (
        f"{_ENGINES}/test_xa_histories.py::test_rows_count_where_xa_commit_stands",
    )),
    31: ("rpl_mts_replica_preserve_commit_order_xa_commit_error", (
        f"{_XA}::test_commit_fails_and_is_tried_again",
    )),
    32: ("rpl_xa_commit_fail_preceding_trx", (
        f"{_XA}::test_commit_fails_and_is_tried_again",
        f"{_ENGINES}/test_xa_histories.py::test_failed_commit_leaves_the_branch_prepared",
    )),
    33: ("rpl_mts_spco_check_worker_states_nobinlog", (
        f"{_APPLIER}::test_status_shows_a_group_that_waits_for_an_earlier_one",
        f"{_SLOTS}::test_waits_for_the_one_before_and_is_waited_for",
    )),
    34: ("rpl_mts_spco_acl_commands_nobinlog", (
        f"{_SLOTS}::test_waits_for_the_one_before_and_is_waited_for",
        f"{_SLOTS}::test_each_kind_of_transaction_takes_its_slot",
        f"{_APPLIER}::test_statements_commit_in_the_order_of_the_log",
    )),
    35: ("rpl_gtid_mts_spco_deadlock_other_locks", (_NO_LOCKS,)),
    36: ("rpl_gtid_commit_order_manager_seq_nr_wrap_around", (
        "Slots are Python's integers: they do not wrap.",
    )),
    # C. Retries
    37: ("rpl_mts_logical_clock_transaction_retry", (
        f"{_RETRY}::test_waits_as_mysql_does",
        f"{_RETRY}::test_retries_in_vain_end_with_their_number",
        f"{_APPLIER}::test_several_tables_are_retried_at_once",
        "crash/test_storage_faults.py::test_a_fault_at_each_step_is_retried",
        "crash/test_storage_faults.py::test_calls_fail_time_out_or_land_unanswered",
    )),
    38: ("rpl_ps_worker_retry_transaction_mts", (
        f"{_ENGINES}/test_faults.py::test_storage_faults_are_retried",
        f"{_APPLIER}::test_status_of_a_transaction_that_was_tried_again",
    )),
    39: ("rpl_multi_source_mts_slave_retry", (
        f"{_SCENARIOS}::test_channels_have_counters_and_positions_of_their_own",
        f"{_BESIDE}::test_what_one_tries_again_and_dies_of_is_its_own",
    )),
    40: ("rpl_mts_xa_retry", (
        f"{_SCENARIOS}::test_an_xa_group_is_tried_again",
        f"{_APPLIER}::test_xa_group_is_retried",
    )),
    41: ("rpl_replica_transaction_retry_with_non_standared_relay_log_name", (
        f"{_APPLIER}::test_retry_finds_its_file_by_the_index",
    )),
    42: ("rpl_mta_rows_query_event_double_free", (
        f"{_APPLIER}::test_rows_query_in_a_group_that_is_retried",
    )),
    43: ("rpl_mts_spco_deadlock_slave_trans_retries_hang", (
        f"{_APPLIER}::test_retries_in_vain_let_no_later_group_commit",
    )),
    44: ("rpl_deadlock_innodb", (f"{_APPLIER}::test_several_tables_are_retried_at_once",)),
    # D. Crash-safe positions, relay recovery
    45: ("rpl_row_crash_safe", (
        f"{_RESTART}::test_a_crash_before_or_after_the_commit_applies_once",
        f"{_RESTART}::test_mysqls_outcomes_of_a_crash_around_a_statement",
    )),
    46: ("rpl_row_mts_rec_crash_safe", (
        "property/test_histories.py::test_any_interleaving_is_serial_apply",
    )),
    47: ("rpl_parallel_recovery", (
        f"{_ENGINES}/test_lanes.py::test_a_failure_leaves_nothing_of_its_transaction",
    )),
    48: ("rpl_multi_source_mts_recovery", (
        f"{_SCENARIOS}::test_channels_have_counters_and_positions_of_their_own",
        f"{_BESIDE}::test_what_one_tries_again_and_dies_of_is_its_own",
    )),
    49: ("rpl_mts_relay_log_recovery_on_error", (
        f"{_RESTART}::test_another_log_behind_a_crash_with_gaps",
        f"{_POSITIONS}::test_lost_relay_log_cut_off_anywhere",
    )),
    50: ("rpl_gtid_mts_relay_log_recovery_auto_pos_on_off", (
        f"{_RESTART}::test_another_log_behind_a_crash_with_gaps",
        f"{_ENGINES}/test_new_log.py::test_new_log_after_a_crash_between_tables",
        f"{_POSITIONS}::test_lost_relay_log_cut_off_anywhere",
        "live/test_positions.py::test_relay_log_without_gtids_is_lost",
    )),
    51: ("rpl_gtid_mts_recovery_with_missing_relay_log", (
        f"{_RESTART}::test_another_log_behind_a_crash_with_gaps",
        "live/test_run.py::test_a_lost_relay_log_is_fetched_again",
        f"{_POSITIONS}::test_log_that_does_not_hold_the_targets_place_stops",
    )),
    52: ("rpl_relay_log_recovery_positions", (
        f"{_SCENARIOS}::test_a_new_relay_log_begins_where_the_applier_is",
        f"{_RELAY}::test_renewed_log_is_another_history",
    )),
    53: ("rpl_recovery_empty_sqlthd_pos", (
        f"{_PARTS}::test_the_place_is_found_without_an_applier",
        f"{_ENGINES}/test_logs.py::test_log_that_begins_in_mid_history",
    )),
    54: ("rpl_gtid_only_relay_log_recovery", (
        f"{_HISTORY}::test_checkpoint_is_only_a_hint",
        "unit/apply/stream/test_stream_checkpoint.py"
        "::test_the_appliers_checkpoint_is_dropped_where_the_stream_would_stop",
    )),
    55: ("rpl_trx_boundary_parser_relay_log_recovery", (
        f"{_PARTS}::test_a_connection_that_ends_inside_a_transaction",
        f"{_PARTS}::test_a_transaction_without_its_end_is_fetched_again",
        f"{_RELAY}::test_goes_on_after_a_stop",
    )),
    56: ("rpl_gtid_sanitizer_trx_boundaries", (
        f"{_RESTART}::test_every_cut_tail_ends_at_a_boundary",
        f"{_RELAY}::test_a_file_truncated_anywhere_recovers",
    )),
    57: ("rpl_partial_gtid_trx_followed_by_trx_at_startup", (
        f"{_PARTS}::test_a_transaction_without_its_end_is_fetched_again",
        f"{_RESTART}::test_a_transaction_without_end_stops_before_the_next",
    )),
    58: ("rpl_gtid_transaction_split_across_relay_logs", (
        "unit/relay/test_split_transactions.py::test_a_transaction_may_be_split_between_any_two_events",
        "applier/test_split_transactions.py::test_every_event_in_a_file_of_its_own",
        "live/test_mysql_relay_log.py::test_a_replicas_relay_log_stopped_inside_a_transaction_is_applied",
        f"{_RELAY}::test_the_writer_rotates_and_keeps_every_transaction",
    )),
    59: ("rpl_gtid_retrieve_last_trx", (
        f"{_PARTS}::test_a_transaction_without_its_end_is_fetched_again",
        f"{_PARTS}::test_a_transaction_with_its_end_is_not_fetched_again",
    )),
    60: ("rpl_change_master_crash_safe", (
        f"{_LIVE}::test_a_receiver_follows_by_file_and_position",
        f"{_POSITIONS}::test_cuts_commits_and_status_have_the_sources_place",
        f"{_POSITIONS}::test_lost_relay_log_cut_off_anywhere",
        "live/test_positions.py::test_relay_log_without_gtids_is_lost",
    )),
    61: ("rpl_crash_safe_master", (
        f"{_LIVE}::test_source_is_killed_and_rotates",
        "unit/relay/test_index.py::test_loss_at_a_crash_shows_in_previous_gtids",
    )),
    62: ("binlog_gtid_binlog_recovery_errors", (
        f"{_XA_ERRORS}::test_a_malformed_sequence_stops_after_what_precedes_it",
    )),
    63: ("rpl_delayed_slave", (
        "unit/schedule/test_until.py::test_a_delay_counts_from_the_last_commit",
        f"{_SPARK_ORDER}::test_stop_waits_for_the_delay_no_longer",
    )),
    64: ("rpl_idempotency", (
        f"{_ENGINES}/test_refusals.py::test_idempotent_mode_overwrites_and_passes_over_rows_that_do_not_fit",
    )),
    # E. XA
    65: ("rpl_xa_survive_disconnect", (
        f"{_XA}::test_disconnect_leaves_the_branch_prepared",
        f"{_SPARK_XA}::test_interleaved_branches_commit_at_their_ends",
    )),
    66: ("rpl_xa_survive_crash_debug", (f"{_XA}::test_cut_off_at_every_step_of_a_part",)),
    67: ("rpl_xa_gap_lock", (f"{_XA}::test_branches_may_end_in_another_order_than_they_began",)),
    68: ("rpl_xa_detach_on_prepare", (f"{_XA}::test_second_part_on_another_worker_and_order",)),
    69: ("rpl_xa_empty_commit_one_phase", (
        f"{_XA}::test_branches_without_rows_take_their_slots",
        f"{_SCENARIOS}::test_a_one_phase_commit_that_fails",
    )),
    70: ("rpl_xa_with_filters_error_msg", (
        f"{_SCENARIOS}::test_xa_statements_are_never_filtered",
        f"{_FILTERS}::test_branches_of_filtered_rows_are_prepared_and_ended", _WITH_FILTERS,
    )),
    71: ("rpl_gtid_xa_prepare_do_db_filter", (
        f"{_SCENARIOS}::test_xa_statements_are_never_filtered",
        f"{_FILTERS}::test_branches_of_filtered_rows_are_prepared_and_ended",
    )),
    72: ("rpl_xa_prepare", (
        f"{_XA}::test_xa_groups_are_skipped_by_gtid",
        f"{_SCENARIOS}::test_xa_groups_are_skipped_by_hand",
    )),
    73: ("rpl_xa_commit_failure", (
        f"{_SCENARIOS}::test_a_commit_that_failed_is_rolled_back",
        f"{_XA}::test_commit_fails_and_is_tried_again",
        f"{_XA}::test_commit_fails_by_its_own_rows",
        f"{_ORDER}::test_all_behind_a_failed_one_are_turned_away",
    )),
    **{
        number: (f"rpl_gtid_xa_{name}", (f"{_XA}::test_cut_off_at_every_step_of_a_part",))
        for number, name in (
            (74, "prepare_failure_before_prepare_in_engines"),
            (75, "prepare_failure_before_write_binlog"),
            (76, "prepare_failure_before_prepare_2nd_phase"),
            (77, "prepare_failure_before_gtid_externalization"),
            (78, "commit_failure_before_write_binlog"),
            (79, "commit_failure_before_commit_engines"),
            (80, "commit_failure_before_gtid_externalization"),
            (81, "commit_failure_after_rotate"),
            (82, "commit_one_phase_failure_before_commit_engines"),
            (83, "rollback_failure_before_rollback_engines"),
        )
    },
    84: ("rpl_gtid_xa_multiple_failures", (
        f"{_XA}::test_xa_survives_several_failures_and_restarts",
        "property/test_xa_orders.py::test_every_order_of_two_branches_and_two_transactions",
    )),
    85: ("rpl_gtid_xa_prepare_recover_after_gtid_action_crash", (
        f"{_XA}::test_cut_off_at_every_step_of_a_part",
        f"{_XA}::test_a_prepared_branch_outlives_the_relay_log",
    )),
    86: ("binlog_xa_trx_split_across_binlog", (
        f"{_XA}::test_xids_with_any_bytes_are_recovered_and_committed",
        "live/test_xa_grid.py::test_every_cut_is_a_state_of_the_server",
    )),
    87: ("binlog_xa_prepared_disconnect", (f"{_XA}::test_disconnect_leaves_the_branch_prepared",)),
    88: ("binlog_xid_xa_nullbyte", (
        f"{_XA}::test_xids_with_any_bytes_are_recovered_and_committed",
        f"{_ENGINES}/test_xa_histories.py::test_an_xid_round_trips_through_its_texts",
    )),
    89: ("binlog_xa_empty_rollback", (f"{_XA}::test_branches_without_rows_take_their_slots",)),
    90: ("binlog_xa_rollback_failure", (
        f"{_XA_ERRORS}::test_wrong_xid_is_unknown",
        "live/test_xa_grid.py::test_every_cut_is_a_state_of_the_server",
    )),
    91: ("binlog_xa_recovery_errors", (
        f"{_XA_ERRORS}::test_a_malformed_sequence_stops_after_what_precedes_it",
        f"{_XA_ERRORS}::test_a_second_prepare_of_an_open_xid_stops_with_1440",
    )),
}  # fmt: skip
SCENARIOS |= LOG_SCENARIOS
