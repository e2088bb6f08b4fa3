//! What joins the slot on the loop to the handler on its executor: two queues, and who is called when.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waterwheel_executor::engine::{report, run_at};
use waterwheel_executor::{Error, EventExecutor, Fault, Station};

use super::executor_side::Occupant;
use super::fifo::Fifo;
use super::remote_completion::RemoteCompletion;
use super::remote_event::Mail;
use crate::channel::handle::shared_state::ChannelShared;
use crate::event_loop::command::LoopCommand;
use crate::pipeline::dispatch::backlog_delivery::MAX_WAITING_WRITES;
use crate::pipeline::dispatch::watched_handler::{Call, station};
use crate::pipeline::handler::HandlerResult;
use crate::pipeline::slots::slot_list::SlotId;
use crate::report_throttle::ReportThrottle;
use crate::token::Token;

/// Between an [`Offloaded`](super::Offloaded) and its handler.
///
/// `letters` are posted by the loop alone, and taken by the executor until the handler has left; then
/// they are the loop's again, which learns of it by the farewell. `emissions` are pushed by anybody and
/// taken by the loop alone. `occupant` is taken out and put back by the one task that drains the letters,
/// or by whoever finds that there will be no such task. `parting` and `overflows` are the loop's
/// alone, until that is gone.
pub(crate) struct Link {
    about: Place,
    /// What it is known by, if its executor is watched.
    station: Option<Station>,
    letters: Fifo<Letter>,
    emissions: Fifo<Emission>,
    pub(super) occupant: Mutex<Option<Occupant>>,
    /// How many letters are writes.
    writes: AtomicUsize,
    /// They are so many that they make the channel unwritable.
    overflows: AtomicBool,
    parting: Mutex<Option<Farewell>>,
    /// How often the handler failed and nobody else was told.
    failures: ReportThrottle,
}

/// Whose link it is.
pub(super) struct Place {
    pub(super) shared: Arc<ChannelShared>,
    pub(super) slot: SlotId,
    pub(super) name: String,
    pub(super) type_name: &'static str,
    pub(super) executor: EventExecutor,
}

/// To the handler.
pub(crate) enum Letter {
    /// It is to be built, and told that it was added.
    Added,
    Event(Mail),
    /// To be sent back: what was posted before has come through then.
    Last,
    Removed,
}

/// To the loop.
pub(crate) enum Emission {
    Event(Mail),
    /// What became of an operation whose completion has stayed on the loop.
    Complete(u64, Result<(), Error>),
    Last,
    /// The handler is gone, and reads no more letters.
    Farewell(Farewell),
}

/// Why a handler is gone.
#[derive(Clone)]
pub(crate) enum Farewell {
    /// It was removed.
    Removed,
    /// It could not do its work: the handlers behind it are told.
    Failed(Error),
    /// It panicked, and that has been reported.
    Panicked(Error),
}

impl Link {
    pub(super) fn new(about: Place, occupant: Occupant) -> Self {
        let Place { name, shared, type_name, executor, .. } = &about;
        let station = || station(name.clone(), shared.id, type_name);
        Self {
            station: executor.is_watched().then(station),
            about,
            letters: Fifo::new(),
            emissions: Fifo::new(),
            occupant: Mutex::new(Some(occupant)),
            writes: AtomicUsize::new(0),
            overflows: AtomicBool::new(false),
            parting: Mutex::new(None),
            failures: ReportThrottle::default(),
        }
    }

    pub(crate) fn channel(&self) -> Token {
        self.about.shared.token()
    }

    pub(super) fn shared(&self) -> &Arc<ChannelShared> {
        &self.about.shared
    }

    pub(crate) fn slot(&self) -> SlotId {
        self.about.slot
    }

    pub(super) fn name(&self) -> &str {
        &self.about.name
    }

