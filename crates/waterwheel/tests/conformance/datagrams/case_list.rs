//! The list of all datagram cases and the abilities they require, and the macro that generates the matrix.

use super::cell::{Ability, Cell};
use crate::matrix;

/// Generates a module for each cell with one `#[test]` for each case, and a function `cells` that returns all cells:
/// `datagram_matrix! { module_name: cell; … }`. The cell is an expression that is evaluated for every test.
macro_rules! datagram_matrix {
    ($($module:ident: $cell:expr;)*) => {
        $(mod $module {
            use super::*;

            $crate::datagrams::case_list::datagram_matrix! { @each @tests $cell }
        })*

        /// Every column of the matrix.
        fn cells() -> Vec<Cell> {
            vec![$($cell),*]
        }
    };
    (@each @$what:ident $($arg:tt)*) => {
        $crate::datagrams::case_list::datagram_matrix! { @$what ($($arg)*)
            reading {
                c13_datagrams_of_many_peers_are_echoed_whole
                c13_an_empty_datagram_is_delivered
                c13_a_datagram_longer_than_the_largest_read_is_marked_truncated
                c13_a_long_datagram_arrives_whole
                c13_a_connected_channel_receives_from_its_peer_only
                c09_no_datagram_is_read_while_auto_read_is_off
                l05_auto_read_switched_off_within_a_batch_holds_back_the_rest
                c09_a_round_of_one_read_delivers_one_datagram
                c09_a_round_has_at_most_reads_per_round_datagrams
            }
            writing {
                c07_datagrams_flushed_at_once_arrive_in_order
                c07_a_write_cancelled_before_the_flush_is_skipped
                c07_a_sender_waits_for_a_full_receiver_and_continues_in_order
                c05_datagrams_flushed_before_a_close_are_sent
                c06_writing_a_message_that_is_not_a_datagram_fails
                c03_an_offloaded_handler_in_the_middle_loses_and_reorders_nothing
            }
            errors {
                c13_a_datagram_that_is_too_long_fails_its_own_write
                c13_a_datagram_without_an_address_needs_a_connected_channel
                c13_a_closed_peer_is_reported_as_an_error_and_the_channel_stays_open
                c13_binding_an_address_in_use_fails_with_an_error_that_names_it
            }
            shutdown {
                c04_a_channel_that_deregisters_and_registers_again_loses_nothing
                l10_a_shutdown_during_traffic_closes_everything
                l11_a_drain_during_traffic_completes
            }
            leaks {
                c13_repeated_waves_of_channels_leak_nothing
            }
        }
    };
    (@tests ($cell:expr) $($part:ident { $($test:ident)* })*) => {
        $($(
            #[test]
            fn $test() {
                use $crate::datagrams::{case_list, $part};
                case_list::run(&$cell, stringify!($test), $part::$test);
            }
        )*)*
    };
    (@names () $($part:ident { $($test:ident)* })*) => {
        [$($(stringify!($test),)*)*]
    };
}

pub(super) use datagram_matrix;

/// Cases that require an ability that not every cell has, each with that ability.
const REQUIRED_ABILITIES: [(&str, Ability); 2] = [
    ("c07_a_sender_waits_for_a_full_receiver_and_continues_in_order", Ability::BackPressure),
    ("c13_a_closed_peer_is_reported_as_an_error_and_the_channel_stays_open", Ability::LateErrors),
];

/// Cases that count resources of the whole process, and so run alone.
const RUN_ALONE: [&str; 1] = ["c13_repeated_waves_of_channels_leak_nothing"];

/// Returns why this cell cannot support the case.
fn reason(cell: &Cell, case: &str) -> Option<&'static str> {
    let mut needs = REQUIRED_ABILITIES.iter().filter(|(name, _)| *name == case);
    needs.find_map(|(_, ability)| cell.kind().reason_to_skip(*ability))
}

/// Runs a case over a cell, or prints why the cell cannot support it.
pub(super) fn run(cell: &Cell, name: &str, case: fn(&Cell)) {
    match reason(cell, name) {
        Some(reason) => matrix::print_skipped(&cell.name(), name, reason),
        None if RUN_ALONE.contains(&name) => matrix::run_alone(|| case(cell)),
        None => matrix::run_together(|| case(cell)),
    }
}

/// Prints the matrix, and panics if it is inconsistent.
pub(super) fn print_and_check(cells: &[Cell]) {
    let cases = datagram_matrix!(@each @names);
    let columns: Vec<_> =
        cells.iter().map(|cell| cell.column(Box::new(|case| reason(cell, case)))).collect();
    matrix::print_and_check("Datagrams", &columns, &cases);
    for name in REQUIRED_ABILITIES.iter().map(|(name, _)| *name).chain(RUN_ALONE) {
        assert!(cases.contains(&name), "{name} is not in the list of cases");
    }
}
