//! The list of all tests, as a macro that makes them.

/// Makes a module with one `#[test]` for each function of the [suite](mod@crate::driver_suite), for one
/// driver: `driver_suite!(name_of_the_module, fixture)`. The fixture is an expression, evaluated for
/// every test.
#[macro_export]
macro_rules! driver_suite {
    ($module:ident, $fixture:expr) => {
        mod $module {
            #[allow(unused_imports, reason = "the fixture may be an expression that needs nothing")]
            use super::*;

            $crate::driver_suite! { @tests $fixture;
                waiting {
                    l02_a_driver_says_what_it_is
                    l02_a_wait_ends_at_its_deadline
                    l02_a_wait_whose_time_has_come_only_looks
                    l02_a_wait_does_not_block_while_events_are_left
                    l02_an_unpark_ends_the_next_wait_and_no_other
                    l02_many_unparks_end_one_wait
                    l02_an_unpark_from_another_thread_ends_a_wait
                    l02_a_wake_and_an_event_do_not_hide_each_other
                    l02_the_waker_may_outlive_its_driver
                }
                reading {
                    l05_reads_are_off_at_first
                    l05_a_round_of_reads_ends_with_one_read_complete
                    l05_a_last_read_ends_its_round
                    l07_a_detached_stream_has_no_read_complete
                    l05_a_plan_bounds_a_round
                    l05_a_flooding_peer_cannot_keep_a_round_going
                    l05_reads_that_are_turned_off_stop_in_the_middle_of_a_round
                    l05_eof_comes_once_and_last
                    l05_whoever_asks_for_one_round_after_the_other_learns_of_the_end
                    l05_a_stream_that_has_ended_is_still_written_to
                    l05_a_reset_fails_a_stream_once
                }
                writing {
                    l05_what_is_written_arrives_in_order
                    l05_a_write_without_room_is_pending_until_there_is
                    l05_wrote_comes_before_read
                    l05_a_file_arrives_among_what_is_written
                    l05_a_file_that_was_cut_is_an_error
                    l05_a_shut_down_output_is_the_peers_end
                }
                connections {
                    l05_a_connect_is_connected_once
                    l05_connected_comes_before_read
                    l05_a_listener_accepts_as_planned
                    l05_an_accepted_connection_that_is_dropped_is_closed
                }
                rebuilding {
                    l06_a_rebuild_keeps_registrations_and_their_interest
                    l06_a_rebuild_loses_no_event
                    l06_a_rebuild_keeps_a_pending_write
                    l06_a_rebuild_keeps_a_pending_connect
                    l06_the_waker_survives_a_rebuild
                    l06_a_rebuild_does_not_bring_back_what_was_detached
                }
                registrations {
                    l07_streams_detached_by_the_first_event_say_nothing
                    l07_foreign_descriptors_detached_by_the_first_event_say_nothing
                    l07_a_successor_does_not_inherit_events
                    l07_a_detach_is_done_or_one_detached_follows
                    l07_a_pending_write_dies_with_its_registration
                    l07_a_call_with_an_unknown_token_does_nothing
                    l07_a_failed_attach_leaves_nothing
                    l07_tokens_of_one_index_are_told_apart
                }
                datagrams {
                    l05_datagrams_are_read_whole_and_one_read_complete_ends_their_round
                    l05_a_datagram_is_cut_off_at_the_plans_size
                    l05_a_plan_bounds_a_round_of_datagrams
                    l05_reads_that_go_off_hold_datagrams_back
                    l05_datagrams_are_sent_in_order
                    l05_datagrams_without_room_wait_until_there_is
                    l07_a_socket_that_is_released_loses_no_datagram
                    l07_datagrams_and_streams_are_not_mixed_up
                    l17_a_datagram_that_nobody_reads_does_not_spin
                    l05_a_send_that_takes_the_error_of_a_round_does_not_keep_it_going
                    l05_an_error_beside_room_for_a_pending_write_does_not_keep_a_round_going
                }
                edge_triggered {
                    l05_what_a_full_round_leaves_is_read_though_the_peer_is_silent
                    l05_what_a_full_round_leaves_is_read_when_reads_are_on_again
                    l05_what_came_while_reads_were_off_is_read_when_they_are_on
                    l17_a_peer_that_finished_in_the_course_of_full_rounds_is_told
                    l05_room_is_told_to_every_write_that_waits_for_it
                    l05_connections_that_a_round_leaves_are_accepted_though_nobody_else_connects
                    l05_a_round_that_is_left_in_the_middle_goes_on_after_the_next_wait
                    l06_a_rebuild_keeps_what_was_said_before
                    l07_what_is_unread_of_a_released_stream_is_read_by_its_next_driver
                    l05_datagrams_that_a_round_leaves_are_received_though_the_peer_is_silent
                }
                foreign {
                    l08_readiness_is_told_as_long_as_it_lasts
                    l08_the_interest_can_be_changed
                    l08_an_interest_in_nothing_is_an_error
                    l08_a_hang_up_is_told_whatever_the_interest_is
                    l08_a_detached_descriptor_says_nothing
                    l08_foreign_descriptors_and_streams_are_not_mixed_up
                }
                no_spinning {
                    l17_idle_registrations_do_not_spin
                    l17_a_finished_peer_with_reads_off_does_not_spin
                    l17_reads_turned_off_again_do_not_spin
                    l17_that_a_peer_has_finished_is_told_once_while_reads_are_off
                    l17_a_reset_with_reads_off_fails_once
                    l17_a_stream_that_is_over_in_both_directions_does_not_spin
                    l17_a_refused_connect_fails_once
                    l17_a_connected_stream_does_not_spin
                    l17_room_is_told_once
                    l17_a_full_backlog_with_accepts_off_does_not_spin
                }
            }
        }
    };
    (@tests $fixture:expr; $($part:ident { $($test:ident)* })*) => {
        $($(
            #[test]
            fn $test() {
                $crate::driver_suite::$part::$test(&$fixture);
            }
        )*)*
    };
}

#[cfg(test)]
mod tests {
    use crate::suite_listing::assert_listed_once;

    /// Every file of the suite that has tests in it.
    const FILES: [&str; 10] = [
        include_str!("waiting.rs"),
        include_str!("reading.rs"),
        include_str!("writing.rs"),
        include_str!("connections.rs"),
        include_str!("rebuilding.rs"),
        include_str!("registrations.rs"),
        include_str!("datagrams.rs"),
        include_str!("edge_triggered.rs"),
        include_str!("foreign.rs"),
        include_str!("no_spinning.rs"),
    ];

    #[test]
    fn every_test_of_the_suite_is_listed_once() {
        assert_listed_once(&FILES, include_str!("test_list.rs"));
    }
}
