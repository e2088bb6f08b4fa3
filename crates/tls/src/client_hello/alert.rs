//! Alerts of a side that has no TLS connection.

use bytes::Bytes;
use rustls::AlertDescription;

/// Returns the record of a fatal alert that is not encrypted, as it is sent before a handshake has begun: for a router
/// that refuses a [`ClientHello`](crate::ClientHello).
///
/// ```
/// use waterwheel_tls::fatal_alert;
/// use waterwheel_tls::rustls::AlertDescription;
///
/// let alert = fatal_alert(AlertDescription::UnrecognisedName);
/// assert_eq!(alert, &b"\x15\x03\x03\x00\x02\x02\x70"[..]);
/// ```
pub fn fatal_alert(alert: AlertDescription) -> Bytes {
    const ALERT: u8 = 21;
    const FATAL: u8 = 2;
    Bytes::copy_from_slice(&[ALERT, 3, 3, 0, 2, FATAL, u8::from(alert)])
}
