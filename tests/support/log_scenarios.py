"""MySQL's own tests of the dump, the log's bytes and the status, and what answers each here.

The form is that of ``scenarios.py``, which has 1-91. Dump thread, purge and auto-position are
92-121, payloads 122-131, rows and types 132-162, status 163-170.
"""

from __future__ import annotations

_HEARTBEATS, _DUMP = "unit/receiver/test_intake_heartbeats.py", "unit/source/test_dump.py"
_SESSIONS, _PACKET = "unit/receiver/test_receiver.py", "unit/receiver/test_packet.py"
_RECEIVED, _WRITER = "unit/receiver/test_receiver_scenarios.py", "unit/receiver/test_writer.py"
_RECOVERY, _LIVE = "unit/receiver/test_recovery.py", "live/test_receiver.py"
_LEASE, _WAITING = "unit/relay/test_lease.py", "unit/relay/test_end_watch.py"
_LOG, _INDEX = "unit/relay/test_index_scenarios.py", "unit/relay/test_index.py"
_APPLIER, _ORDER = "applier/test_scenarios.py", "applier/test_order.py"
_STATUS, _MIXTURE = "applier/test_status.py", "unit/decode/test_spans_compressed_transactions.py"
_LARGE = "unit/decode/test_spans_oversized_transactions.py"
_TYPES, _DAMAGE = (
    "unit/binlog/rows/test_row_images_all_types.py",
    "unit/binlog/rows/test_walk_damage.py",
)
_IMAGES, _JSON = "unit/binlog/rows/test_partial_rows.py", "unit/binlog/json/test_json_text.py"
_CHANGES = "unit/decode/test_read_changes.py"
_PARTIAL, _ENGINES = "property/test_partial_fold.py", "applier/engines"
_VALUES = f"{_TYPES}::test_values_are_the_servers"
_DECODER_LIVE = "live/test_decoder_live.py"

_ONE_DEFINITION = (
    "A table here has the source's own definition, from its statements or TABLE_MAPs: no type or"
    " length that somebody else gave it to convert to, and rows of another shape stop. Columns that"
    " the source or the target alone has are those that [[tables]] leaves out or adds."
)

