//! Looking at a loop that does not wait for it.

use std::sync::Arc;

use super::{model, thread};
use crate::raw::origin::Origin;
use crate::report::UserCode;
use crate::watchdog::activity_cell::{Pulse, Seen, Sight};

/// What can be seen, and belongs together.
fn check(seen: &Seen, first: u64) {
    let [one, two, inner] = ["one", "two", "inner"].map(Origin::labelled);
    let is_first = seen.piece == first;
    let expected = if is_first { (UserCode::Task, one) } else { (UserCode::Timer, two) };
    assert_eq!(seen.outer, expected, "the outermost and its number");
    match seen.inner {
        Some(nested) => {
            assert!(is_first, "nothing is inside of the second");
            assert_eq!((nested, seen.station), ((UserCode::Handler, inner), Some(7)));
        }
        None => assert_eq!(seen.station, None),
    }
}

/// The number of the first piece of work of any loop.
fn first_number() -> u64 {
    let pulse = Pulse::new();
    let _begun = pulse.begin(UserCode::Task, Origin::labelled("one"));
    match pulse.look() {
        Sight::Busy(seen) => seen.piece,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn o02_what_is_seen_of_one_piece_of_work_after_the_other_belongs_together() {
    model(|| {
        let first = first_number();
        let pulse = Arc::new(Pulse::new());
        let looked_at = pulse.clone();
        let looker = thread::spawn(move || {
            if let Sight::Busy(seen) = looked_at.look() {
                check(&seen, first);
            }
        });
        drop(pulse.begin(UserCode::Task, Origin::labelled("one")));
        drop(pulse.begin(UserCode::Timer, Origin::labelled("two")));
        looker.join().unwrap();
    });
}

#[test]
fn o02_what_is_seen_inside_of_a_piece_of_work_belongs_together() {
    model(|| {
        let first = first_number();
        let pulse = Arc::new(Pulse::new());
        let looked_at = pulse.clone();
        let looker = thread::spawn(move || {
            if let Sight::Busy(seen) = looked_at.look() {
                check(&seen, first);
            }
        });
        let _begun = pulse.begin(UserCode::Task, Origin::labelled("one"));
        let before = pulse.enter(UserCode::Handler, Origin::labelled("inner"), Some(7));
        pulse.exit(before);
        looker.join().unwrap();
    });
}

#[test]
fn o02_two_looks_at_the_same_piece_agree() {
    model(|| {
        let pulse = Arc::new(Pulse::new());
        let looked_at = pulse.clone();
        let looker = thread::spawn(move || {
            let looks = [looked_at.look(), looked_at.look()];
            if let [Sight::Busy(earlier), Sight::Busy(later)] = looks {
                assert!(earlier.piece <= later.piece, "time does not go back");
                assert_eq!(earlier.piece == later.piece, earlier.outer == later.outer);
            }
        });
        drop(pulse.begin(UserCode::Task, Origin::labelled("one")));
        let _begun = pulse.begin(UserCode::Timer, Origin::labelled("two"));
        looker.join().unwrap();
    });
}
