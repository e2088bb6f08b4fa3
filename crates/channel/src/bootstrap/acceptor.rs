//! The last handler of a server: gives what was accepted to the workers.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waterwheel_executor::engine::{CommandAccess, report, run_user_code};
use waterwheel_executor::{Error, Fault, Origin, UserCode};

use super::channel_template::ChannelTemplate;
use super::connection_limit::{CONNECTION_PERMIT, ConnectionLimit, LimitReached};
use super::loops::Loops;
use crate::channel::core::ChannelCore;
use crate::channel::handle::new_channel::NewChannel;
use crate::event_loop::command::LoopCommand;
use crate::event_loop::handle::EventLoop;
use crate::event_loop::local_loop::LocalLoop;
use crate::pipeline::{Ctx, HandlerResult, InboundHandler};
use crate::report_throttle::ReportThrottle;

/// Finds the loop of a group for a connection, by a key that the user has made of it.
pub(super) type ChildKeyFn = dyn Fn(&NewChannel, &Loops) -> EventLoop + Send + Sync;

/// Whose loops a server's connections live on.
pub(super) enum WorkerLoops {
    /// One of these: of a group the one that its chooser picks, by a key if there is one.
    Of(Loops, Option<Arc<ChildKeyFn>>),
    /// The one that has accepted it.
    Accepting,
}

/// What the connections of a server are made with.
pub(super) struct ChildPlacer {
    workers: WorkerLoops,
    template: ChannelTemplate,
    limit: Option<ConnectionLimit>,
    /// Accepted, but there is no room for them. Touched on the server's loop only.
    waiting: Mutex<VecDeque<NewChannel>>,
    /// Those that could not be registered, with whichever loop.
    refused: ReportThrottle,
}

impl ChildPlacer {
    pub(super) fn new(
        workers: WorkerLoops,
        template: ChannelTemplate,
        limit: Option<ConnectionLimit>,
    ) -> Self {
        Self {
            workers,
            template,
            limit,
            waiting: Mutex::default(),
            refused: ReportThrottle::default(),
        }
    }

    /// Gives a connection to its worker.
    fn place(self: &Arc<Self>, here: &LocalLoop, new: NewChannel) {
        let workers = match &self.workers {
            WorkerLoops::Accepting => return self.register_child(here, new),
            WorkerLoops::Of(workers, _) => workers,
        };
        let placed = match self.worker_by_key(&new) {
            Some(worker) => Ok((worker, new)),
            None => workers.place(new),
        };
        let (worker, new) = match placed {
            Ok(placed) => placed,
            Err(_) if workers.is_shutting_down() => return,
            Err(error) => return self.refused(&error),
        };
        if worker.in_event_loop() {
            self.register_child(here, new);
        } else if !worker.is_shutting_down() {
            let (children, new) = (self.clone(), Box::new(new));
            let adopt = LoopCommand::new(move |here| children.register_child(here, *new));
            // A loop that is over drops the connection, which closes it.
            let _ = worker.send_lasting(adopt);
        }
    }

    /// Registers a connection with its loop. Nobody waits for it: if it fails that is reported.
    fn register_child(&self, here: &LocalLoop, new: NewChannel) {
        if let Err(error) = here.register_with(new, |_| Ok(()))
            && !here.is_closing()
        {
            self.refused(&error);
        }
    }

    /// Finds the loop for a connection that has a key. `None` if it has none, or if each has a loop to itself;
    /// that a key could not be made is reported.
    fn worker_by_key(&self, new: &NewChannel) -> Option<EventLoop> {
        match &self.workers {
            WorkerLoops::Of(workers, Some(key)) if !workers.is_per_channel() => {
                let origin = Origin::labelled("child key");
                run_user_code(UserCode::Chooser, origin, || key(new, workers)).ok()
            }
            _ => None,
        }
    }

    /// Gives those that wait to the workers, as far as there is room. While there is none the server accepts
    /// nobody.
    pub(super) fn admit_waiting(self: &Arc<Self>, server: &Rc<ChannelCore>) {
        let Some(limit) = &self.limit else { return };
        while let Some(new) = self.next_waiting() {
            match limit.try_admit() {
                Ok(place) => {
                    let new = self.template.apply(new).attribute(&CONNECTION_PERMIT, place);
                    self.place(&server.here, new);
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

    /// A connection could not be registered, and is closed.
    fn refused(&self, error: &Error) {
        if let Some(count) = self.refused.record() {
            let what = format!("an accepted connection was closed, {count} so far: {error}");
            report(Fault::Unhandled(what));
        }
    }
}

/// Registers what the server accepts with a loop of the workers: the next one, or one of its own.
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
        if children.limit.is_some() {
            children.waiting().push_back(accepted);
            children.admit_waiting(ctx.core());
        } else {
            children.place(ctx.event_loop(), children.template.apply(accepted));
        }
        Ok(())
    }
}

impl Drop for Acceptor {
    /// The server is over: nobody is let in any more.
    fn drop(&mut self) {
        let left = std::mem::take(&mut *self.children.waiting());
        drop(left);
        if let Some(limit) = &self.children.limit {
            limit.forget(&self.children);
        }
    }
}
