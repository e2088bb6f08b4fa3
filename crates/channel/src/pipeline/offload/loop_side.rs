//! The loop's side: what comes back from an offloaded handler goes on from its slot.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use waterwheel_executor::{Error, EventExecutor, EventExecutorGroup, ExecutorId};

use super::link::{Emission, Farewell, Letter, Link};
use super::remote_completion::{RemoteCompletion, Told};
use crate::channel::core::ChannelCore;
use crate::channel::error::ChannelError;
use crate::pipeline::completion::Completion;
use crate::pipeline::dispatch::event::Failure;
use crate::pipeline::event_set::Events;
use crate::pipeline::slots::slot::SlotState;
use crate::pipeline::slots::slot_list::HEAD;

/// How many emissions of a handler are seen to before others have their turn.
const EMISSIONS_PER_COMMAND: usize = 256;

/// What a channel keeps for its offloaded handlers.
#[derive(Default)]
pub(crate) struct Offloading {
    /// Which executor of a group they were given: all of a channel's the same. A group goes by the
    /// name of its first child.
    pinned: Vec<(ExecutorId, EventExecutor)>,
    /// Completions whose numbers are on their way.
    left: HashMap<u64, Completion>,
    numbered: u64,
}

impl Offloading {
    fn pinned_to(&self, group: ExecutorId) -> Option<EventExecutor> {
        let found = self.pinned.iter().find(|(known, _)| *known == group);
        found.map(|(_, executor)| executor.clone())
    }
}

/// When the loop has seen to emissions, even if a handler has panicked meanwhile, it comes again if
/// there is more.
struct Visit<'a> {
    core: &'a Rc<ChannelCore>,
    link: &'a Arc<Link>,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.link.loop_rests();
        // In this order: what becomes lighter after this look calls the loop again.
        self.core.weigh_mail(self.link);
    }
}

impl ChannelCore {
    /// The executor of this group for this channel's handlers.
    pub(super) fn pin(&self, group: &EventExecutorGroup) -> EventExecutor {
        let choose = || group.next_for(&self.channel().id());
        let Some(key) = group.children().next().map(|first| first.id()) else { return choose() };
        if let Some(executor) = self.offloading().pinned_to(key) {
            return executor;
        }
        // The chooser is the user's: nothing is borrowed, and it may have pinned the group itself meanwhile.
        let executor = choose();
        let mut offloading = self.offloading();
        offloading.pinned_to(key).unwrap_or_else(|| {
            offloading.pinned.push((key, executor.clone()));
            executor
        })
    }

    /// Keeps what cannot travel, and gives something that can.
    pub(super) fn leave(&self, link: &Arc<Link>, done: Completion) -> RemoteCompletion {
        if done.is_none() {
            return RemoteCompletion::none();
        }
        match done.into_promise() {
            Ok(promise) => promise.into(),
            Err(done) => {
                let mut offloading = self.offloading();
                let number = offloading.numbered;
                offloading.numbered += 1;
                offloading.left.insert(number, done);
                RemoteCompletion::left(link, number)
            }
        }
    }

    /// What has travelled, or was kept for it.
    pub(super) fn completion_of(&self, done: RemoteCompletion) -> Completion {
        match done.told() {
            Told::Nobody => Completion::none(),
            Told::Promise(promise) => promise.into(),
            Told::Left(number) => self.left(number),
        }
    }

    fn left(&self, number: u64) -> Completion {
        self.offloading().left.remove(&number).unwrap_or_default()
    }

    /// Why nothing goes out from a slot that is gone.
    fn gone_or_closed(&self) -> Error {
        if self.channel().is_open() { ChannelError::Gone.into() } else { self.closed_error() }
    }

    /// Sees to what a handler has emitted. From the loop.
    pub(crate) fn on_mail(self: &Rc<Self>, link: &Arc<Link>) {
        let _visit = Visit { core: self, link };
        for _ in 0..EMISSIONS_PER_COMMAND {
            let Some(emission) = link.next_emission() else { break };
            let at = self.handlers.slots.borrow().find(link.slot());
            match (emission, at) {
                (Emission::Event(mail), Some(at)) => mail.go_on(self, at),
                (Emission::Event(mail), None) => mail.refuse(&self.gone_or_closed()),
                (Emission::Complete(number, result), _) => {
                    self.complete_later(self.left(number), result);
                }
                (Emission::Last, Some(at)) => self.follow_last_mail(at),
                (Emission::Farewell(farewell), Some(_)) => *link.parting() = Some(farewell),
                (Emission::Farewell(_), None) => link.forget_letters(),
                (Emission::Last, None) => self.follow_last_mail(HEAD),
            }
        }
        self.part(link);
    }

    /// Looks again at how much waits at a handler.
    pub(super) fn weigh_mail(self: &Rc<Self>, link: &Link) {
        match link.overflow_changed() {
            Some(true) => self.add_overflow(),
            Some(false) => self.remove_overflow(),
            None => {}
        }
        self.check_high_mark();
        self.check_low_mark();
        self.notify_watchers();
    }

    /// If the handler is gone: sees to the letters it has not read, and takes its slot away. Whatever
    /// panics meanwhile, the next visit goes on with the rest.
    fn part(self: &Rc<Self>, link: &Arc<Link>) {
        let Some(farewell) = link.parting().clone() else { return };
        let at = self.handlers.slots.borrow().find(link.slot());
        let Some(at) = at else { return link.forget_letters() };
        while let Some(letter) = link.next_letter() {
            match (letter, &farewell) {
                (Letter::Event(mail), Farewell::Removed) => mail.go_on(self, at),
                (Letter::Event(mail), _) if mail.passes_the_dead() => mail.go_on(self, at),
                (Letter::Event(mail), Farewell::Failed(error) | Farewell::Panicked(error)) => {
                    mail.refuse(error);
                }
                (Letter::Last, _) => self.follow_last_mail(at),
                (Letter::Added | Letter::Removed, _) => {}
            }
        }
        if let Farewell::Failed(error) = &farewell {
            *link.parting() = Some(Farewell::Panicked(error.clone())); // Told once.
            self.go(at, Failure(error.clone()));
        }
        *link.parting() = None;
        let handler = self.handlers.slots.borrow_mut().at_mut(at).handler.take();
        self.discard(at, handler);
        // What destructors have written to the place meanwhile nobody reads.
        link.forget_letters();
        if let Farewell::Failed(error) | Farewell::Panicked(error) = farewell {
            // What it flushed before may have come in the same visit.
            self.write_out();
            self.close(Some(error), Completion::none());
        }
    }

    /// A removed slot stays in its place until its handler has left: what comes meanwhile waits there.
    pub(super) fn keep_place(&self, at: u32) {
        let mut slots = self.handlers.slots.borrow_mut();
        let slot = slots.at_mut(at);
        slot.state = SlotState::Lingering;
        slots.set_stops(at, Events::ALL);
        self.handlers.will_stop_for(Events::ALL);
    }

    /// Sends a last letter through one offloaded handler after the other, from this slot inward; when
    /// it has been through all, nothing is on its way any more.
    pub(crate) fn follow_last_mail(self: &Rc<Self>, from: u32) {
        let next = {
            let slots = self.handlers.slots.borrow();
            let mut behind = slots.behind(from);
            behind.find_map(|at| slots.at(at).about()?.link())
        };
        match next {
            Some(link) => link.post(Letter::Last),
            None => self.remove_handlers_later(),
        }
    }
}