    pub(super) fn type_name(&self) -> &'static str {
        self.about.type_name
    }

    pub(super) fn executor(&self) -> &EventExecutor {
        &self.about.executor
    }

    /// Calls `f`, which calls the handler: on its executor.
    pub(super) fn run_as<R>(&self, call: Call, f: impl FnOnce() -> R) -> R {
        match &self.station {
            Some(station) => run_at(station, call as u8, f),
            None => f(),
        }
    }

    // Letters.

    /// Posts the first letter.
    ///
    /// # Errors
    /// The executor takes no tasks.
    pub(super) fn open(self: &Arc<Self>) -> Result<(), Error> {
        let _ = self.letters.push(Letter::Added);
        self.schedule()
    }

    /// Posts a letter. On the loop.
    pub(crate) fn post(self: &Arc<Self>, letter: Letter) {
        if let Letter::Event(Mail::Write(..)) = letter {
            self.writes.fetch_add(1, Ordering::Relaxed);
        }
        match self.letters.push(letter) {
            Ok(false) => {}
            Ok(true) => {
                if let Err(error) = self.schedule() {
                    self.lose(error);
                }
            }
            // Neither the loop nor the executor is there any more.
            Err(letter) => drop(letter),
        }
    }

    /// Lets the handler take its leave: its slot is gone. On the loop.
    pub(crate) fn dismiss(self: &Arc<Self>) {
        self.post(Letter::Removed);
    }

    /// Nobody will read the letters that are left. One by one: a destructor that panics keeps none of
    /// the others.
    pub(super) fn forget_letters(&self) {
        *self.parting() = None;
        for letter in self.letters.close() {
            self.drop_catching_panic(letter);
        }
    }

    /// Takes the next letter.
    pub(super) fn next_letter(&self) -> Option<Letter> {
        let letter = self.letters.pop()?;
        if let Letter::Event(Mail::Write(..)) = letter {
            self.writes.fetch_sub(1, Ordering::Relaxed);
        }
        Some(letter)
    }

    /// The task has read its share. `true`: there is more.
    pub(super) fn rest(&self) -> bool {
        self.letters.rest()
    }

    /// Whether it has come, or ceased, to overflow since this was asked last (rule 6). On the loop.
    pub(super) fn overflow_changed(&self) -> Option<bool> {
        let overflows = self.writes.load(Ordering::Relaxed) > MAX_WAITING_WRITES;
        let before = self.overflows.swap(overflows, Ordering::Relaxed);
        (before != overflows).then_some(overflows)
    }

    // Emissions.

    /// Sends something to the loop; drops it if that is not there any more.
    pub(super) fn emit(self: &Arc<Self>, emission: Emission) {
        match self.emissions.push(emission) {
            Ok(true) => self.call_loop(),
            Ok(false) => {}
            Err(emission) => self.give_up(emission),
        }
    }

    /// Lets the loop look at how much is waiting.
    pub(super) fn nudge(self: &Arc<Self>) {
        if self.emissions.nudge() {
            self.call_loop();
        }
    }

    pub(super) fn next_emission(&self) -> Option<Emission> {
        self.emissions.pop()
    }

    /// The loop has done its share; it comes again if there is more.
    pub(super) fn loop_rests(self: &Arc<Self>) {
        if self.emissions.rest() {
            self.call_loop();
        } else if self.parting().is_some() {
            self.nudge();
        }
    }

    fn call_loop(self: &Arc<Self>) {
        let link = self.clone();
        let mail = LoopCommand::new(move |here| here.channels().on_mail(&link));
        if self.about.shared.send(mail).is_err() {
            self.abandon();
        }
    }

    /// The channel is gone, or its loop.
    pub(crate) fn abandon(&self) {
        for emission in self.emissions.close() {
            // One by one: a destructor that panics keeps none of the others, nor the letters.
            self.guard(|| self.give_up(emission));
        }
        if self.parting().is_some() {
            self.forget_letters();
        }
    }

    fn give_up(&self, emission: Emission) {
        match emission {
            // Closed is what it is to be.
            Emission::Event(Mail::Close(done)) => done.succeed(),
            Emission::Event(mail) => mail.refuse(&self.about.shared.closed_error().into()),
            // The loop would have seen to the letters that are left.
            Emission::Farewell(_) => self.forget_letters(),
            Emission::Complete(..) | Emission::Last => {}
        }
    }

    /// The farewell that is being said. On the loop.
    pub(super) fn parting(&self) -> MutexGuard<'_, Option<Farewell>> {
        self.parting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // How calls end.

    pub(super) fn error_method_ended(&self, result: HandlerResult) {
        if let Err(error) = result {
            self.report(&format!("the error method of `{}`", self.name()), &error);
        }
    }

    pub(super) fn operation_failed(&self, error: Error, done: RemoteCompletion) {
        if done.is_none() || done.is_detached() {
            self.report(&format!("`{}`", self.name()), &error);
        }
        done.fail(error);
    }

    fn report(&self, what: &str, error: &Error) {
        if let Some(count) = self.failures.record() {
            let channel = &self.about.shared;
            report(Fault::Unhandled(format!(
                "{channel:?}: {what} failed, {count} so far: {error}"
            )));
        }
    }
}
