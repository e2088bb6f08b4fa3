//! The cause of a close after a panic of the driver.

/// The cause of a registration's end if the driver panicked while working on it. The loop and its other registrations
/// go on (R05).
///
/// [`Error::find`](waterwheel_executor::Error::find) finds it in the cause of a close.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the driver panicked: {message}")]
pub struct DriverPanicked {
    /// The message of the panic.
    pub message: String,
}
