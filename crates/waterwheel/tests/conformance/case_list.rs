//! The list of all cases, what they need, and the matrix that comes of it.

use crate::cell::{Ability, Cell};
use crate::matrix;

/// Makes a module with one `#[test]` for each case, for each cell, and a function `cells` with all of
/// them: `conformance_matrix! { name_of_the_module: cell; … }`. The cell is an expression, evaluated for
/// every test.
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
                c13_what_comes_byte_by_byte_is_echoed_intact
            }
            reading {
                c09_nothing_is_read_while_auto_read_is_off
                c09_a_read_asked_for_before_the_channel_is_active_is_honoured
                c09_a_read_asked_for_before_or_while_a_channel_is_away_is_honoured
                c09_auto_read_that_goes_off_and_on_loses_nothing
                c09_a_round_has_at_most_sixteen_reads
                c09_two_flooding_peers_take_turns
            }
            writing {
                c07_small_writes_flushed_at_once_are_gathered_in_few_system_writes
                c07_short_writes_arrive_whole_and_are_told_in_order
                c07_a_long_write_to_a_slow_reader_arrives_whole
                c07_a_write_cancelled_before_the_flush_is_skipped
                c07_a_write_in_a_write_listener_is_next
                c05_a_close_inside_of_a_flush_delivers_what_was_flushed
                c07_a_close_in_the_middle_of_a_flush_tells_every_write
            }
            half_closure {
                c10_a_peer_that_has_finished_reads_the_whole_answer
                c10_the_end_closes_a_channel_that_does_not_allow_half_of_it
                c10_what_was_flushed_goes_before_the_end
                c10_when_both_have_finished_both_are_closed
                c10_an_input_that_is_shut_down_reads_nothing_more
                c10_who_is_not_read_any_more_may_go_on_sending
                c10_a_foreign_peer_that_has_finished_reads_the_whole_answer
                c10_that_the_peer_has_finished_is_told_to_one_who_does_not_read
            }
            resets {
                c02_a_reset_is_an_error_and_the_end
                c11_a_close_that_lingers_for_nothing_resets_the_peer
            }
            closing {
                c02_a_close_in_a_task_is_told_when_it_returns
                c05_a_close_in_a_handler_is_told_when_its_call_has_returned
            }
            connecting {
                c12_a_refused_connect_fails_and_leaves_nothing
                c12_a_connect_that_takes_too_long_is_given_up
                c12_a_cancelled_connect_leaves_nothing
            }
            editing {
                c05_edits_while_data_flows_lose_and_reorder_nothing
                c03_an_offloaded_handler_in_the_middle_loses_and_reorders_nothing
            }
            back_pressure {
                c07_a_peer_that_never_reads_leaves_memory_at_the_mark
                c07_beyond_the_cap_writes_fail_and_the_others_arrive
                k14_a_server_that_ignores_writability_holds_no_more_than_its_mark
                k14_a_server_that_is_told_not_to_pause_reads_on
            }
            reregistering {
                c04_a_channel_that_comes_and_goes_in_the_middle_of_traffic_loses_nothing
            }
            shutdown {
                l10_a_shutdown_of_servers_in_the_middle_of_traffic_closes_everything
                l10_a_shutdown_of_clients_in_the_middle_of_traffic_closes_everything
                l11_a_drain_in_the_middle_of_traffic_sends_what_waits
            }
            leaks {
                c13_waves_of_connections_leave_nothing
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

/// What a case needs that not every cell has.
const REQUIRED_ABILITIES: [(&str, Ability); 9] = [
    ("c09_two_flooding_peers_take_turns", Ability::SharedLoop),
    ("c07_small_writes_flushed_at_once_are_gathered_in_few_system_writes", Ability::SystemWrites),
    ("c07_short_writes_arrive_whole_and_are_told_in_order", Ability::SmallBuffers),
    ("c10_a_foreign_peer_that_has_finished_reads_the_whole_answer", Ability::ForeignPeer),
    ("c10_who_is_not_read_any_more_may_go_on_sending", Ability::IndependentDirections),
    ("c02_a_reset_is_an_error_and_the_end", Ability::ForeignPeer),
    ("c11_a_close_that_lingers_for_nothing_resets_the_peer", Ability::Lingering),
    ("c12_a_connect_that_takes_too_long_is_given_up", Ability::SlowConnect),
    ("c12_a_cancelled_connect_leaves_nothing", Ability::SlowConnect),
];

/// The cases that count what the whole process has.
const RUN_ALONE: [&str; 1] = ["c13_waves_of_connections_leave_nothing"];

/// Why there is no such case in this cell.
fn reason(cell: &Cell, case: &str) -> Option<&'static str> {
    let mut needs = REQUIRED_ABILITIES.iter().filter(|(name, _)| *name == case);
    needs.find_map(|(_, ability)| cell.lacks(*ability))
}

/// Runs a case over a cell, or says why not.
pub(crate) fn run(cell: &Cell, name: &str, case: fn(&Cell)) {
    match reason(cell, name) {
        Some(reason) => matrix::say_empty(&cell.name(), name, reason),
        None if RUN_ALONE.contains(&name) => matrix::run_alone(|| case(cell)),
        None => matrix::run_together(|| case(cell)),
    }
}

/// Prints the matrix, and fails if something in it makes no sense.
pub(crate) fn print_and_check(cells: &[Cell]) {
    let cases = conformance_matrix!(@each @names);
    let columns: Vec<_> =
        cells.iter().map(|cell| cell.column(Box::new(|case| reason(cell, case)))).collect();
    matrix::print_and_check("Streams", &columns, &cases);
    let listed = REQUIRED_ABILITIES.iter().map(|(name, _)| *name).chain(RUN_ALONE);
    for name in listed {
        assert!(cases.contains(&name), "{name} is no case");
    }
}
