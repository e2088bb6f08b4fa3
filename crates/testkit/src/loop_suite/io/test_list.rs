//! The list of all tests, as a macro that makes them.

/// Makes a module with one `#[test]` for each function of the [suite](mod@crate::loop_suite::io) that
/// needs something to watch, for one driver: `loop_io_suite!(name_of_the_module, fixture)`. The fixture
/// is an expression that gives a [`Fixture`](crate::driver_suite::Fixture), evaluated for every test.
#[macro_export]
macro_rules! loop_io_suite {
    ($module:ident, $fixture:expr) => {
        mod $module {
            #[allow(unused_imports, reason = "the fixture may be an expression that needs nothing")]
            use super::*;

            $crate::loop_io_suite! { @tests $fixture;
                foreign {
                    l08_a_source_is_told_in_every_turn_until_it_is_consumed
                    l08_a_handler_that_consumes_is_told_once
                    l08_a_source_ends_a_wait
                    l08_the_interest_is_changed_by_the_callback
                    l08_the_interest_is_changed_by_the_handle
                    l08_a_hang_up_is_told
                    l08_an_interest_in_nothing_is_refused
                    l08_a_source_is_registered_from_another_thread
                    l08_dropping_the_handle_changes_nothing
                    l08_a_callback_registers_another_source
                }
                ending {
                    l08_a_callback_unregisters_itself
                    l08_an_error_of_the_callback_is_the_cause
                    l08_the_first_cause_is_told
                    e12_a_panic_of_the_callback_is_the_cause_and_reported
                    e12_a_panic_while_told_of_the_end_is_reported
                    l08_two_who_unregister_it_are_told_apart
                    l08_a_callback_unregisters_another_registration
                    l08_a_source_is_registered_again_at_its_end
                    l10_a_shutdown_tells_registrations_at_its_start
                    l08_a_loop_that_shuts_down_registers_nothing
                    l08_a_loop_that_is_over_refuses_everything
                    e16_a_dropped_loop_tells_its_registrations
                }
                fairness {
                    e11_everybody_is_served_in_every_turn
                    e11_a_busy_source_does_not_keep_a_loop_from_ending
                }
                rebuilding {
                    l06_a_rebuild_that_is_asked_for_keeps_registrations
                    l06_a_spinning_selector_is_rebuilt
                    l06_something_to_do_ends_a_series_of_early_returns
                    l06_the_guard_can_be_turned_off
                    l06_what_cannot_be_moved_is_told_the_cause
                    l06_a_rebuild_that_fails_keeps_the_old_selector
                }
                streams {
                    l07_the_dead_are_not_called
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

    /// Every file of the suite that has tests in it.
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
