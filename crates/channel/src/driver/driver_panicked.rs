//! The cause of a close after a driver panicked.

/// The driver panicked while it worked on a registration, which was closed for that. The loop and its other
/// registrations go on (R05).
///
/// Found in the cause of a close by [`Error::find`](waterwheel_executor::Error::find).
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the driver panicked: {message}")]
pub struct DriverPanicked {
    /// The panic's message.
    pub message: String,
}
