//! The last handler of a server: registers accepted connections with the worker loops.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waterwheel_executor::engine::{CommandAccess, report, run_user_code};
use waterwheel_executor::{Error, Fault, Origin, UserCode};

use super::accept_guard::GuardChain;
use super::channel_template::ChannelTemplate;
use super::connection_limit::{CONNECTION_PERMIT, ConnectionLimit, LimitReached};
use super::loops::Loops;
use crate::base::report_throttle::ReportThrottle;
use crate::channel::core::ChannelCore;
use crate::channel::handle::new_channel::NewChannel;
use crate::event_loop::command::LoopCommand;
use crate::event_loop::handle::EventLoop;
use crate::event_loop::local_loop::LocalLoop;
use crate::pipeline::{Ctx, HandlerResult, InboundHandler};

/// Chooses the loop of a connection by the key that user code computes for it.
pub(super) type ChildKeyFn = dyn Fn(&NewChannel, &Loops) -> EventLoop + Send + Sync;

/// The loops of a server's connections.
pub(super) enum WorkerLoops {
    /// One of these loops: in a group, the group's chooser picks the loop, by a key if there is a key function.
    Of(Loops, Option<Arc<ChildKeyFn>>),
    /// The loop that accepted the connection.
    Accepting,
}

/// Configures the accepted connections of a server and registers them with their loops.
pub(super) struct ChildPlacer {
    workers: WorkerLoops,
    template: ChannelTemplate,
    guards: GuardChain,
    limit: Option<ConnectionLimit>,
    /// Connections that wait for a permit of the connection limit. Used on the server's loop only.
    waiting: Mutex<VecDeque<NewChannel>>,
    /// Counts connections that could not be registered with their loop.
    refused: ReportThrottle,
}

impl ChildPlacer {
    pub(super) fn new(
        workers: WorkerLoops,
        template: ChannelTemplate,
        guards: GuardChain,
        limit: Option<ConnectionLimit>,
    ) -> Self {
        Self {
            workers,
            template,
            guards,
            limit,
            waiting: Mutex::default(),
            refused: ReportThrottle::default(),
        }
    }

    /// Sends a connection to its loop.
    fn send_to_worker(self: &Arc<Self>, here: &LocalLoop, new: NewChannel) {
        let workers = match &self.workers {
            WorkerLoops::Accepting => return self.register_child(here, new),
            WorkerLoops::Of(workers, _) => workers,
        };
        let placed = match self.worker_by_key(&new) {
            Some(worker) => Ok((worker, new)),
            None => workers.assign_loop(new),
        };
        let (worker, new) = match placed {
            Ok(placed) => placed,
            Err(_) if workers.is_shutting_down() => return,
            Err(error) => return self.report_refused(&error),
        };
        if worker.in_event_loop() {
            self.register_child(here, new);
        } else if !worker.is_shutting_down() {
            let (children, new) = (self.clone(), Box::new(new));
            let adopt = LoopCommand::new(move |here| children.register_child(here, *new));
            // A loop that has ended drops the connection, which closes it.
            let _ = worker.send_lasting(adopt);
        }
    }

    /// Registers a connection with this loop. A failure is reported, because no future shows it.
    fn register_child(&self, here: &LocalLoop, new: NewChannel) {
        if let Err(error) = here.register_with(new, |_| Ok(()))
            && !here.is_closing()
        {
            self.report_refused(&error);
        }
    }

    /// Returns the loop for a connection by its key. `None` if there is no key function, if each channel has a
    /// loop of its own, or if the key function panicked, which is reported.
    fn worker_by_key(&self, new: &NewChannel) -> Option<EventLoop> {
        match &self.workers {
            WorkerLoops::Of(workers, Some(key)) if !workers.is_per_channel() => {
                let origin = Origin::labelled("child key");
                run_user_code(UserCode::Chooser, origin, || key(new, workers)).ok()
            }
            _ => None,
        }
    }

    /// Registers waiting connections, as far as the limit allows. At the limit the server stops accepting.
    pub(super) fn admit_waiting(self: &Arc<Self>, server: &Rc<ChannelCore>) {
        let Some(limit) = &self.limit else { return };
        while let Some(new) = self.next_waiting() {
            match limit.try_admit() {
                Ok(place) => {
                    let new = self.template.apply(new).attribute(&CONNECTION_PERMIT, place);
                    self.send_to_worker(&server.here, new);
                }
                Err(LimitReached::TurnAway) => drop(new),
                Err(LimitReached::Wait) => {
                    self.waiting().push_front(new);
                    break;
                }
            }
        }
        server.set_at_connection_limit(!limit.may_accept(&server.channel(), self));
    }

    fn next_waiting(&self) -> Option<NewChannel> {
        self.waiting().pop_front()
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<NewChannel>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports that a connection could not be registered and was closed.
    fn report_refused(&self, error: &Error) {
        if let Some(count) = self.refused.record() {
            let what = format!(
                "an accepted connection could not be registered and was closed, {count} so far: {error}"
            );
            report(Fault::Unhandled(what));
        }
    }
}

/// Registers each accepted connection with the loop that [`ChildPlacer`] chooses for it.
pub(super) struct Acceptor {
    children: Arc<ChildPlacer>,
}

impl Acceptor {
    pub(super) fn new(children: Arc<ChildPlacer>) -> Self {
        Self { children }
    }
}

impl InboundHandler for Acceptor {
    type In = NewChannel;

    fn on_read(&mut self, ctx: &Ctx<'_>, accepted: NewChannel) -> HandlerResult {
        let children = &self.children;
        let accepted = match children.guards.is_empty() {
            true => accepted,
            false => match children.guards.admit(ctx.event_loop(), accepted) {
                Some(admitted) => admitted,
                None => return Ok(()),
            },
        };
        if children.limit.is_some() {
            children.waiting().push_back(accepted);
            children.admit_waiting(ctx.core());
        } else {
            children.send_to_worker(ctx.event_loop(), children.template.apply(accepted));
        }
        Ok(())
    }
}

impl Drop for Acceptor {
    /// Drops the waiting connections when the server ends.
    fn drop(&mut self) {
        let left = std::mem::take(&mut *self.children.waiting());
        drop(left);
        if let Some(limit) = &self.children.limit {
            limit.remove_server(&self.children);
        }
    }
}
