//! Connecting (C02, C12): tries one address after the other. Each gets an equal share of the time that is left, but
//! at least two seconds.
//!
//! ```text
//!   connect ──► attempt ──► connected: the completion runs, then the handlers
//!                 ▲  │ failed, or its time is up
//!                 │  ▼
//!                 next address, or the completion gets all failures
//! ```
//!
//! An attempt may fail because the backlog is full (EAGAIN of a Unix socket); no event reports free room. The
//! attempt is repeated after a growing pause, until its time is up.
//!
//! A connect that fails after it was pending closes the channel, and so does one that is cancelled. A connect
//! that fails at once leaves the channel as it was, and may be repeated.

use std::cell::RefMut;
use std::rc::Rc;
use std::time::Duration;

use waterwheel_executor::{Error, ErrorKind, Nanos, TimerKey};

use crate::address::ConnectTarget;
use crate::channel::core::ChannelCore;
use crate::channel::error::ChannelError;
use crate::channel::transport::ConnectProgress;
use crate::event_loop::command::LoopCommand;
use crate::pipeline::Completion;

/// The minimum share of the remaining time for an address, if that much is left: a distant address is not given
/// up early because the name has many addresses.
const MIN_SHARE: Duration = Duration::from_secs(2);

/// The first and the longest pause before an attempt is repeated; each pause is twice as long as the one
/// before. The longest is reached after 127 ms and eight system calls; from then on there are ten calls a
/// second.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// A connect in progress.
pub(crate) struct Connecting {
    done: Completion,
    target: ConnectTarget,
    /// The failures of the addresses that were tried before.
    failures: Vec<Error>,
    /// The deadline for all addresses together.
    deadline: Option<Nanos>,
    /// The time at which the current attempt is given up.
    until: Nanos,
    timer: Option<TimerKey>,
    /// The time at which the current attempt began.
    begun: Nanos,
    /// The length and the end of the current pause, after a full backlog.
    pause: Option<(Duration, Nanos)>,
    pause_timer: Option<TimerKey>,
}

impl ChannelCore {
    /// Connects the channel; the request has passed all handlers.
    pub(crate) fn connect(self: &Rc<Self>, target: ConnectTarget, mut done: Completion) {
        if let Err(error) = self.check_may_activate() {
            return self.complete_later(done, Err(error));
        }
        let shared = self.shared.clone();
        done.on_cancel(move || {
            let token = shared.token();
            let cancel = LoopCommand::new(move |here| {
                here.channels().with(token, |core| core.cancel_connect());
            });
            // A loop that has ended rejects the command: the attempt has ended too.
            let _ = shared.send(cancel);
        });
        let begun = self.here.now();
        let deadline = self.options().connect_timeout.map(|timeout| begun.plus(timeout));
        let connecting = Connecting {
            done,
            target,
            failures: Vec::new(),
            deadline,
            until: Nanos::MAX,
            timer: None,
            begun,
            pause: None,
            pause_timer: None,
        };
        self.cold.get_or_create().connecting = Some(Box::new(connecting));
        self.try_addresses();
    }

    pub(in crate::channel) fn is_connecting(&self) -> bool {
        self.cold.get().is_some_and(|cold| cold.connecting.is_some())
    }

