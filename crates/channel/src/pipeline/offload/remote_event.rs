//! The events as they travel between the loop and an executor: everything in them is `Send`.

use std::rc::Rc;

use waterwheel_executor::Error;

use super::link::Link;
use super::remote_completion::RemoteCompletion;
use super::remote_context::RemoteCtx;
use super::remote_handler::RemoteHandler;
use crate::address::{Address, ConnectTarget};
use crate::channel::core::ChannelCore;
use crate::channel::error::ChannelError;
use crate::channel::handle::request::PendingReservation;
use crate::pipeline::dispatch::event::{
    Active, BeginRead, Bind, Close, Connect, Deregister, Disconnect, Failure, Flush, Inactive,
    Read, ReadComplete, Registered, ShutdownOutput, Unregistered, UserEvent, WritabilityChanged,
    Write,
};
use crate::pipeline::dispatch::watched_handler::Call;
use crate::pipeline::handler::HandlerResult;
use crate::pipeline::message::Msg;

/// An event on its way to a remote handler, or back.
pub(crate) enum Mail {
    Registered,
    Unregistered,
    Active,
    Inactive,
    Read(Msg),
    ReadComplete,
    UserEvent(Msg),
    WritabilityChanged,
    Failure(Error),
    Bind(Address, RemoteCompletion),
    Connect(ConnectTarget, RemoteCompletion),
    Disconnect(RemoteCompletion),
    Close(RemoteCompletion),
    Deregister(RemoteCompletion),
    ShutdownOutput(RemoteCompletion),
    BeginRead,
    /// Its bytes are pending until it has arrived.
    Write(Msg, RemoteCompletion, PendingReservation),
    Flush,
}

impl Mail {
    /// Whether it goes on when the handler it was for has died: what tells of the channel's life, and a
    /// wish that is about to come true anyway.
    pub(super) fn passes_the_dead(&self) -> bool {
        use Mail::{Active, Close, Inactive, Registered, Unregistered};
        matches!(self, Registered | Unregistered | Active | Inactive | Close(_))
    }

    /// On the loop: goes on its way, from this slot on.
    pub(super) fn go_on(self, core: &Rc<ChannelCore>, at: u32) {
        match self {
            Mail::Registered => core.go(at, Registered),
            Mail::Unregistered => core.go(at, Unregistered),
            Mail::Active => core.go(at, Active),
            Mail::Inactive => core.go(at, Inactive),
            Mail::Read(msg) => core.go(at, Read(msg)),
            Mail::ReadComplete => core.go(at, ReadComplete),
            Mail::UserEvent(event) => core.go(at, UserEvent(event)),
            Mail::WritabilityChanged => core.go(at, WritabilityChanged),
            Mail::Failure(error) => core.go(at, Failure(error)),
            Mail::Bind(to, done) => core.go(at, Bind(to, core.completion_of(done))),
            Mail::Connect(to, done) => core.go(at, Connect(to, core.completion_of(done))),
            Mail::Disconnect(done) => core.go(at, Disconnect(core.completion_of(done))),
            Mail::Close(done) => core.go(at, Close(core.completion_of(done))),
            Mail::Deregister(done) => core.go(at, Deregister(core.completion_of(done))),
            Mail::ShutdownOutput(done) => core.go(at, ShutdownOutput(core.completion_of(done))),
            Mail::BeginRead => core.go(at, BeginRead),
            Mail::Write(msg, done, weight) => {
                drop(weight);
                core.go(at, Write(msg, core.completion_of(done)));
            }
            Mail::Flush => core.go(at, Flush),
        }
    }

    /// Nobody will see to it any more.
    pub(super) fn refuse(self, error: &Error) {
        match self {
            Mail::Bind(_, done)
            | Mail::Connect(_, done)
            | Mail::Disconnect(done)
            | Mail::Close(done)
            | Mail::Deregister(done)
            | Mail::ShutdownOutput(done)
            | Mail::Write(_, done, _) => done.fail(error.clone()),
            _ => {}
        }
    }

