//! The list of the suite's tests, as a macro that generates them.

/// Generates a module with one `#[test]` for each function of the [suite](mod@crate::loop_suite::io) that
/// needs sockets, for one driver: `loop_io_suite!(name_of_the_module, fixture)`. The fixture
/// is an expression that gives a [`Fixture`](crate::driver_suite::Fixture), evaluated for every test.
#[macro_export]
macro_rules! loop_io_suite {
    ($module:ident, $fixture:expr) => {
        mod $module {
            #[allow(unused_imports, reason = "the fixture may be an expression that needs nothing")]
            use super::*;

            $crate::loop_io_suite! { @tests $fixture;
                foreign {
                    l08_readiness_is_reported_in_every_turn_until_it_is_consumed
                    l08_a_handler_that_consumes_readiness_is_called_once
                    l08_a_source_ends_a_wait
                    l08_the_interest_is_changed_by_the_callback
                    l08_the_interest_is_changed_by_the_handle
                    l08_a_hang_up_reaches_the_handler
                    l08_an_empty_interest_is_refused
                    l08_a_source_is_registered_from_another_thread
                    l08_dropping_the_handle_changes_nothing
                    l08_a_callback_registers_another_source
                }
                ending {
                    l08_a_callback_unregisters_itself
                    l08_an_error_of_the_callback_is_the_cause
                    l08_a_registration_gets_its_first_cause
                    e12_a_panic_of_the_callback_is_the_cause_and_reported
                    e12_a_panic_in_on_unregistered_is_reported
                    l08_a_second_unregister_returns_false
                    l08_a_callback_unregisters_another_registration
                    l08_a_source_is_registered_again_at_its_end
                    l10_a_shutdown_ends_registrations_at_its_start
                    l08_a_loop_that_shuts_down_registers_nothing
                    l08_a_terminated_loop_refuses_registrations
                    e16_a_dropped_loop_ends_its_registrations
                }
                fairness {
                    e11_every_turn_serves_io_tasks_timers_futures_and_tail_tasks
                    e11_a_busy_source_does_not_prevent_a_shutdown
                }
                rebuilding {
                    l06_a_requested_rebuild_keeps_registrations
                    l06_a_spinning_selector_is_rebuilt
                    l06_a_task_or_event_resets_the_count_of_early_returns
                    l06_automatic_rebuilds_can_be_turned_off
                    l06_a_registration_that_cannot_be_moved_gets_the_cause
                    l06_a_rebuild_that_fails_keeps_the_old_selector
                }
                streams {
                    l07_detached_registrants_are_not_called
                    l05_a_registrant_reads_and_writes_on_the_loop
                }
            }
        }
    };
    (@tests $fixture:expr; $($part:ident { $($test:ident)* })*) => {
        $($(
            #[test]
            fn $test() {
                $crate::loop_suite::io::$test(&$fixture);
            }
        )*)*
    };
}

#[cfg(test)]
mod tests {
    use crate::suite_listing::assert_listed_once;

    /// The files of the suite that contain tests.
    const FILES: [&str; 5] = [
        include_str!("foreign.rs"),
        include_str!("ending.rs"),
        include_str!("fairness.rs"),
        include_str!("rebuilding.rs"),
        include_str!("streams.rs"),
    ];

    #[test]
    fn every_test_of_the_suite_is_listed_once() {
        assert_listed_once(&FILES, include_str!("test_list.rs"));
    }
}
