"""The tests with a JVM that `make test` runs: each feature once on real Spark; `make test-all` runs the rest.

Chosen by the seconds that a test takes and by what it would find: the broadest of a feature first; crashes,
restarts and migrations before spellings and errors. Whatever starts no JVM is run by `make test` as well.
"""

from __future__ import annotations

from typing import Final

CORE: Final = {
    "cli/test_command_kills.py": "a_kill_at_any_step_leaves_old_or_new_and_the_command_can_be_run_again",
    "cli/test_run.py": """a_running_app_is_read_guarded_and_stopped
        TestDrained""",
    "cli/test_verify.py": "a_view_that_was_altered_is_found_key_by_key_and_repaired",
    "docs/test_readme.py": "the_readme_runs_as_it_stands",
    "engine/changelog/test_changes.py": """counts_sums_and_means_give_back_what_changes
        a_table_of_a_table_of_a_table_follows_all_of_them""",
    "engine/changelog/test_join_table.py": "k20_a_join_of_two_tables_by_their_key",
    "engine/changelog/test_readers.py": "each_change_reaches_each_reader_once_through_crashes_and_restarts",
    "engine/changelog/test_retraction_by_key.py": "rows_that_look_alike_are_retracted_each_by_itself",
    "engine/connectors/test_interfaces.py": """a_second_kind_of_source_is_opened_counted_and_taken_up_again
        a_second_kind_of_sink_gets_each_batch_beside_the_first""",
    "engine/dedup/test_dedup.py": """s7_rows_within_the_lateness_of_each_other
        state_goes_when_time_has_passed""",
    "engine/enrich/test_enrich.py": """k21_a_stream_and_a_table
        rows_wait_for_the_table_and_meet_what_it_has_forgotten_no_more""",
    "engine/enrich/test_event_time.py": "rows_meet_the_version_of_their_time",
    "engine/join/test_joins.py": """k15_k16_an_interval_join_of_one_key
        k17_a_left_row_comes_alone_when_time_has_passed
        s13_a_full_outer_join_of_a_range""",
    "engine/lookup/test_lookups.py": """rows_get_the_lookups_columns_and_stay_without_a_match
        a_reload_is_seen_by_the_next_batch_and_not_by_rows_before""",
    "engine/pattern/test_patterns.py": """f1_three_times_by_what_a_match_rules_out
        f12_what_must_not_come_at_once_or_between
        matches_are_the_same_after_a_crash_and_no_two_are_one""",
    "engine/recovery/test_damage.py": "state_that_is_damaged_is_named_and_reset_costs_no_other_table",
    "engine/recovery/test_definitions.py": """
        state_of_another_definition_is_refused_with_what_differs_and_left_alone""",
    "engine/recovery/test_forget.py": "a_forgotten_person_is_nowhere_and_the_others_are_as_they_were",
    "engine/recovery/test_initial.py": "a_table_begins_with_files_and_goes_on_with_its_stream",
    "engine/recovery/test_lifecycle.py": """apps_in_one_home_and_one_session_do_not_see_each_other
        a_table_that_fails_leaves_the_others_alone""",
    "engine/recovery/test_log.py": "batches_that_all_have_read_leave_the_log_and_stay_counted",
    "engine/recovery/test_migrate.py": "state_follows_a_changed_definition_and_can_go_back",
    "engine/recovery/test_rebuild.py": "another_filter_and_window_are_rebuilt_from_recorded_rows",
    "engine/recovery/test_savepoints.py": """
        a_savepoint_of_a_running_app_is_consistent_and_what_came_since_is_processed_again""",
    "engine/recovery/test_shadow.py": "another_condition_differs_by_what_it_did_to_these_batches",
    "engine/recovery/test_sinks.py": """
        a_sink_that_has_failed_goes_on_below_a_new_one_and_so_do_sinks_that_change_places""",
    "engine/recovery/test_state.py": """state_is_read_by_column_while_the_app_runs_and_after
        a_view_that_was_lost_or_off_is_made_again_from_the_state""",
    "engine/recovery/test_surgery.py": "a_deleted_key_is_gone_everywhere_and_starts_anew",
    "engine/recovery/test_view_stores.py": "an_app_and_its_commands_find_the_views[postgresql]",
    "engine/rows/test_bad_files.py": "json_that_is_cut_off_or_of_another_shape_is_kept_line_by_line",
    "engine/rows/test_bad_input.py": "an_unknown_column_is_named_with_its_place_and_a_suggestion",
    "engine/rows/test_missing_files.py": "a_bad_file_is_named_and_may_be_replaced_or_left_out",
    "engine/rows/test_rejected.py": """a_cast_that_fails_on_one_row_sets_that_row_aside_wherever_it_stands
        on_error_fail_stops_with_the_expression_and_reject_takes_it_from_there""",
    "engine/rows/test_values.py": "values_of_every_type_are_keys_and_results",
    "engine/running/test_drive.py": """what_is_pushed_is_seen_and_what_was_seen_survives_restart_and_crash
        a_sink_that_stops_before_its_position_is_recorded_gets_the_batch_again""",
    "engine/running/test_semantics.py": """self_verifying_keys_hold_over_batches_crashes_and_partitions
        folds_see_rows_by_event_time_then_arrival_within_what_has_arrived""",
    "engine/running/test_top_n.py": "the_first_rows_of_a_tables_changes_move_up_when_one_leaves",
    "engine/running/test_ttl.py": "a_key_goes_when_its_newest_row_and_the_lifetime_reach_the_watermark",
    "engine/shared_stream/test_same_results.py": "a_log_changes_no_table_and_has_each_rejected_line_once",
    "engine/window/test_late.py": "a_replay_corrects_closed_windows_once",
    "engine/window/test_lifecycle.py": "windows_survive_restarts_and_their_views_are_rebuilt",
    "engine/window/test_windows.py": """a_tumbling_window_has_its_start_and_not_its_end
        sliding_windows_whose_size_is_no_multiple_of_every
        sessions_grow_merge_and_close
        rolling_covers_the_last_duration_up_to_the_newest_row
        last_covers_the_newest_rows_by_time_then_arrival""",
    "kafka/test_broker.py": "a_broker_is_up_with_its_topics_keeps_them_and_ends_in_order",
    "kafka/test_kill.py": "totals_of_a_killed_app_are_in_the_topic_once",
    "kafka/test_producer.py": "a_newer_producer_fences_an_older_one_and_knows_its_position",
    "kafka/test_realtime.py": "changes_are_sent_at_once_and_the_table_alternates_between_the_modes",
    "kafka/test_sink.py": """changes_are_messages_with_key_row_and_headers
        a_crash_after_the_messages_and_before_the_position""",
    "kafka/test_source.py": """messages_of_every_format_become_rows_or_are_rejected_with_their_place
        lost_messages_stop_a_table_or_are_warned_of_and_named""",
    "kernel/test_plan_check.py": "this_spark_plans_what_the_kernel_relies_on",
    "kernel/test_scala.py": "a_suite_holds",
    "operations/test_operations.py": """
        after_an_operation_every_source_is_read_on_and_every_row_counts_once[side-replay]
        after_an_operation_every_source_is_read_on_and_every_row_counts_once[forget]
        after_an_operation_every_source_is_read_on_and_every_row_counts_once[rescale]
        after_an_operation_every_source_is_read_on_and_every_row_counts_once[reset]
        after_an_operation_every_source_is_read_on_and_every_row_counts_once[savepoint-create]
        after_an_operation_every_source_is_read_on_and_every_row_counts_once[savepoint-create-live]""",
    "process/test_process.py": """timers_of_event_time_fire_when_the_watermark_has_passed_them
        state_lives_on""",
    "storage/test_spark_storage.py": "a_file_system_that_spark_does_not_know_is_an_error_with_its_name",
}
"""By file, the names of tests without `test_`, or of classes; parameters are all run unless one is named."""


def is_core(file: str, name: str, *, jvm: bool) -> bool:
    """Whether `make test` runs a test. `name`: what follows the file, such as `Class::test_x[1]`."""
    if not jvm:
        return True
    plain = name.removeprefix("test_")
    return any(
        plain == chosen or plain.startswith((f"{chosen}[", f"{chosen}::"))
        for chosen in CORE.get(file, "").split()
    )
