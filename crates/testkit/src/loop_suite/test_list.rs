//! The list of the suite's tests, as a macro that generates them.

/// Generates a module with one `#[test]` for each function of the [suite](mod@crate::loop_suite) that needs
/// no descriptors, for one driver: `loop_suite!(name_of_the_module, driver)`. The driver is an
/// expression that gives an [`OpenDriver`](waterwheel_channel::driver::OpenDriver), evaluated for every
/// test.
#[macro_export]
macro_rules! loop_suite {
    ($module:ident, $driver:expr) => {
        mod $module {
            #[allow(unused_imports, reason = "the driver may be an expression that needs nothing")]
            use super::*;

            $crate::loop_suite! { @tests $driver;
                phases {
                    l03_a_strategy_is_asked_in_every_turn
                    l03_continue_leaves_the_driver_alone
                    l03_busy_wait_looks_and_does_not_block
                    l03_wait_blocks_until_there_is_something_to_do
                    l03_wait_does_not_block_if_there_is_something_to_do
                    l03_a_strategy_that_panics_is_reported_and_the_loop_waits
                    o01_turns_are_counted_whatever_the_strategy
                    l03_a_failed_wait_skips_neither_tasks_nor_timers
                    l03_a_loop_that_cannot_wait_still_shuts_down
                    l04_a_ratio_out_of_range_is_an_error
                    l04_without_events_one_batch_runs
                }
                tail_tasks {
                    l09_tail_tasks_run_after_the_tasks_in_order
                    l09_tail_tasks_run_without_tasks
                    l09_a_tail_task_of_a_tail_task_waits_a_turn
                    l09_a_loop_does_not_sleep_over_a_tail_task
                    l09_a_tail_task_can_be_removed_once
                    l09_one_of_many_threads_removes_a_tail_task
                    e12_a_tail_task_that_panics_is_reported
                    l09_a_loop_that_is_shut_down_rejects_tail_tasks
                    l09_tail_tasks_do_not_delay_a_shutdown
                    l09_an_accepted_tail_task_runs_when_the_loop_is_dropped
                }
                manual_loop {
                    l12_a_turn_waits_no_longer_than_its_limit
                    l12_a_turn_spins_no_longer_than_its_limit
                    l12_a_turn_without_a_limit_ends_with_a_timer
                    l12_a_task_of_another_thread_wakes_a_manual_loop
                    l12_run_for_runs_due_timers_and_returns_in_time
                    l12_a_terminated_loop_takes_no_turns_and_no_tasks
                    l12_a_dropped_loop_runs_accepted_tasks
                    l12_a_manual_loop_is_current_only_during_its_turns
                    l12_a_wake_reaches_its_own_loop_among_nested_ones
                    p04_a_manual_loop_refuses_to_block_during_a_turn
                }
                futures {
                    l15_futures_run_on_the_loop
                    l15_a_future_spawns_and_awaits_others
                    l15_a_turn_polls_a_future_once
                    l15_a_loop_does_not_sleep_over_a_ready_future
                    l15_a_wake_on_the_loop_costs_no_command
                    e12_a_future_that_panics_fails_and_is_reported
                    l15_dropping_a_join_detaches
                    l15_a_spawn_counts_against_the_queue_bound
                }
                futures_ending {
                    l15_an_aborted_future_is_dropped_on_the_loop
                    l15_a_late_or_second_abort_does_nothing
                    l15_a_future_may_abort_itself
                    l15_a_cancelled_spawn_is_dropped_on_the_loop
                    l15_futures_are_dropped_on_the_loop_at_shutdown
                    l15_futures_of_a_dropped_loop_are_dropped_on_the_loop
                    l15_a_future_that_panicked_is_dropped_on_the_loop
                    e12_a_future_whose_drop_panics_is_reported
                    l15_a_spawn_after_shutdown_returns_the_future
                    l15_a_wake_after_the_loops_end_is_harmless
                    l15_a_future_spawned_by_a_destructor_at_the_end_is_dropped
                }
                futures_time {
                    l15_sleeps_end_in_order_and_never_early
                    l15_a_sleep_that_is_dropped_leaves_no_timer
                    l15_a_sleep_wakes_the_task_that_polled_it_last
                    l15_a_timeout_polls_its_future_first
                    l15_an_interval_ticks_at_multiples_of_its_period
                }
                futures_threads {
                    l15_no_wake_of_another_thread_is_lost
                    l15_a_wake_ends_a_sleep_every_time
                    l15_wakers_do_not_keep_a_loop_alive
                    l15_futures_of_two_loops_await_each_other
                }
                threads {
                    e10_wake_ups_are_no_more_than_sleeps
                    e10_a_spinning_loop_is_reached_without_a_wake_up
                    p04_blocking_on_a_loop_is_refused_for_any_promise
                    e16_futures_and_loop_locals_are_dropped_on_the_loop
                    e21_dropping_the_last_handle_ends_a_loop
                }
            }
        }
    };
    (@tests $driver:expr; $($part:ident { $($test:ident)* })*) => {
        $($(
            #[test]
            fn $test() {
                $crate::loop_suite::$test(&$driver);
            }
        )*)*
    };
}

#[cfg(test)]
mod tests {
    use crate::suite_listing::assert_listed_once;

    /// The files of the suite that contain tests.
    const FILES: [&str; 8] = [
        include_str!("phases.rs"),
        include_str!("tail_tasks.rs"),
        include_str!("manual_loop.rs"),
        include_str!("futures.rs"),
        include_str!("futures_ending.rs"),
        include_str!("futures_time.rs"),
        include_str!("futures_threads.rs"),
        include_str!("threads.rs"),
    ];

    #[test]
    fn every_test_of_the_suite_is_listed_once() {
        assert_listed_once(&FILES, include_str!("test_list.rs"));
    }
}
