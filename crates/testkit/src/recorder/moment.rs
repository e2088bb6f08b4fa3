//! The calls that a handler gets.

/// A call that a handler gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
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

impl Moment {
    /// All of them.
    pub const ALL: [Moment; 21] = [
        Moment::Added,
        Moment::Removed,
        Moment::Registered,
        Moment::Unregistered,
        Moment::Active,
        Moment::Inactive,
        Moment::Read,
        Moment::ReadComplete,
        Moment::UserEvent,
        Moment::WritabilityChanged,
        Moment::Error,
        Moment::Timer,
        Moment::Bind,
        Moment::Connect,
        Moment::Disconnect,
        Moment::Close,
        Moment::Deregister,
        Moment::ShutdownOutput,
        Moment::BeginRead,
        Moment::Write,
        Moment::Flush,
    ];

    /// The name of the handler's method.
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            Moment::Added => "on_added",
            Moment::Removed => "on_removed",
            Moment::Registered => "on_registered",
            Moment::Unregistered => "on_unregistered",
            Moment::Active => "on_active",
            Moment::Inactive => "on_inactive",
            Moment::Read => "on_read",
            Moment::ReadComplete => "on_read_complete",
            Moment::UserEvent => "on_user_event",
            Moment::WritabilityChanged => "on_writability_changed",
            Moment::Error => "on_error",
            Moment::Timer => "on_timer",
            Moment::Bind => "bind",
            Moment::Connect => "connect",
            Moment::Disconnect => "disconnect",
            Moment::Close => "close",
            Moment::Deregister => "deregister",
            Moment::ShutdownOutput => "shutdown_output",
            Moment::BeginRead => "read",
            Moment::Write => "write",
            Moment::Flush => "flush",
        }
    }
}
