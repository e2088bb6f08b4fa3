//! Futures that wait for time to pass: `sleep` and `timeout`.

use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use waterwheel_executor::{CommandSender, Nanos, TimerKey};

use crate::base::token::{Slab, Token};
use crate::event_loop::command::LoopCommand;
use crate::event_loop::local_loop::LocalLoop;

/// Waits for `time`, by the clock of the loop that polls the future; never less, and at least until the next turn.
/// The time counts from this call if it is made on a loop, otherwise from the first poll.
///
/// A loop that shuts down cancels its timers: from then on neither a sleep nor a [`timeout`] completes, and the
/// future that awaits it is dropped with the loop.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_channel::driver::TaskOnly;
/// use waterwheel_channel::{EventLoopGroup, sleep};
///
/// let group = EventLoopGroup::builder(TaskOnly).threads(1).build()?;
/// let answer = group.next().spawn(async {
///     sleep(Duration::from_millis(1)).await;
///     42
/// })?;
/// assert_eq!(answer.join()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn sleep(time: Duration) -> Sleep {
    match LocalLoop::current() {
        Some(here) => sleep_until(here.now().plus(time)),
        None => Sleep { until: SleepDeadline::After(time), entry: None, has_yielded: false },
    }
}

/// Waits until `deadline`, by the clock of the loop that polls the future, as [`sleep`] does: at least until the next
/// turn.
pub fn sleep_until(deadline: Nanos) -> Sleep {
    Sleep { until: SleepDeadline::At(deadline), entry: None, has_yielded: false }
}

/// Waits for a future, but for at most `time`.
///
/// The future is polled before the time is checked: a future that is ready wins over an elapsed time.
pub fn timeout<F: Future>(time: Duration, future: F) -> Timeout<F> {
    Timeout { future: Box::pin(future), sleep: sleep(time) }
}

/// Waits for the next turn, so that everything else that is ready runs first.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A future that completes when its deadline is reached. Created by [`sleep`] and [`sleep_until`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct Sleep {
    until: SleepDeadline,
    entry: Option<SleepEntry>,
    /// True once the sleep has waited for at least one turn.
    has_yielded: bool,
}

/// The end of a sleep.
#[derive(Clone, Copy, Debug)]
enum SleepDeadline {
    /// The sleep ends this long after its first poll.
    After(Duration),
    At(Nanos),
}

/// A sleep's timer and waker on a loop. Both keys are valid only on the loop of `sender`.
#[derive(Debug)]
struct SleepEntry {
    sender: CommandSender<LoopCommand>,
    timer: TimerKey,
    sleeper: Token,
}

impl Future for Sleep {
    type Output = ();

    /// # Panics
    /// If the sleep is not polled on an event loop, which supplies the timer.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let here = LocalLoop::current().expect("a sleep must be polled on an event loop");
        let now = here.now();
        let deadline = match self.until {
            SleepDeadline::At(deadline) => deadline,
            SleepDeadline::After(time) => now.plus(time),
        };
        self.until = SleepDeadline::At(deadline);
        if now >= deadline {
            if let Some(entry) = self.entry.take() {
                entry.cancel(Some(&here));
            } else if !self.has_yielded {
                // The sleep is due at its first poll: a future that awaits due sleeps in a `loop` would occupy the turn
                // forever if no sleep waited for the next turn.
                self.has_yielded = true;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            return Poll::Ready(());
        }
        let sleepers = here.sleepers();
        let still_waits = self.entry.as_ref().is_some_and(|entry| {
            entry.is_on(&here) && sleepers.update_waker(entry.sleeper, context)
        });
        if !still_waits {
            let old_entry = self.entry.take();
            self.entry = sleepers.add(&here, deadline, context.waker().clone());
            self.has_yielded = true;
            if let Some(old_entry) = old_entry {
                old_entry.cancel(Some(&here));
            }
        }
        Poll::Pending
    }
}

impl SleepEntry {
    fn is_on(&self, here: &LocalLoop) -> bool {
        self.sender.id() == here.sender().id()
    }

    /// Cancels the sleep, from any thread; `here` is the current loop, if there is one.
    fn cancel(self, here: Option<&LocalLoop>) {
        let Self { timer, sleeper, .. } = self;
        match here.filter(|here| self.is_on(here)) {
            Some(here) => here.sleepers().cancel(here, timer, sleeper),
            None => {
                // The command is refused once the loop accepts no commands: the loop's timers end with the loop.
                let _ = self.sender.send(LoopCommand::new(move |here| {
                    here.sleepers().cancel(here, timer, sleeper);
                }));
            }
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            entry.cancel(LocalLoop::current().as_ref());
        }
    }
}

/// The wakers of the sleeps on a loop. Only the loop's thread uses them.
#[derive(Default)]
pub(crate) struct Sleepers {
    wakers: RefCell<Slab<Waker>>,
}

impl Sleepers {
    /// Adds a sleep. Returns `None` once the loop accepts no timers: the future is about to be dropped.
    fn add(&self, here: &LocalLoop, deadline: Nanos, waker: Waker) -> Option<SleepEntry> {
        let sleeper = self.wakers.borrow_mut().insert(waker);
        let wake = LoopCommand::new(move |here| here.sleepers().wake(sleeper));
        match here.sender().send_at(deadline, wake) {
            Ok(timer) => Some(SleepEntry { sender: here.sender().clone(), timer, sleeper }),
            Err(_) => {
                self.remove(sleeper);
                None
            }
        }
    }

    /// Updates the waker of a sleep. Returns `false` if the sleep no longer waits.
    fn update_waker(&self, sleeper: Token, context: &Context<'_>) -> bool {
        let is_same = |waker: &Waker| waker.will_wake(context.waker());
        match self.wakers.borrow().get(sleeper).map(is_same) {
            None => return false,
            Some(true) => return true,
            Some(false) => {}
        }
        // Cloned and dropped outside of the borrow: the waker's code may be the user's.
        let mut waker = context.waker().clone();
        if let Some(entry) = self.wakers.borrow_mut().get_mut(sleeper) {
            std::mem::swap(entry, &mut waker);
        }
        drop(waker);
        true
    }

    /// Cancels the timer of a sleep, and removes its waker.
    pub(crate) fn cancel(&self, here: &LocalLoop, timer: TimerKey, sleeper: Token) {
        here.sender().take_back(timer);
        self.remove(sleeper);
    }

    fn remove(&self, sleeper: Token) {
        let waker = self.wakers.borrow_mut().remove(sleeper);
        drop(waker);
    }

    /// Wakes a sleep whose deadline is reached.
    pub(crate) fn wake(&self, sleeper: Token) {
        let waker = self.wakers.borrow_mut().remove(sleeper);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn close(&self) {
        let wakers = std::mem::take(&mut *self.wakers.borrow_mut());
        drop(wakers);
    }
}

impl fmt::Debug for Sleepers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleepers").field("len", &self.wakers.borrow().len()).finish()
    }
}

/// A future with a time limit. Created by [`timeout`].
#[must_use = "futures do nothing unless they are polled"]
pub struct Timeout<F> {
    future: Pin<Box<F>>,
    sleep: Sleep,
}

/// The error of a [`timeout`] whose time elapsed before its future was ready.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the future was not ready before the timeout")]
pub struct Elapsed;

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    /// # Panics
    /// If the future is not polled on an event loop.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = self.future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut self.sleep).poll(context).map(|()| Err(Elapsed))
    }
}

impl<F> fmt::Debug for Timeout<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout").field("sleep", &self.sleep).finish_non_exhaustive()
    }
}
