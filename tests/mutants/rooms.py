"""The rooms whose every guard counts, and the tests that hold them, the quickest first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Room:
    """``count`` mutants are drawn from all of ``modules``, ``tests`` must kill them."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    count: int = 20


ROOMS: dict[str, Room] = {
    "schedule": Room(
        ("schedule/waves.py", "schedule/group.py", "schedule/planner.py", "schedule/tasks.py"),
        ("unit/schedule/test_schedule.py", "unit/schedule/test_group.py",
         "property/test_schedule.py", "property/test_plan.py",
         "applier/test_order.py", "applier/test_whole.py"),
    ),
    "folding": Room(
        ("decode/folding.py", "decode/lineage.py", "write/key_changes.py", "write/net_changes.py",
         "write/keyless.py", "binlog/rows/twins.py"),
        ("unit/decode/test_folds.py", "unit/decode/test_soft_folds.py",
         "unit/write/test_keyless.py", "unit/binlog/test_twins.py",
         "applier/test_equal_values.py", "applier/test_idempotent.py",
         "applier/test_whole.py", "applier/test_changelog.py", "property/test_partial_fold.py",
         "property/test_histories.py", "property/test_weak_hash.py"),
    ),
    "direct writes": Room(
        ("write/direct.py", "write/direct_writer.py", "write/commit.py", "write/group_writer.py"),
        ("unit/write/test_group_writer.py", "unit/delta/test_partitions.py",
         "unit/delta/test_deletion_vector.py", "applier/test_partitions.py",
         "applier/test_restarts.py",
         "unit/delta/test_statistics.py",
         "unit/write/test_table_commits.py", "applier/test_guards.py", "applier/test_outcomes.py",
         "applier/test_whole.py", "applier/test_equal_values.py", "applier/test_others.py",
         "applier/test_idempotent.py", "applier/test_order.py", "property/test_histories.py",
         "property/test_change_feed.py", "applier/test_row_repair.py",
         "applier/test_retries.py", "applier/test_statements.py", "applier/test_policies.py"),
    ),
    "commit order": Room(
        ("apply/commit_order.py", "apply/landing.py", "apply/low_water_mark.py", "apply/lanes.py",
         "apply/in_order.py", "apply/bringing.py", "apply/pipeline.py", "apply/failures.py",
         "apply/staging.py"),
        ("unit/apply/test_commit_order.py", "unit/apply/test_lanes.py",
         "unit/apply/test_table_order.py", "applier/test_whole.py",
         "applier/test_guards.py", "applier/test_order.py", "applier/test_restarts.py",
         "applier/test_xa_errors.py", "property/test_skips.py", "property/test_histories.py",
         "applier/test_head_start.py", "applier/test_statements_in_a_row.py",
         "applier/test_source_positions.py", "applier/test_quarantine.py", "applier/test_xa.py",
         "applier/test_outcomes.py", "applier/test_retries.py",
         "applier/test_retry_budget.py"),
    ),
    "retry": Room(
        ("runtime/retry.py", "runtime/retry_counts.py", "apply/reading.py", "apply/restaging.py",
         "observe/worker_status.py", "schedule/stops.py"),
        ("unit/runtime/test_retry.py", "unit/runtime/test_retry_counts.py",
         "unit/schedule/test_stops.py", "applier/test_retries.py", "applier/test_retry_budget.py",
         "applier/test_order.py", "applier/test_outcomes.py", "applier/test_slots.py",
         "unit/apply/test_restaging.py", "unit/apply/test_reading_errors.py"),
    ),
    "coordination": Room(
        ("apply/coordinator.py", "apply/stager.py", "apply/table_order.py", "apply/head_start.py",
         "apply/checkpoint.py", "apply/xa_keeping.py", "schedule/due.py"),
        ("unit/schedule/test_stops.py", "unit/apply/test_table_order.py",
         "unit/apply/test_stream_places.py", "applier/test_head_start.py", "applier/test_gaps.py",
         "applier/test_retry_budget.py", "applier/test_pace.py", "applier/test_order.py",
         "applier/test_slots.py", "applier/test_restarts.py", "applier/test_whole.py",
         "applier/test_cascades.py", "applier/test_quarantine.py", "applier/test_xa.py"),
    ),
    "positions": Room(
        ("position.py", "gtid.py", "write/missing_values.py", "control/owner.py",
         "control/fence.py", "write/tracking.py", "write/table_reader.py", "write/ahead.py",
         "apply/gaps.py", "relay/source_place.py", "relay/source_places.py"),
        ("unit/test_gtid.py", "property/test_gtid.py", "unit/control/test_owner.py",
         "unit/control/test_control.py", "applier/test_others.py", "applier/test_restarts.py",
         "applier/test_formats.py", "applier/test_sleeper.py", "applier/test_idempotent.py",
         "applier/test_gaps.py", "applier/test_source_positions.py",
         "property/test_histories.py", "unit/relay/test_source_places.py",
         "unit/write/test_group_writer.py", "unit/write/test_missing_values.py",
         "property/test_partial_fold.py", "applier/test_statements.py",
         "applier/test_alterations.py", "applier/test_quarantine.py"),
    ),
    "cuts": Room(
        ("control/cut_reader.py", "control/control.py", "control/copies.py", "control/replaced.py",
         "control/held_rows.py"),
        ("unit/control/test_cuts.py", "unit/control/test_owner.py", "unit/control/test_copies.py",
         "unit/control/test_held_rows.py", "unit/control/test_control.py",
         "applier/test_restarts.py", "applier/test_channel.py", "applier/test_sleeper.py",
         "unit/control/test_cut_times.py", "applier/test_statements_in_a_row.py",
         "applier/test_stale_copies.py"),
    ),
    "xa": Room(
        ("schedule/branches.py", "control/xa_store.py", "control/log_bytes.py",
         "apply/xa_parts.py"),
        ("unit/control/test_xa_store.py", "applier/test_xa_errors.py", "applier/test_xa.py",
         "property/test_xa_orders.py", "applier/test_columns.py", "applier/test_stale_copies.py",
         "applier/test_split_transactions.py", "applier/test_xa_bytes.py",
         "applier/test_retry_budget.py"),
    ),
    "key index": Room(
        ("write/key_index.py",),
        ("unit/write/test_key_index.py", "property/test_key_index.py", "property/test_weak_hash.py",
         "applier/test_equal_values.py", "applier/test_whole.py"),
    ),
    "vectors": Room(
        ("delta/deletion_vector.py",),
        ("unit/delta/test_deletion_vector.py", "applier/test_whole.py",
         "property/test_histories.py"),
        12,
    ),
    "compaction": Room(
        ("write/compaction.py", "write/upkeep.py", "write/tending.py", "write/discard.py"),
        ("unit/write/test_compaction.py", "unit/write/test_upkeep.py",
         "property/test_compaction.py", "applier/test_outcomes.py",
         "applier/test_others.py", "property/test_histories.py"),
    ),
    "history": Room(
        ("control/history.py", "control/continuity.py", "control/skips.py",
         "write/table_commits.py", "delta/log_replay.py", "apply/resume.py"),
        ("unit/control/test_log_history.py", "unit/write/test_table_commits.py",
         "unit/delta/test_log_replay.py",
         "unit/control/test_skips.py", "applier/test_others.py", "applier/test_outcomes.py",
         "applier/test_restarts.py", "property/test_skips.py", "applier/test_stale_copies.py",
         "applier/test_split_transactions.py", "applier/test_waiting.py"),
    ),
    "relay recovery": Room(
        ("receiver/recovery.py", "relay/published.py", "receiver/purge.py", "receiver/writer.py"),
        ("unit/receiver/test_relay_end.py", "unit/receiver/test_relay_recovery.py",
         "unit/receiver/test_relay_writer.py", "unit/receiver/test_relay_files.py",
         "unit/relay/test_relay_log.py",
         "unit/relay/test_relay_index.py", "unit/relay/test_relay_verify.py",
         "unit/apply/test_stream_places.py", "unit/receiver/test_dump.py"),
    ),
    "relay files": Room(
        ("relay/split.py", "relay/pieces.py", "relay/repeated.py", "relay/index.py",
         "relay/file_transactions.py", "relay/log.py"),
        ("unit/relay/test_split.py", "unit/relay/test_relay_log.py",
         "unit/relay/test_scenarios.py", "unit/relay/test_relay_index.py",
         "unit/relay/test_look.py", "unit/relay/test_readers.py",
         "applier/test_split_transactions.py", "unit/apply/test_stream_places.py",
         "unit/receiver/test_relay_end.py", "unit/receiver/test_relay_recovery.py"),
    ),
    "relay readers": Room(
        ("relay/look.py", "relay/lease.py", "relay/waiting.py", "relay/file_list.py"),
        ("unit/relay/test_file_list.py", "unit/relay/test_look.py", "unit/relay/test_lease.py",
         "unit/relay/test_waiting.py", "unit/relay/test_readers.py",
         "unit/receiver/test_relay_end.py", "unit/receiver/test_relay_files.py",
         "unit/receiver/test_dump.py", "applier/test_leases.py", "applier/test_restarts.py"),
    ),
    "receiver": Room(
        ("receiver/intake.py", "receiver/receiver.py"),
        ("unit/receiver/test_sessions.py", "unit/receiver/test_heartbeats.py",
         "unit/receiver/test_partial_transactions.py", "unit/receiver/test_relay_files.py",
         "unit/receiver/test_relay_writer.py", "unit/receiver/test_dump.py",
         "unit/receiver/test_scenarios.py", "unit/receiver/test_packet.py",
         "unit/receiver/test_relay_recovery.py"),
    ),
    "ddl": Room(
        ("ddl/effect.py", "ddl/create_table.py", "ddl/alter_table.py", "ddl/sql_tokens.py",
         "ddl/foreign_keys.py", "ddl/lower_names.py", "ddl/altered.py", "ddl/altered_keys.py",
         "ddl/arrangement.py", "ddl/keys.py", "ddl/columns.py", "ddl/origins.py",
         "ddl/altered_partitions.py", "ddl/partition_rows.py"),
        ("unit/ddl/test_partitions.py", "unit/ddl/test_ddl_parts.py", "unit/ddl/test_alter.py",
         "unit/ddl/test_sql_tokens.py",
         "unit/ddl/test_ddl.py",
         "unit/decode/test_seen_cascades.py", "unit/ddl/test_name_case.py",
         "unit/ddl/test_create_select.py",
         "property/test_ddl.py"),
    ),
    "ddl expressions": Room(
        ("ddl/expressions/arithmetic.py", "ddl/expressions/assignment.py",
         "ddl/expressions/casts.py", "ddl/expressions/choice.py", "ddl/expressions/comparison.py",
         "ddl/expressions/evaluation.py", "ddl/expressions/functions.py",
         "ddl/expressions/reader.py", "ddl/expressions/resolution.py",
         "ddl/expressions/rounding.py", "ddl/expressions/texts.py", "ddl/conversion.py"),
        ("unit/ddl/test_expressions.py", "unit/ddl/test_recorded_expressions.py",
         "unit/ddl/test_conversion.py", "unit/ddl/test_alter.py",
         "applier/test_computed_columns.py"),
    ),
    "partitions": Room(
        ("ddl/partition_axis.py", "ddl/partition_clause.py", "ddl/partition_functions.py",
         "ddl/partition_rows.py", "delta/partitions.py", "write/exchange.py",
         "write/partition_files.py"),
        ("unit/ddl/test_partitions.py", "unit/delta/test_partitions.py",
         "applier/test_partitions.py", "applier/test_exchange.py"),
    ),
    "policies": Room(
        ("ddl/policy.py", "ddl/way.py", "ddl/additive.py", "ddl/type_change.py",
         "apply/statements.py", "apply/alterations.py"),
        ("unit/ddl/test_additive.py", "unit/ddl/test_alter.py", "applier/test_policies.py",
         "applier/test_alterations.py", "applier/test_statements.py"),
    ),
    "cascades": Room(
        ("apply/cascading.py", "decode/cascade_events.py", "decode/cascade_plan.py",
         "decode/cascade_rows.py", "decode/seen_cascades.py", "write/cascade_task.py",
         "write/emulated_cascades.py", "write/referencing.py"),
        ("unit/decode/test_seen_cascades.py", "applier/test_cascades.py",
         "property/test_cascades.py"),
    ),
    "waiting tables": Room(
        ("write/waiting_tables.py", "apply/copy_check.py", "control/cut.py"),
        ("unit/control/test_copies.py", "applier/test_stale_copies.py", "applier/test_waiting.py"),
    ),
    "repairs": Room(
        ("apply/repairing.py", "write/row_repair.py", "write/staged_rows.py"),
        ("unit/apply/test_repairing.py", "applier/test_row_repair.py"),
    ),
    "retention": Room(
        ("control/retention.py", "control/pins.py", "write/promised.py"),
        ("unit/control/test_retention.py", "unit/control/test_control.py",
         "unit/write/test_upkeep.py", "applier/test_restarts.py", "applier/test_files.py"),
    ),
    "durability": Room(
        ("delta/durable.py", "delta/new_file.py"),
        ("unit/delta/test_durable.py", "unit/delta/test_log_cleanup.py",
         "unit/control/test_control.py", "unit/control/test_retention.py",
         "unit/control/test_copies.py", "applier/test_xa_bytes.py"),
    ),
    "log clean-up": Room(
        ("delta/log_cleanup.py", "control/settle.py"),
        ("unit/delta/test_log_cleanup.py", "unit/control/test_control.py",
         "unit/control/test_retention.py", "unit/delta/test_log_replay.py"),
    ),
}  # fmt: skip