LOG_SCENARIOS: dict[int, tuple[str, tuple[str, ...]]] = {
    # F. Dump thread, purge, heartbeat, auto-position
    92: ("rpl_lost_events_on_rotate", (
        f"{_WRITER}::test_event_between_end_and_rotation_is_not_lost",
        f"{_WRITER}::test_rotation_between_end_and_list",
    )),
    93: ("rpl_simulate_short_heartbeat_period_and_signal_delay", (
        f"{_WAITING}::test_what_is_published_between_two_waits_is_not_missed",
    )),
    94: ("rpl_dump_thread_heartbeat_stress", (
        f"{_HEARTBEATS}::test_between_any_two_events_they_leave_no_trace",
    )),
    95: ("rpl_heartbeat_basic", (f"{_SESSIONS}::test_silence_is_a_lost_connection",)),
    96: ("rpl_heartbeat_version", (f"{_DUMP}::test_heartbeats_of_both_versions_are_parsed",)),
    97: ("rpl_heartbeat_log_pos_4gb", (f"{_HEARTBEATS}::test_of_a_file_larger_than_4_gib",)),
    98: ("rpl_gtid_heartbeat_bogus_data_error", (
        f"{_HEARTBEATS}::test_a_heartbeat_behind_the_received_position_is_13118",
        f"{_HEARTBEATS}::test_a_heartbeat_of_the_next_file_is_accepted",
    )),
    99: ("rpl_binlog_sender_fseek", (f"{_LOG}::test_what_was_read_is_not_read_again",)),
    100: ("rpl_binlog_sender_packet_shrink", (
        f"{_PACKET}::test_events_around_the_packet_limit_are_joined",
    )),
    101: ("rpl_zombie_dump_threads", (
        f"{_RECEIVED}::test_a_source_knows_its_receiver_again",
        f"{_DUMP}::test_another_replica_with_our_server_id_is_refused",
        f"{_LIVE}::test_a_second_receiver_with_the_same_server_id_is_refused",
    )),
    102: ("rpl_rotate_purge_deadlock", (f"{_RECEIVED}::test_a_rotation_and_a_purge_at_once",)),
    103: ("rpl_parallel_show_binlog_events_purge_logs", (
        f"{_LEASE}::test_a_dump_holds_the_file_that_it_is_in",
        "unit/relay/test_log_purged_files.py::test_purge_at_each_step_of_a_look",
    )),
    104: ("binlog_purge_binary_logs_to", (
        f"{_DUMP}::test_a_purge_keeps_the_file_that_is_written",
        f"{_LEASE}::test_a_purge_spares_what_others_read_and_a_dead_one_holds_nothing",
        "There is no LOCK INSTANCE FOR BACKUP, and no file goes by its age: the relay log's go when"
        " every table has passed them.",
    )),
    105: ("binlog_index", (
        f"{_RECEIVED}::test_a_kill_in_a_purge_leaves_a_whole_log",
        f"{_WRITER}::test_a_writer_killed_at_every_step_recovers",
        f"{_LIVE}::test_a_receiver_killed_at_every_point_loses_nothing",
    )),
    106: ("rpl_change_master_relay_log_purge", (
        "No statement changes a channel's source, and none would clear its relay log or set whether"
        " it is purged.",
    )),
    107: ("binlog_gtid_purge_binlog_at_startup", (
        f"{_DUMP}::test_a_purge_keeps_the_file_that_is_written",
    )),
    108: ("rpl_gtid_purged_fail_to_connect", (
        f"{_DUMP}::test_purged_and_foreign_gtids_are_refused",
        f"{_DUMP}::test_a_sources_refusal_becomes_a_named_error",
        f"{_LIVE}::test_purged_reset_and_diverged_sources_are_refused",
    )),
    109: ("rpl_replica_with_excessive_gtids", (
        f"{_DUMP}::test_purged_and_foreign_gtids_are_refused",
        f"{_DUMP}::test_a_sources_refusal_becomes_a_named_error",
        f"{_LIVE}::test_purged_reset_and_diverged_sources_are_refused",
    )),
    110: ("rpl_gtid_validate_slave_gtids", (
        f"{_DUMP}::test_purged_and_foreign_gtids_are_refused",
    )),
    111: ("rpl_gtid_failover", (
        f"{_RECEIVED}::test_another_server_goes_on_by_gtid",
        f"{_LIVE}::test_a_receiver_fails_over_by_gtid",
    )),
    112: ("rpl_gtid_huge_gtid_set", (
        f"{_RECEIVED}::test_a_huge_gtid_set_is_requested_and_stored",
    )),
    113: ("rpl_gtid_tag_auto_positioning", (
        f"{_RECEIVED}::test_tagged_transactions_are_asked_for_and_left_out",
        f"{_LOG}::test_a_gtid_from_a_future_version_is_read_or_refused",
        "unit/binlog/events/test_event.py::test_a_real_servers_tagged_gtid_is_parsed",
        "unit/test_gtid.py::test_gtid_sets_have_the_bytes_of_previous_gtids",
    )),
    114: ("rpl_stop_on_rotate", (
        "unit/relay/test_source_places.py::test_stopped_between_a_rotate_and_the_next_file",
    )),
    115: ("rpl_rotate_logs", (
        f"{_RECOVERY}::test_more_files_of_the_source_than_were_expected",
        f"{_WRITER}::test_the_writer_rotates_and_keeps_every_transaction",
    )),
    116: ("rpl_write_ignored_events_fail_writing_rotate", (
        f"{_RECOVERY}::test_a_full_disk_is_named",
    )),
    117: ("rpl_sbm_fake_rotate_event", (
        "unit/observe/status/test_lag.py::test_the_applier_is_behind_what_was_received",
        f"{_RECOVERY}::test_a_stop_leaves_no_trace",
    )),
    118: ("binlog_rotate_bgc_sync", (
        "The source's own group commit: what a dump brings is committed there.",
    )),
    119: ("rpl_semi_sync", (
        f"{_SESSIONS}::test_each_transaction_that_the_source_waits_for_is_acknowledged",
        f"{_SESSIONS}::test_a_transaction_is_acknowledged_once_it_is_whole",
        f"{_LIVE}::test_the_receiver_acknowledges_semi_synchronous_transactions",
    )),
    120: ("rpl_gtid_empty_transaction", (
        f"{_ORDER}::test_empty_and_skipped_transactions_take_their_slots",
    )),
    121: ("rpl_gtid_mode", (
        "live/test_positions.py::test_gtid_mode_is_switched_while_it_is_followed",
        "applier/test_source_positions.py::test_gtids_that_say_otherwise_count",
        "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS has no part here: nothing is logged again, and"
        " transactions without a GTID are known by file and position.",
    )),
    # G. Payload compression
    122: ("applier_compression", (
        f"{_MIXTURE}::test_every_mixture_gives_what_the_plain_log_gives",
    )),
    123: ("rpl_binlog_compression", (
        f"{_TYPES}::test_a_compressed_transactions_rows_are_decoded",
        f"{_INDEX}::test_records_have_the_flags_of_their_transactions",
    )),
    124: ("rpl_compression_extra", (
        f"{_LOG}::test_a_compressed_transaction_has_one_place",
        f"{_INDEX}::test_every_cut_gives_a_prefix",
    )),
    125: ("compression_extra", (
        f"{_LOG}::test_a_compressed_transaction_has_one_place",
        f"{_MIXTURE}::test_a_damaged_one_among_many_is_named",
    )),
    126: ("rpl_compress_bound", (f"{_LARGE}::test_windows_make_no_difference",)),
    127: ("compression_incident_event", (
        f"{_APPLIER}::test_an_incident_stops_with_13119_until_it_is_skipped",
        f"{_DAMAGE}::test_an_incident_has_mysqls_number",
    )),
    128: ("binlog_compression_size_higher", (
        f"{_MIXTURE}::test_a_damaged_one_among_many_is_named",
        f"{_LARGE}::test_compressed_and_plain_keep_their_order",
    )),
    129: ("rpl_nogtid_compression_slave_skip_counter", (
        "There is no counter of events to pass over: what is left out is a whole transaction, by"
        " its GTID.",
    )),
    130: ("rpl_binlog_compression_require_row_format", (
        f"{_LOG}::test_statements_in_a_compressed_transaction_are_refused",
        f"{_CHANGES}::test_a_logged_statement_stops_read_changes_with_a_hint",
    )),
    131: ("rpl_binary_log_transaction_compression_timestamp", (
        f"{_INDEX}::test_the_index_of_a_recorded_log_has_its_transactions",
    )),
    # H. Rows, JSON, metadata, types
    132: ("rpl_row_jsondiff_basic_pk", (
        f"{_IMAGES}::test_json_diffs_are_applied_to_a_document",
        f"{_IMAGES}::test_the_recorded_log_has_json_diffs",
    )),
    133: ("rpl_row_jsondiff_basic_datatypes", (
        f"{_IMAGES}::test_json_diffs_are_applied_to_a_document",
        f"{_JSON}::test_every_recorded_document_is_printed_as_the_server_did",
    )),
    134: ("rpl_row_jsondiff_stress", (
        f"{_IMAGES}::test_column_by_column_the_rows_are_the_servers",
        f"{_PARTIAL}::test_partial_images_split_over_workers_equal_serial_apply",
    )),
    135: ("rpl_row_jsondiff_error", (f"{_IMAGES}::test_diffs_that_do_not_fit",)),
    136: ("rpl_row_jsondiff_generated_col", (
        f"{_IMAGES}::test_column_by_column_the_rows_are_the_servers",
    )),
    137: ("rpl_row_jsondiff_missing_col_slave", (
        f"{_APPLIER}::test_diffs_of_a_column_that_the_target_lacks",
    )),
    138: ("rpl_row_jsondiff_multitables", (
        f"{_APPLIER}::test_diffs_of_a_column_that_the_target_lacks",
    )),
    139: ("rpl_row_jsondiff_partial_to_full", (
        "The target has no binary log of its own in which a diff could become a whole document.",
    )),
    140: ("rpl_row_jsondiff_binarydiff", (
        "How InnoDB changes the bytes of a stored document on a replica; here there are none.",
    )),
    141: ("rpl_partial_event_type", (
        f"{_DAMAGE}::test_which_document_is_a_diff",
        f"{_IMAGES}::test_the_recorded_log_has_json_diffs",
    )),
    142: ("rpl_json", (
        f"{_JSON}::test_every_recorded_document_is_printed_as_the_server_did",
        f"{_JSON}::test_a_document_above_64_kib_has_wide_offsets",
        f"{_JSON}::test_no_documents_an_empty_one_and_null",
    )),
    143: ("binlog_table_map_optional_metadata", (
        f"{_TYPES}::test_recorded_definitions_round_trip_through_json",
        f"{_CHANGES}::test_minimal_metadata_gives_what_full_metadata_gives",
        f"{_DAMAGE}::test_a_table_map_cut_anywhere_is_a_decode_error",
    )),
    144: ("binlog_mysqlbinlog_signedness_metadata", (
        f"{_DAMAGE}::test_a_year_has_a_bit_of_signedness", _VALUES,
    )),
    145: ("binlog_mysqlbinlog_source_gipk_info", (
        "A key that the source has generated is a column like others: nothing here asks for its"
        " mark in the TABLE_MAP.",
    )),
    146: ("rpl_vector", (
        _VALUES,
        f"{_DECODER_LIVE}::test_random_values_of_every_type_end_as_on_the_server",
    )),
    147: ("rpl_virtual_gcol", (
        _VALUES, f"{_IMAGES}::test_column_by_column_the_rows_are_the_servers",
    )),
    148: ("rpl_row_invisible_columns", (
        f"{_TYPES}::test_recorded_definitions_round_trip_through_json",
        _VALUES,
    )),
    149: ("rpl_gipk_on_source_only", (_ONE_DEFINITION,)),
    150: ("binlog_multi_valued_index", (
        f"{_TYPES}::test_recorded_definitions_round_trip_through_json",
        f"{_DAMAGE}::test_damaged_events_are_named",
    )),
    151: ("rpl_temporal_fractional", (
        _VALUES,
        f"{_DECODER_LIVE}::test_random_values_of_every_type_end_as_on_the_server",
    )),
    152: ("rpl_bit", (
        _VALUES,
        f"{_DECODER_LIVE}::test_random_values_of_every_type_end_as_on_the_server",
    )),
    153: ("rpl_row_blob_innodb", (
        _VALUES,
        f"{_DECODER_LIVE}::test_random_values_of_every_type_end_as_on_the_server",
    )),
    154: ("rpl_charset", (
        _VALUES,
        f"{_DECODER_LIVE}::test_random_text_in_every_character_set_ends_as_on_the_server",
    )),
    155: ("rpl_typeconv", (
        f"{_ENGINES}/test_refusals.py::test_a_definition_that_changed_without_a_statement_stops",
        f"{_CHANGES}::test_columns_without_names_are_refused", _ONE_DEFINITION,
    )),
    156: ("rpl_row_colSize", (
        f"{_CHANGES}::test_columns_without_names_are_refused", _ONE_DEFINITION,
    )),
    157: ("rpl_extra_col_master_innodb", (
        f"{_ENGINES}/test_refusals.py::test_a_definition_that_changed_without_a_statement_stops",
        "applier/test_columns.py::test_only_included_columns_are_in_the_target", _ONE_DEFINITION,
    )),
    158: ("rpl_row_img_sanity", (
        f"{_IMAGES}::test_column_by_column_the_rows_are_the_servers",
        f"{_ENGINES}/test_row_images.py::test_columns_come_from_where_they_are",
        f"{_ENGINES}/test_row_images.py::test_bag_rows_are_made_whole",
    )),
    159: ("rpl_row_find_row", (
        "property/test_key_index.py::test_candidates_are_all_rows_with_the_key",
        f"{_PARTIAL}::test_bags_equal_serial_apply",
    )),
    160: ("rpl_row_ignorable_event", (
        f"{_DAMAGE}::test_ignorable_and_empty_statement_events_pass",
        f"{_INDEX}::test_an_unknown_event_stops_unless_it_is_ignorable",
        f"{_CHANGES}::test_read_changes_gives_the_logged_statements",
    )),
    161: ("rpl_corruption", (
        f"{_PACKET}::test_each_flipped_byte_is_found",
        f"{_WRITER}::test_every_flipped_byte_is_found",
        f"{_RECOVERY}::test_damage_in_a_log_without_checksums_is_found_if_it_shows",
    )),
    162: ("rpl_skip_incident_error", (
        f"{_APPLIER}::test_an_incident_stops_with_13119_until_it_is_skipped",
    )),
    # I. Status
    163: ("rpl_perfschema_applier_status_by_coordinator", (
        f"{_STATUS}::test_status_tells_a_running_applier_from_a_stopped_one",
        f"{_STATUS}::test_an_error_is_said_with_what_to_do",
    )),
    164: ("rpl_perfschema_connection_applier_status_mts", (
        f"{_RECEIVED}::test_the_report_has_the_columns_of_a_connection",
        f"{_ORDER}::test_status_has_a_row_for_each_worker",
    )),
    165: ("rpl_perfschema_applier_status_by_worker_last_applied_transaction", (
        f"{_APPLIER}::test_status_of_xa_parts_and_of_what_is_left_out",
        f"{_ORDER}::test_status_has_a_row_for_each_worker",
    )),
    166: ("rpl_perfschema_applier_status_by_worker_gtid_skipped_transaction_mts", (
        f"{_APPLIER}::test_status_of_xa_parts_and_of_what_is_left_out",
    )),
    167: ("rpl_gtid_perfschema_applier_xa_status", (
        f"{_APPLIER}::test_status_of_xa_parts_and_of_what_is_left_out",
    )),
    168: ("rpl_applier_metrics_basic", (
        f"{_STATUS}::test_metrics_are_served_while_it_runs",
        f"{_STATUS}::test_rules_and_dashboard_name_metrics_that_are_there",
    )),
    169: ("rpl_applier_metrics_waits", (
        f"{_ORDER}::test_status_shows_a_group_that_waits_for_an_earlier_one",
        "Waits are said while they last; what a group's stages took is counted, not each wait.",
    )),
    170: ("rpl_perfschema_applier_config", (
        "unit/cli/test_config_command.py::test_each_value_and_where_it_is_from",
    )),
}  # fmt: skip
