//! The list of all cases and the abilities they require, and the macro that generates the matrix.

use crate::cell::{Ability, Cell};
use crate::matrix;

/// Generates a module for each cell with one `#[test]` for each case, and a function `cells` that returns all cells:
/// `conformance_matrix! { module_name: cell; … }`. The cell is an expression that is evaluated for every test.
macro_rules! conformance_matrix {
    ($($module:ident: $cell:expr;)*) => {
        $(mod $module {
            use super::*;

            $crate::case_list::conformance_matrix! { @each @tests $cell }
        })*

        /// Every column of the matrix.
        fn cells() -> Vec<Cell> {
            vec![$($cell),*]
        }
    };
    (@each @$what:ident $($arg:tt)*) => {
        $crate::case_list::conformance_matrix! { @$what ($($arg)*)
            echoing {
                c13_random_data_of_many_connections_is_echoed_intact
                c13_data_sent_byte_by_byte_is_echoed_intact
            }
            reading {
                c09_nothing_is_read_while_auto_read_is_off
                c09_a_read_requested_before_the_channel_is_active_is_honoured
                c09_a_read_requested_before_or_while_a_channel_is_deregistered_is_honoured
                c09_switching_auto_read_off_and_on_loses_nothing
                c09_a_round_has_at_most_sixteen_reads
                c09_two_flooding_peers_take_turns
            }
            writing {
                c07_small_writes_flushed_at_once_are_gathered_in_few_system_writes
                c07_short_writes_arrive_whole_and_complete_in_order
                c07_a_long_write_to_a_slow_reader_arrives_whole
                c07_a_write_cancelled_before_the_flush_is_skipped
                c07_a_write_made_in_a_write_listener_is_sent_next
                c05_a_close_inside_a_flush_delivers_the_flushed_bytes
                c07_a_close_during_a_flush_completes_every_write
            }
            half_closure {
                c10_a_peer_that_has_shut_down_its_output_reads_the_whole_answer
                c10_end_of_stream_closes_a_channel_without_allow_half_closure
                c10_flushed_bytes_are_sent_before_the_end_of_stream
                c10_when_both_peers_shut_down_their_output_both_channels_close
                c10_a_channel_reads_nothing_after_its_input_is_shut_down
                c10_a_peer_may_send_to_a_channel_whose_input_is_shut_down
                c10_a_foreign_peer_that_has_shut_down_its_output_reads_the_whole_answer
                c10_a_channel_that_does_not_read_is_notified_that_its_peer_has_finished
            }
            resets {
                c02_a_reset_is_reported_once_as_an_error_and_closes_the_channel
                c11_a_close_with_linger_zero_resets_the_peer
            }
            closing {
                c02_a_close_in_a_task_is_complete_when_the_call_returns
                c05_a_close_in_a_handler_completes_after_the_handlers_call_returns
            }
            connecting {
                c12_a_refused_connect_fails_and_leaves_nothing_behind
                c12_a_connect_fails_after_its_timeout
                c12_a_cancelled_connect_leaves_nothing_behind
            }
            editing {
                c05_edits_while_data_flows_lose_and_reorder_nothing
                c03_an_offloaded_handler_in_the_middle_loses_and_reorders_nothing
            }
            back_pressure {
                c07_pending_bytes_for_a_peer_that_never_reads_stay_at_the_high_water_mark
                c07_writes_beyond_the_hard_cap_fail_and_the_others_arrive
                k14_a_server_that_ignores_writability_holds_no_more_than_its_high_water_mark
                k14_a_server_with_pause_reads_never_keeps_reading
            }
            reregistering {
                c04_reregistering_a_channel_during_traffic_loses_nothing
            }
            shutdown {
                l10_shutting_down_servers_during_traffic_closes_everything
                l10_shutting_down_clients_during_traffic_closes_everything
                l11_a_drain_during_traffic_sends_all_pending_bytes
            }
            leaks {
                c13_repeated_waves_of_connections_leak_nothing
            }
        }
    };
    (@tests ($cell:expr) $($part:ident { $($test:ident)* })*) => {
        $($(
            #[test]
            fn $test() {
                $crate::case_list::run(&$cell, stringify!($test), $crate::cases::$part::$test);
            }
        )*)*
    };
    (@names () $($part:ident { $($test:ident)* })*) => {
        [$($(stringify!($test),)*)*]
    };
}

pub(crate) use conformance_matrix;

/// Cases that require an ability that not every cell has, each with that ability.
const REQUIRED_ABILITIES: [(&str, Ability); 9] = [
    ("c09_two_flooding_peers_take_turns", Ability::SharedLoop),
    ("c07_small_writes_flushed_at_once_are_gathered_in_few_system_writes", Ability::SystemWrites),
    ("c07_short_writes_arrive_whole_and_complete_in_order", Ability::SmallBuffers),
    (
        "c10_a_foreign_peer_that_has_shut_down_its_output_reads_the_whole_answer",
        Ability::ForeignPeer,
    ),
    ("c10_a_peer_may_send_to_a_channel_whose_input_is_shut_down", Ability::IndependentDirections),
    ("c02_a_reset_is_reported_once_as_an_error_and_closes_the_channel", Ability::ForeignPeer),
    ("c11_a_close_with_linger_zero_resets_the_peer", Ability::Lingering),
    ("c12_a_connect_fails_after_its_timeout", Ability::SlowConnect),
    ("c12_a_cancelled_connect_leaves_nothing_behind", Ability::SlowConnect),
];

/// Cases that count resources of the whole process, and so run alone.
const RUN_ALONE: [&str; 1] = ["c13_repeated_waves_of_connections_leak_nothing"];

/// Returns why this cell cannot support the case.
fn reason(cell: &Cell, case: &str) -> Option<&'static str> {
    let mut needs = REQUIRED_ABILITIES.iter().filter(|(name, _)| *name == case);
    needs.find_map(|(_, ability)| cell.reason_to_skip(*ability))
}

/// Runs a case over a cell, or prints why the cell cannot support it.
pub(crate) fn run(cell: &Cell, name: &str, case: fn(&Cell)) {
    match reason(cell, name) {
        Some(reason) => matrix::print_skipped(&cell.name(), name, reason),
        None if RUN_ALONE.contains(&name) => matrix::run_alone(|| case(cell)),
        None => matrix::run_together(|| case(cell)),
    }
}

/// Prints the matrix, and panics if it is inconsistent.
pub(crate) fn print_and_check(cells: &[Cell]) {
    let cases = conformance_matrix!(@each @names);
    let columns: Vec<_> =
        cells.iter().map(|cell| cell.column(Box::new(|case| reason(cell, case)))).collect();
    matrix::print_and_check("Streams", &columns, &cases);
    let listed = REQUIRED_ABILITIES.iter().map(|(name, _)| *name).chain(RUN_ALONE);
    for name in listed {
        assert!(cases.contains(&name), "{name} is not in the list of cases");
    }
}
