//! The matrix of cases and cells: runs single cases, and prints the whole matrix.

use std::sync::RwLock;

/// Returns why a cell cannot support a case.
pub(crate) type Reason<'c> = dyn Fn(&str) -> Option<&'static str> + 'c;

/// One cell, for printing.
pub(crate) struct Column<'c> {
    pub(crate) kind: &'static str,
    pub(crate) driver: &'static str,
    /// Returns why the cell cannot support a case.
    pub(crate) reason: Box<Reason<'c>>,
}

/// Read-locked by a case that runs beside others, write-locked by one that runs alone.
static RUN_LOCK: RwLock<()> = RwLock::new(());

/// Runs a case that counts resources of the whole process: no other case runs meanwhile.
pub(crate) fn run_alone(case: impl FnOnce()) {
    // A failed case has poisoned the lock; the test of that case reports the failure.
    let _alone = RUN_LOCK.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    case();
}

/// Runs a case that may run beside others.
pub(crate) fn run_together(case: impl FnOnce()) {
    let _together = RUN_LOCK.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    case();
}

/// Prints why a cell cannot support a case.
pub(crate) fn print_skipped(cell: &str, case: &str, reason: &str) {
    println!("{cell}: {case} is skipped: {reason}");
}

/// Names of all drivers.
const DRIVERS: [&str; 6] =
    ["epoll", "poll", "blocking", "manual", "manual-completion", "task-only"];

/// Returns why a transport cannot run over a driver.
fn why_absent(kind: &str, driver: &str) -> Option<&'static str> {
    match (kind, driver) {
        ("local" | "embedded", _) | ("memory", "manual" | "manual-completion") => None,
        ("memory", _) => {
            Some("sockets in memory belong to the manual driver, no other driver can watch them")
        }
        (_, "manual" | "manual-completion") => {
            Some("the manual driver has no operating system below it, and so none of its sockets")
        }
        (_, "task-only") => Some("the task-only driver watches no sockets"),
        _ => None,
    }
}

/// Prints the matrix with one print call, and panics if it is inconsistent.
pub(crate) fn print_and_check(title: &str, columns: &[Column<'_>], cases: &[&str]) {
    let mut reasons = Reasons::default();
    let overview = overview(columns, cases, &mut reasons);
    let grid = grid(columns, cases, &mut reasons);
    let legend = reasons.legend();
    println!("{title}: {} cases\n\n{overview}\n{grid}\n{legend}", cases.len());
}

/// Formats transports by drivers: how many cases run, or why none does.
fn overview(columns: &[Column<'_>], cases: &[&str], reasons: &mut Reasons) -> String {
    let mut transports: Vec<_> = columns.iter().map(|column| column.kind).collect();
    transports.dedup();
    let mut text = format!("{:10}", "");
    DRIVERS
        .iter()
        .for_each(|driver| text += &format!("{driver:>width$}", width = driver.len().max(8) + 2));
    for kind in transports {
        text += &format!("\n{kind:10}");
        for driver in DRIVERS {
            let mut here = columns.iter().filter(|it| it.kind == kind && it.driver == driver);
            let entry = match (here.next(), why_absent(kind, driver)) {
                (Some(column), None) => {
                    let runs = cases.iter().filter(|case| (column.reason)(case).is_none());
                    format!("{} run", runs.count())
                }
                (None, Some(reason)) => format!("({})", reasons.number(reason)),
                (Some(_), Some(reason)) => {
                    panic!("{kind} over {driver} is in the matrix although: {reason}")
                }
                (None, None) => panic!("{kind} over {driver} is missing without a reason"),
            };
            text += &format!("{entry:>width$}", width = driver.len().max(8) + 2);
        }
    }
    text + "\n"
}

/// Formats cases by cells: which run, and why the others do not.
fn grid(columns: &[Column<'_>], cases: &[&str], reasons: &mut Reasons) -> String {
    let mut text = String::new();
    for (number, column) in columns.iter().enumerate() {
        text += &format!("{}{} over {}\n", "|   ".repeat(number), column.kind, column.driver);
    }
    for case in cases {
        let mut runs = 0;
        for column in columns {
            match (column.reason)(case) {
                None => {
                    text += "+   ";
                    runs += 1;
                }
                Some(reason) => {
                    let (kind, driver) = (column.kind, column.driver);
                    assert!(
                        reason.len() > 20,
                        "{case} over {kind}, {driver} is skipped without a full reason: {reason:?}"
                    );
                    text += &format!("{:4}", format!("({})", reasons.number(reason)));
                }
            }
        }
        text += &format!("{case}\n");
        assert!(runs > 0, "{case} runs nowhere");
    }
    text
}

/// Reasons, numbered in the order of their first use.
#[derive(Default)]
struct Reasons(Vec<&'static str>);

impl Reasons {
    fn number(&mut self, reason: &'static str) -> usize {
        let known = self.0.iter().position(|known| *known == reason);
        1 + known.unwrap_or_else(|| {
            self.0.push(reason);
            self.0.len() - 1
        })
    }

    fn legend(&self) -> String {
        let lines = self.0.iter().enumerate();
        lines.map(|(at, reason)| format!("({}) {reason}\n", at + 1)).collect()
    }
}
