//! The methods of a handler.

/// A method of a handler, as an event of a recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordedMethod {
    /// `on_added`
    Added,
    /// `on_removed`
    Removed,
    /// `on_registered`
    Registered,
    /// `on_unregistered`
    Unregistered,
    /// `on_active`
    Active,
    /// `on_inactive`
    Inactive,
    /// `on_read`
    Read,
    /// `on_read_complete`
    ReadComplete,
    /// `on_user_event`
    UserEvent,
    /// `on_writability_changed`
    WritabilityChanged,
    /// `on_error`
    Error,
    /// `on_timer`
    Timer,
    /// `bind`
    Bind,
    /// `connect`
    Connect,
    /// `disconnect`
    Disconnect,
    /// `close`
    Close,
    /// `deregister`
    Deregister,
    /// `shutdown_output`
    ShutdownOutput,
    /// `read`
    BeginRead,
    /// `write`
    Write,
    /// `flush`
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
