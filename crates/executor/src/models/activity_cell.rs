//! Reading the activity of a loop that does not wait for the reader.

use std::sync::Arc;

use super::{model, thread};
use crate::raw::origin::Origin;
use crate::report::UserCode;
use crate::watchdog::activity_cell::{ActivityCell, ActivitySnapshot, RunningWork};

/// Checks that all parts of a snapshot belong to the same piece of work.
fn check(seen: &RunningWork, first: u64) {
    let [one, two, inner] = ["one", "two", "inner"].map(Origin::labelled);
    let is_first = seen.work_id == first;
    let expected = if is_first { (UserCode::Task, one) } else { (UserCode::Timer, two) };
    assert_eq!(seen.outer, expected, "the outermost and its number");
    match seen.inner {
        Some(nested) => {
            assert!(is_first, "nothing is inside of the second");
            assert_eq!((nested, seen.call_site), ((UserCode::Handler, inner), Some(7)));
        }
        None => assert_eq!(seen.call_site, None),
    }
}

/// Returns the number of the first piece of work of any loop.
fn first_number() -> u64 {
    let activity = ActivityCell::new();
    let _begun = activity.begin(UserCode::Task, Origin::labelled("one"));
    match activity.read() {
        ActivitySnapshot::Busy(seen) => seen.work_id,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn o02_a_read_between_pieces_of_work_is_consistent() {
    model(|| {
        let first = first_number();
        let activity = Arc::new(ActivityCell::new());
        let looked_at = activity.clone();
        let looker = thread::spawn(move || {
            if let ActivitySnapshot::Busy(seen) = looked_at.read() {
                check(&seen, first);
            }
        });
        drop(activity.begin(UserCode::Task, Origin::labelled("one")));
        drop(activity.begin(UserCode::Timer, Origin::labelled("two")));
        looker.join().unwrap();
    });
}

#[test]
fn o02_a_read_of_nested_work_is_consistent() {
    model(|| {
        let first = first_number();
        let activity = Arc::new(ActivityCell::new());
        let looked_at = activity.clone();
        let looker = thread::spawn(move || {
            if let ActivitySnapshot::Busy(seen) = looked_at.read() {
                check(&seen, first);
            }
        });
        let _begun = activity.begin(UserCode::Task, Origin::labelled("one"));
        let before = activity.enter(UserCode::Handler, Origin::labelled("inner"), Some(7));
        activity.restore(before);
        looker.join().unwrap();
    });
}

#[test]
fn o02_two_reads_of_the_same_work_agree() {
    model(|| {
        let activity = Arc::new(ActivityCell::new());
        let looked_at = activity.clone();
        let looker = thread::spawn(move || {
            let looks = [looked_at.read(), looked_at.read()];
            if let [ActivitySnapshot::Busy(earlier), ActivitySnapshot::Busy(later)] = looks {
                assert!(earlier.work_id <= later.work_id, "time does not go back");
                assert_eq!(earlier.work_id == later.work_id, earlier.outer == later.outer);
            }
        });
        drop(activity.begin(UserCode::Task, Origin::labelled("one")));
        let _begun = activity.begin(UserCode::Timer, Origin::labelled("two"));
        looker.join().unwrap();
    });
}