    /// True if the one who asked for this operation has cancelled it. A cancelled write travels on: it is
    /// skipped when its turn comes.
    fn is_given_up(&self) -> bool {
        match self {
            Mail::Bind(_, done)
            | Mail::Connect(_, done)
            | Mail::Disconnect(done)
            | Mail::Close(done)
            | Mail::Deregister(done)
            | Mail::ShutdownOutput(done) => done.is_cancelled(),
            _ => false,
        }
    }

    /// The method that it is for.
    pub(super) fn call(&self) -> Call {
        match self {
            Mail::Registered => Call::on_registered,
            Mail::Unregistered => Call::on_unregistered,
            Mail::Active => Call::on_active,
            Mail::Inactive => Call::on_inactive,
            Mail::Read(_) => Call::on_read,
            Mail::ReadComplete => Call::on_read_complete,
            Mail::UserEvent(_) => Call::on_user_event,
            Mail::WritabilityChanged => Call::on_writability_changed,
            Mail::Failure(_) => Call::on_error,
            Mail::Bind(..) => Call::bind,
            Mail::Connect(..) => Call::connect,
            Mail::Disconnect(_) => Call::disconnect,
            Mail::Close(_) => Call::close,
            Mail::Deregister(_) => Call::deregister,
            Mail::ShutdownOutput(_) => Call::shutdown_output,
            Mail::BeginRead => Call::read,
            Mail::Write(..) => Call::write,
            Mail::Flush => Call::flush,
        }
    }

    /// On the executor: calls the handler's method, and sees to what it returns.
    pub(super) fn deliver(self, handler: &mut dyn RemoteHandler, ctx: &RemoteCtx, link: &Link) {
        if self.is_given_up() {
            return;
        }
        let told = match self {
            Mail::Registered => handler.on_registered(ctx),
            Mail::Unregistered => handler.on_unregistered(ctx),
            Mail::Active => handler.on_active(ctx),
            Mail::Inactive => handler.on_inactive(ctx),
            Mail::Read(msg) => handler.on_read(ctx, msg),
            Mail::ReadComplete => handler.on_read_complete(ctx),
            Mail::UserEvent(event) => handler.on_user_event(ctx, event),
            Mail::WritabilityChanged => handler.on_writability_changed(ctx),
            Mail::Failure(error) => return link.error_method_ended(handler.on_error(ctx, error)),
            Mail::BeginRead => handler.read(ctx),
            Mail::Flush => handler.flush(ctx),
            Mail::Bind(to, done) => return ask(link, done, |done| handler.bind(ctx, to, done)),
            Mail::Connect(to, done) => {
                return ask(link, done, |done| handler.connect(ctx, to, done));
            }
            Mail::Disconnect(done) => return ask(link, done, |done| handler.disconnect(ctx, done)),
            Mail::Close(done) => return ask(link, done, |done| handler.close(ctx, done)),
            Mail::Deregister(done) => return ask(link, done, |done| handler.deregister(ctx, done)),
            Mail::ShutdownOutput(done) => {
                return ask(link, done, |done| handler.shutdown_output(ctx, done));
            }
            Mail::Write(msg, done, weight) => {
                drop(weight); // From now on it is the handler's.
                return ask(link, done, |done| handler.write(ctx, msg, done));
            }
        };
        if let Err(error) = told {
            link.error_method_ended(handler.on_error(ctx, error));
        }
    }
}

/// An operation that fails, or leaves its completion where it was, fails that (rule 10).
fn ask(
    link: &Link,
    mut done: RemoteCompletion,
    call: impl FnOnce(&mut RemoteCompletion) -> HandlerResult,
) {
    let result = call(&mut done);
    if result.is_err() || !done.is_none() {
        let not_passed_on = || ChannelError::NotPassedOn { handler: link.name().to_owned() };
        let error = result.err().unwrap_or_else(|| Error::new(not_passed_on()));
        link.operation_failed(error, done);
    }
}
