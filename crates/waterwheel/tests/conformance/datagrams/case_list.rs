//! The list of all cases, what they need, and the matrix that comes of it.

use super::cell::{Ability, Cell};
use crate::matrix;

/// Makes a module with one `#[test]` for each case, for each cell, and a function `cells` with all of
/// them: `datagram_matrix! { name_of_the_module: cell; … }`. The cell is an expression, evaluated for
/// every test.
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
                c13_an_empty_datagram_is_one_too
                c13_what_is_beyond_the_largest_read_is_cut_off_and_says_so
                c13_a_long_datagram_arrives_whole
                c13_a_connected_channel_hears_its_peer_alone
                c09_nothing_is_read_while_reads_are_off
                l05_reads_that_go_off_in_the_middle_of_a_batch_hold_the_rest_back
                c09_datagrams_are_read_one_by_one_as_asked
                c09_a_round_has_at_most_so_many_datagrams
            }
            writing {
                c07_datagrams_flushed_at_once_arrive_in_order
                c07_a_write_cancelled_before_the_flush_is_skipped
                c07_who_finds_no_room_waits_and_goes_on_in_order
                c05_what_was_flushed_before_a_close_is_sent
                c06_what_is_no_datagram_fails_its_write
                c03_an_offloaded_handler_in_the_middle_loses_and_reorders_nothing
            }
            errors {
                c13_a_datagram_that_is_too_long_fails_its_own_write
                c13_a_datagram_to_nobody_in_particular_needs_a_connection
                c13_a_peer_that_is_gone_is_an_error_and_the_channel_goes_on
                c13_a_place_that_is_taken_is_named
            }
            shutdown {
                c04_a_channel_that_leaves_and_comes_back_loses_nothing
                l10_a_shutdown_in_the_middle_of_traffic_closes_everything
                l11_a_drain_in_the_middle_of_traffic_ends_with_it
            }
            leaks {
                c13_waves_of_channels_leave_nothing
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

/// What a case needs that not every cell has.
const REQUIRED_ABILITIES: [(&str, Ability); 2] = [
    ("c07_who_finds_no_room_waits_and_goes_on_in_order", Ability::Pressure),
    ("c13_a_peer_that_is_gone_is_an_error_and_the_channel_goes_on", Ability::LateErrors),
];

/// The cases that count what the whole process has.
const RUN_ALONE: [&str; 1] = ["c13_waves_of_channels_leave_nothing"];

/// Why there is no such case in this cell.
fn reason(cell: &Cell, case: &str) -> Option<&'static str> {
    let mut needs = REQUIRED_ABILITIES.iter().filter(|(name, _)| *name == case);
    needs.find_map(|(_, ability)| cell.kind().lacks(*ability))
}

/// Runs a case over a cell, or says why not.
pub(super) fn run(cell: &Cell, name: &str, case: fn(&Cell)) {
    match reason(cell, name) {
        Some(reason) => matrix::say_empty(&cell.name(), name, reason),
        None if RUN_ALONE.contains(&name) => matrix::run_alone(|| case(cell)),
        None => matrix::run_together(|| case(cell)),
    }
}

/// Prints the matrix, and fails if something in it makes no sense.
pub(super) fn print_and_check(cells: &[Cell]) {
    let cases = datagram_matrix!(@each @names);
    let columns: Vec<_> =
        cells.iter().map(|cell| cell.column(Box::new(|case| reason(cell, case)))).collect();
    matrix::print_and_check("Datagrams", &columns, &cases);
    for name in REQUIRED_ABILITIES.iter().map(|(name, _)| *name).chain(RUN_ALONE) {
        assert!(cases.contains(&name), "{name} is no case");
    }
}
