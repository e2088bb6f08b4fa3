//! The methods of a handler.

/// A method of a handler, as an event of a recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandlerMethod {
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

impl HandlerMethod {
    /// All methods.
    pub const ALL: [HandlerMethod; 21] = [
        HandlerMethod::Added,
        HandlerMethod::Removed,
        HandlerMethod::Registered,
        HandlerMethod::Unregistered,
        HandlerMethod::Active,
        HandlerMethod::Inactive,
        HandlerMethod::Read,
        HandlerMethod::ReadComplete,
        HandlerMethod::UserEvent,
        HandlerMethod::WritabilityChanged,
        HandlerMethod::Error,
        HandlerMethod::Timer,
        HandlerMethod::Bind,
        HandlerMethod::Connect,
        HandlerMethod::Disconnect,
        HandlerMethod::Close,
        HandlerMethod::Deregister,
        HandlerMethod::ShutdownOutput,
        HandlerMethod::BeginRead,
        HandlerMethod::Write,
        HandlerMethod::Flush,
    ];

    /// Returns the name of the method.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            HandlerMethod::Added => "on_added",
            HandlerMethod::Removed => "on_removed",
            HandlerMethod::Registered => "on_registered",
            HandlerMethod::Unregistered => "on_unregistered",
            HandlerMethod::Active => "on_active",
            HandlerMethod::Inactive => "on_inactive",
            HandlerMethod::Read => "on_read",
            HandlerMethod::ReadComplete => "on_read_complete",
            HandlerMethod::UserEvent => "on_user_event",
            HandlerMethod::WritabilityChanged => "on_writability_changed",
            HandlerMethod::Error => "on_error",
            HandlerMethod::Timer => "on_timer",
            HandlerMethod::Bind => "bind",
            HandlerMethod::Connect => "connect",
            HandlerMethod::Disconnect => "disconnect",
            HandlerMethod::Close => "close",
            HandlerMethod::Deregister => "deregister",
            HandlerMethod::ShutdownOutput => "shutdown_output",
            HandlerMethod::BeginRead => "read",
            HandlerMethod::Write => "write",
            HandlerMethod::Flush => "flush",
        }
    }
}
