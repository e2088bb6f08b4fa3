//! A matrix of cases and cells: run one by one, and printed as a whole.

use std::sync::RwLock;

/// One cell, for printing.
pub(crate) struct Column<'c> {
    pub(crate) name: String,
    /// Why it does not have this case.
    pub(crate) reason: Box<Reason<'c>>,
}

/// Why there is no such case.
type Reason<'c> = dyn Fn(&str) -> Option<&'static str> + 'c;

static COMPANY: RwLock<()> = RwLock::new(());

/// Runs a case that counts what the whole process has.
pub(crate) fn run_alone(case: impl FnOnce()) {
    // A case that failed has poisoned it, and is told of anyway.
    let _alone = COMPANY.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    case();
}

/// Runs any other.
pub(crate) fn run_together(case: impl FnOnce()) {
    let _together = COMPANY.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    case();
}

/// Says why a cell does not have a case.
pub(crate) fn say_empty(cell: &str, case: &str, reason: &str) {
    println!("{cell}: {case} is empty: {reason}");
}

/// Prints the matrix, and fails if something in it makes no sense.
pub(crate) fn print_and_check(columns: &[Column<'_>], cases: &[&str]) {
    let mut reasons: Vec<&str> = Vec::new();
    for (number, column) in columns.iter().enumerate() {
        println!("{:1$}{2}", "", 4 * number, column.name);
    }
    for case in cases {
        let mut runs = 0;
        for column in columns {
            match (column.reason)(case) {
                None => {
                    print!("{:4}", "+");
                    runs += 1;
                }
                Some(reason) => {
                    assert!(reason.len() > 20, "{case} over {} is empty: {reason:?}", column.name);
                    let known = reasons.iter().position(|known| *known == reason);
                    let number = known.unwrap_or_else(|| {
                        reasons.push(reason);
                        reasons.len() - 1
                    });
                    print!("{:<4}", number + 1);
                }
            }
        }
        println!("{case}");
        assert!(runs > 0, "{case} runs nowhere");
    }
    for (number, reason) in reasons.iter().enumerate() {
        println!("{:<4}empty: {reason}", number + 1);
    }
}