    /// Returns the connect in progress.
    fn connecting(&self) -> Option<RefMut<'_, Connecting>> {
        if !self.is_connecting() {
            return None;
        }
        RefMut::filter_map(self.cold.get_or_create(), |cold| cold.connecting.as_deref_mut()).ok()
    }

    fn take_connecting(&self) -> Option<Box<Connecting>> {
        if self.is_connecting() { self.cold.get_or_create().connecting.take() } else { None }
    }

    /// True while the connect waits for the loop's pause timer. The transport has no attempt pending then.
    pub(in crate::channel) fn is_between_attempts(&self) -> bool {
        self.connecting().is_some_and(|connecting| connecting.pause_timer.is_some())
    }

    /// Tries one address after the other until an attempt is pending or successful. Returns the error that was
    /// reported if no address is left.
    fn try_addresses(self: &Rc<Self>) -> Option<Error> {
        loop {
            let target = self.connecting()?.target.clone();
            match self.with_socket_change(|transport, context| transport.connect(context, &target))
            {
                Ok(ConnectProgress::Pending) => self.start_attempt_timer(),
                Ok(ConnectProgress::Later) => {
                    self.start_attempt_timer();
                    self.pause_attempt();
                }
                Ok(ConnectProgress::Done) => self.on_connected(),
                Err(error) => match self.next_address(error) {
                    None => continue,
                    failed => return failed,
                },
            }
            return None;
        }
    }

    /// Repeats the attempt after a pause.
    fn pause_attempt(self: &Rc<Self>) {
        let Some(mut connecting) = self.connecting() else { return };
        let pause = connecting.pause.map_or(FIRST_PAUSE, |(last, _)| (last * 2).min(LONGEST_PAUSE));
        let end = self.here.now().plus(pause);
        connecting.pause = Some((pause, end));
        let token = self.token();
        let again = LoopCommand::new(move |here| {
            here.channels().with(token, |core| core.on_connect_pause_over());
        });
        connecting.pause_timer = self.here.sender().send_at(end, again).ok();
    }

    /// Ends the pause and repeats the attempt.
    pub(crate) fn on_connect_pause_over(self: &Rc<Self>) {
        let now = self.here.now();
        // The timer may belong to an earlier attempt.
        let due = self.connecting().is_some_and(|mut connecting| {
            connecting.pause.is_some_and(|(_, end)| end <= now)
                && connecting.pause_timer.take().is_some()
        });
        if due && let Some(error) = self.try_addresses() {
            self.close(Some(error), Completion::none());
        }
    }

    /// Limits the current attempt to its share of the time, unless it is limited already.
    fn start_attempt_timer(self: &Rc<Self>) {
        let now = self.here.now();
        let Some(mut connecting) =
            self.connecting().filter(|connecting| connecting.pause.is_none())
        else {
            return;
        };
        connecting.begun = now;
        let Some(deadline) = connecting.deadline else { return };
        let left = deadline.since(now);
        let untried =
            u32::try_from(connecting.target.others.len()).unwrap_or(u32::MAX).saturating_add(1);
        let share = (left / untried).max(MIN_SHARE).min(left);
        let token = self.token();
        let give_up = LoopCommand::new(move |here| {
            here.channels().with(token, |core| core.on_connect_timeout());
        });
        connecting.until = now.plus(share);
        connecting.timer = self.here.sender().send_at(connecting.until, give_up).ok();
    }

    /// Records the failure of the current attempt. Returns `None` if there is another address; otherwise the
    /// error that was reported, because it was the last address or the time is up.
    fn next_address(self: &Rc<Self>, error: Error) -> Option<Error> {
        let now = self.here.now();
        let mut connecting = self.connecting()?;
        connecting.stop_timers(self);
        connecting.pause = None;
        connecting.failures.push(error);
        if !connecting.target.others.is_empty()
            && connecting.deadline.is_none_or(|deadline| now < deadline)
        {
            connecting.target.remote = connecting.target.others.remove(0);
            return None;
        }
        drop(connecting);
        let connecting = self.take_connecting()?;
        let failed = combine_failures(connecting.failures);
        self.complete_later(connecting.done, Err(failed.clone()));
        Some(failed)
    }

    /// Handles the failure of a pending attempt.
    pub(in crate::channel) fn on_connect_failed(self: &Rc<Self>, error: Error) {
        self.with_socket_change(|transport, context| transport.abandon_connect(context));
        let failed = self.next_address(error).or_else(|| self.try_addresses());
        if let Some(error) = failed {
            self.close(Some(error), Completion::none());
        }
    }

    /// Gives up the current attempt when its time is up.
    pub(crate) fn on_connect_timeout(self: &Rc<Self>) {
        let now = self.here.now();
        // The timer may belong to an earlier attempt, which had failed before the timer was handled.
        let failure =
            self.connecting().filter(|connecting| connecting.until <= now).map(|mut connecting| {
                connecting.timer = None;
                let (address, after) =
                    (connecting.target.remote.clone(), now.since(connecting.begun));
                Error::new(ChannelError::ConnectTimeout { address, after })
            });
        if let Some(failure) = failure {
            self.on_connect_failed(failure);
        }
    }

    pub(in crate::channel) fn on_connected(self: &Rc<Self>) {
        let Some(mut connecting) = self.take_connecting() else { return };
        connecting.stop_timers(self);
        let wanted = connecting.done.begin();
        self.with_socket_change(|transport, context| transport.on_connected(context));
        self.activate(connecting.done);
        if !wanted {
            self.close_cancelled();
        }
    }

    /// Closes the channel if the connect in progress was cancelled. Does nothing if the cancelled connect has ended,
    /// even if another connect has begun.
    pub(crate) fn cancel_connect(self: &Rc<Self>) {
        let is_cancelled =
            self.connecting().is_some_and(|connecting| connecting.done.is_cancelled());
        if is_cancelled {
            self.close_cancelled();
        }
    }

    /// Closes the channel because its connect was cancelled.
    fn close_cancelled(self: &Rc<Self>) {
        self.close(Some(ErrorKind::Cancelled.into()), Completion::none());
    }

    /// Fails the connect in progress because the channel is being closed.
    pub(in crate::channel) fn stop_connecting(self: &Rc<Self>) {
        if let Some(mut connecting) = self.take_connecting() {
            connecting.stop_timers(self);
            self.complete_later(connecting.done, Err(self.closed_error()));
        }
    }
}

impl Connecting {
    fn stop_timers(&mut self, core: &ChannelCore) {
        for timer in [self.timer.take(), self.pause_timer.take()].into_iter().flatten() {
            core.here.sender().take_back(timer);
        }
    }
}

fn combine_failures(mut failures: Vec<Error>) -> Error {
    match failures.len() {
        1 => failures.remove(0),
        _ => Error::new(ChannelError::ConnectAll { failures }),
    }
}
