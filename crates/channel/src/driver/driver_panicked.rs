//! The cause of a close after a panic of the driver.

/// The close cause of a registration if the driver panicked while working on it. The loop and its other registrations
/// continue (R05).
///
/// [`Error::find`](waterwheel_executor::Error::find) finds a `DriverPanicked` in the cause of a close.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the driver panicked: {message}")]
pub struct DriverPanicked {
    /// The message of the panic.
    pub message: String,
}
