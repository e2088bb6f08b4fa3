//! The methods of a handler, as a recorder names them.

/// A method of a handler that a [`Recorder`](super::Recorder) logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordedMethod {
    /// `on_added`: the handler was added to a pipeline.
    Added,
    /// `on_removed`: the handler was removed from its pipeline.
    Removed,
    /// `on_registered`: the channel was registered with its loop.
    Registered,
    /// `on_unregistered`: the channel was deregistered from its loop.
    Unregistered,
    /// `on_active`: the channel became connected or bound.
    Active,
    /// `on_inactive`: the channel is no longer connected or bound.
    Inactive,
    /// `on_read`: a message was read.
    Read,
    /// `on_read_complete`: a round of reads has ended.
    ReadComplete,
    /// `on_user_event`: a user event passes.
    UserEvent,
    /// `on_writability_changed`: the channel became writable or unwritable.
    WritabilityChanged,
    /// `on_error`: an error passes.
    Error,
    /// `on_timer`: a timer of the handler is due.
    Timer,
    /// `bind`: binds the channel to an address.
    Bind,
    /// `connect`: connects the channel.
    Connect,
    /// `disconnect`: disconnects the channel, which closes it.
    Disconnect,
    /// `close`: closes the channel.
    Close,
    /// `deregister`: deregisters the channel from its loop.
    Deregister,
    /// `shutdown_output`: shuts down the output (half-close).
    ShutdownOutput,
    /// `read`: asks for a round of reads.
    BeginRead,
    /// `write`: writes a message.
    Write,
    /// `flush`: flushes the written messages.
    Flush,
}

impl RecordedMethod {
    /// All methods.
    pub const ALL: [RecordedMethod; 21] = [
        RecordedMethod::Added,
        RecordedMethod::Removed,
        RecordedMethod::Registered,
        RecordedMethod::Unregistered,
        RecordedMethod::Active,
        RecordedMethod::Inactive,
        RecordedMethod::Read,
        RecordedMethod::ReadComplete,
        RecordedMethod::UserEvent,
        RecordedMethod::WritabilityChanged,
        RecordedMethod::Error,
        RecordedMethod::Timer,
        RecordedMethod::Bind,
        RecordedMethod::Connect,
        RecordedMethod::Disconnect,
        RecordedMethod::Close,
        RecordedMethod::Deregister,
        RecordedMethod::ShutdownOutput,
        RecordedMethod::BeginRead,
        RecordedMethod::Write,
        RecordedMethod::Flush,
    ];

    /// Returns the name of the method.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RecordedMethod::Added => "on_added",
            RecordedMethod::Removed => "on_removed",
            RecordedMethod::Registered => "on_registered",
            RecordedMethod::Unregistered => "on_unregistered",
            RecordedMethod::Active => "on_active",
            RecordedMethod::Inactive => "on_inactive",
            RecordedMethod::Read => "on_read",
            RecordedMethod::ReadComplete => "on_read_complete",
            RecordedMethod::UserEvent => "on_user_event",
            RecordedMethod::WritabilityChanged => "on_writability_changed",
            RecordedMethod::Error => "on_error",
            RecordedMethod::Timer => "on_timer",
            RecordedMethod::Bind => "bind",
            RecordedMethod::Connect => "connect",
            RecordedMethod::Disconnect => "disconnect",
            RecordedMethod::Close => "close",
            RecordedMethod::Deregister => "deregister",
            RecordedMethod::ShutdownOutput => "shutdown_output",
            RecordedMethod::BeginRead => "read",
            RecordedMethod::Write => "write",
            RecordedMethod::Flush => "flush",
        }
    }
}
