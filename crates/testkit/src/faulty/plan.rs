//! What is to fail, and when.

use std::collections::BTreeMap;
use std::io;

use waterwheel_channel::Token;

/// A call that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Call {
    /// `OpenDriver::open`.
    Open,
    /// `Driver::attach`.
    Attach,
    /// `Driver::register_foreign`.
    RegisterForeign,
    /// `Driver::set_interest`.
    SetInterest,
    /// `Driver::write`, `Driver::send_file` and `Driver::send_datagrams`.
    Write,
    /// `Driver::shutdown`.
    Shutdown,
    /// `Driver::rebuild`.
    Rebuild,
    /// `Driver::wait`.
    Wait,
}

/// How often it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Never.
    Never,
    /// The next so many times.
    Next(usize),
    /// Once, the so-manieth time from now; one is the next.
    Nth(usize),
    /// Until told otherwise.
    Always,
}

/// How often a wait returns at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spin {
    /// Never: it waits.
    #[default]
    Never,
    /// The next so many times.
    Next(usize),
    /// Until a rebuild succeeds.
    UntilRebuild,
    /// Until told otherwise.
    Always,
}

/// What it fails with: an [`io::ErrorKind`], or the number of an error of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An error of this kind.
    Kind(io::ErrorKind),
    /// The operating system's error with this number.
    Errno(i32),
}

impl From<io::ErrorKind> for Fault {
    fn from(kind: io::ErrorKind) -> Self {
        Fault::Kind(kind)
    }
}

impl From<i32> for Fault {
    fn from(errno: i32) -> Self {
        Fault::Errno(errno)
    }
}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Kind(kind) => kind.into(),
            Fault::Errno(errno) => io::Error::from_raw_os_error(errno),
        }
    }
}

/// Which registrations a rebuild loses: of each of them it says `Failed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// These.
    Tokens(Vec<Token>),
    /// The oldest so many.
    First(usize),
    /// All of them.
    All,
}

impl Lost {
    /// Picks them out of all that are attached, the oldest first.
    pub(super) fn pick(self, attached: Vec<Token>) -> Vec<Token> {
        match self {
            Lost::Tokens(tokens) => {
                attached.into_iter().filter(|token| tokens.contains(token)).collect()
            }
            Lost::First(n) => attached.into_iter().take(n).collect(),
            Lost::All => attached,
        }
    }
}

/// What the test has asked for, and what has been called.
#[derive(Debug, Default)]
pub(super) struct Plan {
    failing: BTreeMap<Call, (Times, Fault)>,
    calls: BTreeMap<Call, usize>,
    pub(super) spin: Spin,
    pub(super) lost: Option<Lost>,
}

impl Plan {
    pub(super) fn fail(&mut self, call: Call, times: Times, with: Fault) {
        self.failing.insert(call, (times, with));
    }

    pub(super) fn heal(&mut self) {
        self.failing.clear();
        self.spin = Spin::Never;
        self.lost = None;
    }

    pub(super) fn calls(&self, call: Call) -> usize {
        self.calls.get(&call).copied().unwrap_or(0)
    }

    /// Counts a call, and says whether it fails.
    pub(super) fn call(&mut self, call: Call) -> io::Result<()> {
        *self.calls.entry(call).or_default() += 1;
        let Some((times, fault)) = self.failing.get_mut(&call) else { return Ok(()) };
        let fails = match times {
            Times::Never | Times::Next(0) | Times::Nth(0) => false,
            Times::Always => true,
            Times::Next(n) => {
                *n -= 1;
                true
            }
            Times::Nth(n) => {
                *n -= 1;
                *n == 0
            }
        };
        if fails { Err((*fault).into()) } else { Ok(()) }
    }

    /// Whether this wait returns at once.
    pub(super) fn spins(&mut self) -> bool {
        match &mut self.spin {
            Spin::Never | Spin::Next(0) => false,
            Spin::Next(n) => {
                *n -= 1;
                true
            }
            Spin::UntilRebuild | Spin::Always => true,
        }
    }

    pub(super) fn rebuilt(&mut self) {
        if self.spin == Spin::UntilRebuild {
            self.spin = Spin::Never;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(times: Times) -> [bool; 4] {
        let mut plan = Plan::default();
        plan.fail(Call::Wait, times, Fault::Kind(io::ErrorKind::Other));
        [(); 4].map(|()| plan.call(Call::Wait).is_err())
    }

    #[test]
    fn a_call_fails_as_often_as_told() {
        assert_eq!(outcomes(Times::Never), [false; 4]);
        assert_eq!(outcomes(Times::Next(2)), [true, true, false, false]);
        assert_eq!(outcomes(Times::Nth(3)), [false, false, true, false]);
        assert_eq!(outcomes(Times::Always), [true; 4]);
    }

    #[test]
    fn other_calls_are_left_alone_and_all_are_counted() {
        let mut plan = Plan::default();
        plan.fail(Call::Wait, Times::Always, Fault::Errno(4));
        assert!(plan.call(Call::Rebuild).is_ok());
        assert_eq!(plan.call(Call::Wait).unwrap_err().raw_os_error(), Some(4));
        assert_eq!((plan.calls(Call::Wait), plan.calls(Call::Open)), (1, 0));
    }
}
