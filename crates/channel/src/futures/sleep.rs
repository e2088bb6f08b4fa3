//! Waiting for time to pass: `sleep` and `timeout`.

use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use waterwheel_executor::{CommandSender, Nanos, TimerKey};

use crate::event_loop::command::LoopCommand;
use crate::event_loop::local_loop::LocalLoop;
use crate::token::{Slab, Token};

/// Waits for this long, by the clock of the loop that polls it; never less, and at least until the
/// next turn. Counted from the call if that is made on a loop, otherwise from the first poll.
///
/// A loop that shuts down cancels its timers: from then on a sleep does not end, and neither does a
/// [`timeout`]; the future that waits for it is dropped with the loop.
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
    let until = LocalLoop::current().map(|here| here.now().plus(time));
    Sleep {
        until: until.map_or(SleepDeadline::After(time), SleepDeadline::At),
        place: None,
        yielded: false,
    }
}

/// Waits for a future, but no longer than this.
///
/// The future is polled first: one that is ready wins over the time being up.
pub fn timeout<F: Future>(time: Duration, future: F) -> Timeout<F> {
    Timeout { future: Box::pin(future), sleep: sleep(time) }
}

/// Lets everything else that is ready have its turn.
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

/// A future that is ready when its time has come. Made by [`sleep`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct Sleep {
    until: SleepDeadline,
    place: Option<SleepEntry>,
    /// It has waited, if only for the next turn.
    yielded: bool,
}

#[derive(Clone, Copy, Debug)]
enum SleepDeadline {
    After(Duration),
    At(Nanos),
}

/// Where it waits: in a loop's timers, and among its sleepers. On any other loop both names mean
/// something else.
#[derive(Debug)]
struct SleepEntry {
    sender: CommandSender<LoopCommand>,
    timer: TimerKey,
    sleeper: Token,
}

impl Sleep {
    pub(crate) fn until(deadline: Nanos) -> Self {
        Self { until: SleepDeadline::At(deadline), place: None, yielded: false }
    }
}

impl Future for Sleep {
    type Output = ();

    /// # Panics
    /// Off an event loop: there is no timer to wait with.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let here = LocalLoop::current().expect("a sleep is awaited on an event loop");
        let now = here.now();
        let deadline = match self.until {
            SleepDeadline::At(deadline) => deadline,
            SleepDeadline::After(time) => now.plus(time),
        };
        self.until = SleepDeadline::At(deadline);
        if now >= deadline {
            if let Some(place) = self.place.take() {
                place.leave(Some(&here));
            } else if !self.yielded {
                // Due at its first poll: a future that awaits such sleeps in a loop would hold the
                // turn for ever if it never had to wait for the next one.
                self.yielded = true;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            return Poll::Ready(());
        }
        let sleepers = here.sleepers();
        let waits = self
            .place
            .as_ref()
            .is_some_and(|place| place.is_on(&here) && sleepers.renew(place.sleeper, context));
        if !waits {
            let elsewhere = self.place.take();
            self.place = sleepers.add(&here, deadline, context.waker().clone());
            self.yielded = true;
            if let Some(elsewhere) = elsewhere {
                elsewhere.leave(Some(&here));
            }
        }
        Poll::Pending
    }
}

impl SleepEntry {
    fn is_on(&self, here: &LocalLoop) -> bool {
        self.sender.id() == here.sender().id()
    }

    /// Gives it up, from wherever this is.
    fn leave(self, here: Option<&LocalLoop>) {
        let Self { timer, sleeper, .. } = self;
        match here.filter(|here| self.is_on(here)) {
            Some(here) => here.sleepers().forget(here, timer, sleeper),
            None => {
                // Refused once the loop takes no commands: its timers go with it.
                let _ = self.sender.send(LoopCommand::new(move |here| {
                    here.sleepers().forget(here, timer, sleeper);
                }));
            }
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            place.leave(LocalLoop::current().as_ref());
        }
    }
}

/// Those who sleep on a loop. Touched on the loop only.
#[derive(Default)]
pub(crate) struct Sleepers {
    waiting: RefCell<Slab<Waker>>,
}

impl Sleepers {
    /// `None` once the loop takes no timers any more: the future is about to be dropped.
    fn add(&self, here: &LocalLoop, deadline: Nanos, waker: Waker) -> Option<SleepEntry> {
        let sleeper = self.waiting.borrow_mut().insert(waker);
        let awake = LoopCommand::new(move |here| here.sleepers().awake(sleeper));
        match here.sender().send_at(deadline, awake) {
            Ok(timer) => Some(SleepEntry { sender: here.sender().clone(), timer, sleeper }),
            Err(_) => {
                self.remove(sleeper);
                None
            }
        }
    }

    /// Whether it still waits; then with this waker.
    fn renew(&self, sleeper: Token, context: &Context<'_>) -> bool {
        let is_same = |waker: &Waker| waker.will_wake(context.waker());
        match self.waiting.borrow().get(sleeper).map(is_same) {
            None => return false,
            Some(true) => return true,
            Some(false) => {}
        }
        // Cloned and dropped outside of the borrow: it may be a user's.
        let mut waker = context.waker().clone();
        if let Some(place) = self.waiting.borrow_mut().get_mut(sleeper) {
            std::mem::swap(place, &mut waker);
        }
        drop(waker);
        true
    }

    /// Takes its timer back, and lets it go.
    pub(crate) fn forget(&self, here: &LocalLoop, timer: TimerKey, sleeper: Token) {
        here.sender().take_back(timer);
        self.remove(sleeper);
    }

    fn remove(&self, sleeper: Token) {
        let waker = self.waiting.borrow_mut().remove(sleeper);
        drop(waker);
    }

    /// Its time has come.
    pub(crate) fn awake(&self, sleeper: Token) {
        let waker = self.waiting.borrow_mut().remove(sleeper);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn close(&self) {
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        drop(waiting);
    }
}

impl fmt::Debug for Sleepers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleepers").field("len", &self.waiting.borrow().len()).finish()
    }
}

/// A future with a limit. Made by [`timeout`].
#[must_use = "futures do nothing unless they are polled"]
pub struct Timeout<F> {
    future: Pin<Box<F>>,
    sleep: Sleep,
}

/// The time was up before the future was ready.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("not ready in time")]
pub struct Elapsed;

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    /// # Panics
    /// Off an event loop.
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
