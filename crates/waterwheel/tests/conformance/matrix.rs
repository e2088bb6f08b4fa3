//! A matrix of cases and cells: run one by one, and printed as a whole.

use std::sync::RwLock;

/// Why a cell does not have a case.
pub(crate) type Reason<'c> = dyn Fn(&str) -> Option<&'static str> + 'c;

/// One cell, for printing.
pub(crate) struct Column<'c> {
    pub(crate) kind: &'static str,
    pub(crate) driver: &'static str,
    /// Why it does not have this case.
    pub(crate) reason: Box<Reason<'c>>,
}

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

/// All that channels run on.
const DRIVERS: [&str; 6] =
    ["epoll", "poll", "blocking", "manual", "manual-completion", "task-only"];

/// Why a transport is never seen over a driver.
fn why_absent(kind: &str, driver: &str) -> Option<&'static str> {
    match (kind, driver) {
        ("local" | "embedded", _) | ("memory", "manual" | "manual-completion") => None,
        ("memory", _) => {
            Some("sockets in memory are the manual driver's own, no other driver knows them")
        }
        (_, "manual" | "manual-completion") => {
            Some("the manual driver has no system below it, and no system's sockets")
        }
        (_, "task-only") => Some("the driver for tasks alone watches no sockets"),
        _ => None,
    }
}

/// Prints the matrix, at one go, and fails if something in it makes no sense.
pub(crate) fn print_and_check(title: &str, columns: &[Column<'_>], cases: &[&str]) {
    let mut reasons = Reasons::default();
    let overview = overview(columns, cases, &mut reasons);
    let grid = grid(columns, cases, &mut reasons);
    let legend = reasons.legend();
    println!("{title}: {} cases\n\n{overview}\n{grid}\n{legend}", cases.len());
}

/// Transports and drivers: how many cases run, or why there are none.
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
                (Some(_), Some(reason)) => panic!("{kind} over {driver} is there: {reason}"),
                (None, None) => panic!("{kind} over {driver} is empty, without a reason"),
            };
            text += &format!("{entry:>width$}", width = driver.len().max(8) + 2);
        }
    }
    text + "\n"
}

/// Cases and cells: which run, and why the others do not.
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
                    assert!(reason.len() > 20, "{case} over {kind}, {driver} is empty: {reason:?}");
                    text += &format!("{:4}", format!("({})", reasons.number(reason)));
                }
            }
        }
        text += &format!("{case}\n");
        assert!(runs > 0, "{case} runs nowhere");
    }
    text
}

/// Reasons, numbered as they come.
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
