//! The plan of injected faults: which calls fail, when, and with which error.

use std::collections::BTreeMap;
use std::io;

use waterwheel_channel::Token;

/// A driver call that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DriverCall {
    /// `OpenDriver::open`.
    Open,
    /// `Driver::attach`.
    Attach,
    /// `Driver::register_foreign`.
    RegisterForeign,
    /// `Driver::set_interest`.
    SetInterest,
    /// `Driver::write`, `Driver::send_file`, `Driver::send_datagrams` and `Driver::send_ancillary`.
    Write,
    /// `Driver::shutdown`.
    Shutdown,
    /// `Driver::rebuild`.
    Rebuild,
    /// `Driver::wait`.
    Wait,
}

/// How often a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailTimes {
    /// No call fails.
    Never,
    /// The next `n` calls fail.
    Next(usize),
    /// Only the `n`th call from now fails; 1 is the next one.
    Nth(usize),
    /// Every call fails until the setting is replaced.
    Always,
}

/// How often a wait returns early, without an event or a wake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EarlyReturns {
    /// No wait returns early.
    #[default]
    Never,
    /// The next `n` waits return early.
    Next(usize),
    /// Waits return early until a rebuild succeeds.
    UntilRebuild,
    /// Waits return early until the setting is replaced.
    Always,
}

/// The error of an injected fault: an [`io::ErrorKind`] or an errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedError {
    /// An error of this kind.
    Kind(io::ErrorKind),
    /// The operating system's error with this errno.
    Errno(i32),
}

impl From<io::ErrorKind> for InjectedError {
    fn from(kind: io::ErrorKind) -> Self {
        InjectedError::Kind(kind)
    }
}

impl From<i32> for InjectedError {
    fn from(errno: i32) -> Self {
        InjectedError::Errno(errno)
    }
}

impl From<InjectedError> for io::Error {
    fn from(fault: InjectedError) -> Self {
        match fault {
            InjectedError::Kind(kind) => kind.into(),
            InjectedError::Errno(errno) => io::Error::from_raw_os_error(errno),
        }
    }
}

/// The registrations that a rebuild loses. Each gets a `Failed` event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LostRegistrations {
    /// The registrations with these tokens.
    Tokens(Vec<Token>),
    /// The `n` oldest registrations.
    First(usize),
    /// All registrations.
    All,
}

impl LostRegistrations {
    /// Picks the lost registrations out of all attached ones, which are given oldest first.
    pub(super) fn pick(self, attached: Vec<Token>) -> Vec<Token> {
        match self {
            LostRegistrations::Tokens(tokens) => {
                attached.into_iter().filter(|token| tokens.contains(token)).collect()
            }
            LostRegistrations::First(n) => attached.into_iter().take(n).collect(),
            LostRegistrations::All => attached,
        }
    }
}

/// The faults that the test has injected, and the number of calls so far.
#[derive(Debug, Default)]
pub(super) struct Plan {
    failing: BTreeMap<DriverCall, (FailTimes, InjectedError)>,
    calls: BTreeMap<DriverCall, usize>,
    pub(super) spin: EarlyReturns,
    pub(super) lost: Option<LostRegistrations>,
}

impl Plan {
    pub(super) fn fail(&mut self, call: DriverCall, times: FailTimes, with: InjectedError) {
        self.failing.insert(call, (times, with));
    }

    pub(super) fn clear(&mut self) {
        self.failing.clear();
        self.spin = EarlyReturns::Never;
        self.lost = None;
    }

    pub(super) fn calls(&self, call: DriverCall) -> usize {
        self.calls.get(&call).copied().unwrap_or(0)
    }

    /// Counts a call, and returns the injected error if the plan makes this call fail.
    pub(super) fn call(&mut self, call: DriverCall) -> io::Result<()> {
        *self.calls.entry(call).or_default() += 1;
        let Some((times, fault)) = self.failing.get_mut(&call) else { return Ok(()) };
        let fails = match times {
            FailTimes::Never | FailTimes::Next(0) | FailTimes::Nth(0) => false,
            FailTimes::Always => true,
            FailTimes::Next(n) => {
                *n -= 1;
                true
            }
            FailTimes::Nth(n) => {
                *n -= 1;
                *n == 0
            }
        };
        if fails { Err((*fault).into()) } else { Ok(()) }
    }

    /// True if this wait returns early; counts down the early returns.
    pub(super) fn take_early_return(&mut self) -> bool {
        match &mut self.spin {
            EarlyReturns::Never | EarlyReturns::Next(0) => false,
            EarlyReturns::Next(n) => {
                *n -= 1;
                true
            }
            EarlyReturns::UntilRebuild | EarlyReturns::Always => true,
        }
    }

    pub(super) fn rebuilt(&mut self) {
        if self.spin == EarlyReturns::UntilRebuild {
            self.spin = EarlyReturns::Never;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(times: FailTimes) -> [bool; 4] {
        let mut plan = Plan::default();
        plan.fail(DriverCall::Wait, times, InjectedError::Kind(io::ErrorKind::Other));
        [(); 4].map(|()| plan.call(DriverCall::Wait).is_err())
    }

    #[test]
    fn a_call_fails_as_often_as_told() {
        assert_eq!(outcomes(FailTimes::Never), [false; 4]);
        assert_eq!(outcomes(FailTimes::Next(2)), [true, true, false, false]);
        assert_eq!(outcomes(FailTimes::Nth(3)), [false, false, true, false]);
        assert_eq!(outcomes(FailTimes::Always), [true; 4]);
    }

    #[test]
    fn other_calls_are_left_alone_and_all_are_counted() {
        let mut plan = Plan::default();
        plan.fail(DriverCall::Wait, FailTimes::Always, InjectedError::Errno(4));
        assert!(plan.call(DriverCall::Rebuild).is_ok());
        assert_eq!(plan.call(DriverCall::Wait).unwrap_err().raw_os_error(), Some(4));
        assert_eq!((plan.calls(DriverCall::Wait), plan.calls(DriverCall::Open)), (1, 0));
    }
}
