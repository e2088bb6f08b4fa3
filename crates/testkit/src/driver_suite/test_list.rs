//! The list of the suite's tests, as a macro that generates them.

/// Generates a module with one `#[test]` for each function of the [suite](mod@crate::driver_suite), for one
/// driver: `driver_suite!(name_of_the_module, fixture)`. The fixture is an expression, evaluated for
/// every test.
#[macro_export]
macro_rules! driver_suite {
    ($module:ident, $fixture:expr) => {
        mod $module {
            #[allow(unused_imports, reason = "the fixture may be an expression that needs nothing")]
            use super::*;

            $crate::driver_suite! { @tests $fixture;
                wait_calls {
                    l02_a_driver_has_a_name
                    l02_a_wait_ends_at_its_deadline
                    l02_a_wait_with_a_past_deadline_does_not_block
                    l02_a_wait_does_not_block_while_events_are_left
                    l02_an_unpark_ends_the_next_wait_and_no_other
                    l02_many_unparks_end_one_wait
                    l02_an_unpark_from_another_thread_ends_a_wait
                    l02_a_wake_and_an_event_are_both_reported
                    l02_the_waker_may_outlive_its_driver
                }
                reading {
                    l05_reads_are_off_at_first
                    l05_a_round_of_reads_ends_with_one_read_complete
                    l05_a_last_read_ends_its_round
                    l07_a_detached_stream_has_no_read_complete
                    l05_a_plan_bounds_a_round
                    l05_a_flooding_peer_cannot_prolong_a_round
                    l05_reads_that_are_turned_off_stop_in_the_middle_of_a_round
                    l05_eof_is_delivered_once_and_last
                    l05_eof_is_delivered_although_reads_go_off_after_each_round
                    l05_a_stream_whose_peer_has_finished_can_be_written_to
                    l05_a_reset_fails_a_stream_once
                }
                writing {
                    l05_what_is_written_arrives_in_order
                    l05_a_write_without_room_is_pending_until_there_is_room
                    l05_wrote_is_delivered_before_read
                    l05_a_file_arrives_between_the_bytes_around_it
                    l05_a_truncated_file_is_an_error
                    l05_shutting_down_the_output_is_end_of_file_for_the_peer
                }
                connections {
                    l05_a_connect_is_connected_once
                    l05_connected_is_delivered_before_read
                    l05_a_listener_accepts_as_planned
                    l05_an_accepted_connection_that_is_dropped_is_closed
                }
                rebuilding {
                    l06_a_rebuild_keeps_registrations_and_their_interest
                    l06_a_rebuild_loses_no_event
                    l06_a_rebuild_keeps_a_pending_write
                    l06_a_rebuild_keeps_a_pending_connect
                    l06_the_waker_survives_a_rebuild
                    l06_a_rebuild_does_not_restore_detached_registrations
                }
                registrations {
                    l07_streams_detached_at_the_first_event_have_no_events
                    l07_foreign_descriptors_detached_at_the_first_event_have_no_events
                    l07_a_registration_does_not_inherit_events_of_its_predecessor
                    l07_a_detach_is_done_at_once_or_followed_by_one_detached
                    l07_a_detach_ends_a_pending_write
                    l07_a_call_with_an_unknown_token_does_nothing
                    l07_a_failed_attach_returns_the_socket_and_leaves_the_token_free
                    l07_tokens_with_the_same_index_are_distinguished
                }
                datagrams {
                    l05_datagrams_are_read_whole_and_one_read_complete_ends_their_round
                    l05_a_datagram_is_cut_off_at_the_plans_size
                    l05_a_plan_bounds_a_round_of_datagrams
                    l05_datagrams_wait_while_reads_are_off
                    l05_datagrams_are_sent_in_order
                    l05_datagrams_wait_until_there_is_room
                    l07_a_socket_that_is_released_loses_no_datagram
                    l07_datagrams_and_streams_are_not_mixed_up
                    l17_a_datagram_that_nobody_reads_does_not_spin
                    l05_a_send_that_takes_the_pending_error_does_not_prolong_the_round
                    l05_reporting_an_error_or_write_room_adds_no_second_round
                }
                edge_triggered {
                    l05_bytes_left_by_a_full_round_are_read_without_further_readiness
                    l05_bytes_left_by_a_full_round_are_read_when_reads_are_on_again
                    l05_bytes_that_arrived_while_reads_were_off_are_read_later
                    l17_a_peer_that_finished_during_full_rounds_is_reported
                    l05_every_pending_write_gets_wrote_when_there_is_room
                    l05_connections_left_by_a_round_are_accepted_without_further_readiness
                    l05_an_interrupted_round_continues_after_the_next_wait
                    l06_a_rebuild_keeps_readiness_reported_before
                    l07_unread_bytes_of_a_released_stream_are_read_by_its_next_driver
                    l05_datagrams_left_by_a_round_are_received_without_further_readiness
                }
                foreign {
                    l08_readiness_is_reported_in_every_round_while_it_lasts
                    l08_the_interest_can_be_changed
                    l08_an_empty_interest_is_an_error
                    l08_a_hang_up_is_reported_for_every_interest
                    l08_a_detached_descriptor_has_no_events
                    l08_foreign_descriptors_and_streams_are_not_mixed_up
                }
                no_spinning {
                    l17_idle_registrations_do_not_spin
                    l17_a_finished_peer_with_reads_off_does_not_spin
                    l17_reads_turned_off_again_do_not_spin
                    l17_peer_finished_is_delivered_once_while_reads_are_off
                    l17_a_reset_with_reads_off_fails_once
                    l17_a_stream_closed_in_both_directions_does_not_spin
                    l17_a_refused_connect_fails_once
                    l17_a_connected_stream_does_not_spin
                    l17_a_pending_write_gets_wrote_once
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

    /// The files of the suite that contain tests.
    const FILES: [&str; 10] = [
        include_str!("wait_calls.rs"),
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
