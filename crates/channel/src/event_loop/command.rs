//! What can be asked of an event loop beyond tasks and timers. Travels as a value through the
//! executor's queue.

use std::fmt;
use std::sync::Arc;

use waterwheel_executor::{Promise, TimerKey};

use crate::bootstrap::Children;
use crate::channel::handle::Channel;
use crate::channel::new_channel::NewChannel;
use crate::channel::request::Request;
use crate::channel::shared::ChannelShared;
use crate::channel_group::Errand;
use crate::event_loop::agreement::Question;
use crate::event_loop::local_loop::LocalLoop;
use crate::futures::Notifier;
use crate::pipeline::offload::Link;
use crate::pipeline::timers::HandlerTimer;
use crate::tail::TailEntry;
use crate::token::Token;

/// A command to an event loop. Made by this crate only.
pub struct LoopCommand(pub(crate) Ask);

pub(crate) enum Ask {
    /// A future was woken on another thread.
    Poll(Token),
    /// The future of this notifier is no longer wanted.
    Abort(Arc<Notifier>),
    /// A sleeper is due.
    Awake(Token),
    /// A sleeper was given up on another thread.
    Forget(TimerKey, Token),
    /// To run after the task phase.
    Tail(Arc<TailEntry>),
    /// Replace the selector.
    Rebuild,
    /// A channel comes to the loop.
    Register(Box<(NewChannel, Promise<Channel>)>),
    /// A channel that a server has accepted comes to the loop.
    Adopt(Box<NewChannel>, Arc<Children>),
    /// Something is asked of a channel.
    Channel(Arc<ChannelShared>, Box<Request>),
    /// The same is asked of several.
    Errand(Box<Errand>),
    /// A channel is to go on writing.
    WriteOut(Token),
    /// A channel is to ask its transport for events.
    Pump(Token),
    /// An offloaded handler has emitted something.
    Mail(Arc<Link>),
    /// The time of an attempt to connect is up.
    ConnectTimeout(Token),
    /// An attempt to connect is to be made again.
    ConnectAgain(Token),
    /// A channel may read again.
    ResumeReading(Token),
    /// There is room for another connection of a server.
    Admit(Token, Arc<Children>),
    /// To look whether a drain is over: because a guard has gone, or since all loops are asked.
    Look(Option<Question>),
    /// A timer of a handler is due.
    Timer(HandlerTimer),
    /// Anything else, seldom enough for a box.
    Call(Box<dyn FnOnce(&LocalLoop) + Send>),
}

impl fmt::Debug for LoopCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Ask::Poll(_) => "Poll",
            Ask::Abort(_) => "Abort",
            Ask::Awake(_) => "Awake",
            Ask::Forget(..) => "Forget",
            Ask::Tail(_) => "Tail",
            Ask::Rebuild => "Rebuild",
            Ask::Register(_) => "Register",
            Ask::Adopt(..) => "Adopt",
            Ask::Channel(..) => "Channel",
            Ask::Errand(_) => "Errand",
            Ask::WriteOut(_) => "WriteOut",
            Ask::Pump(_) => "Pump",
            Ask::Mail(_) => "Mail",
            Ask::ConnectTimeout(_) => "ConnectTimeout",
            Ask::ConnectAgain(_) => "ConnectAgain",
            Ask::ResumeReading(_) => "ResumeReading",
            Ask::Admit(..) => "Admit",
            Ask::Look(_) => "Look",
            Ask::Timer(_) => "Timer",
            Ask::Call(_) => "Call",
        })
    }
}
