//! Lines of a head or of chunk framing: the bytes before a CR LF.

use memchr::memchr;

use super::error::{Malformation, MessageError};

/// A line that was found in a buffer: its content is `start..end`, the next line begins at `next`.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineBounds {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) next: usize,
}

/// Finds the line that begins at `start`; `None` if its end has not come yet. `searched` is the number of its bytes that
/// earlier calls have searched, so that a line that comes byte by byte is not searched from its beginning each time.
#[inline]
pub(super) fn find_line(
    bytes: &[u8],
    start: usize,
    searched: &mut usize,
) -> Result<Option<LineBounds>, MessageError> {
    let from = (start + *searched).min(bytes.len());
    let Some(found) = memchr(b'\n', &bytes[from..]) else {
        *searched = bytes.len() - start;
        return Ok(None);
    };
    *searched = 0;
    let lf = from + found;
    if lf == start || bytes[lf - 1] != b'\r' {
        return Err(Malformation::BareLf.into());
    }
    Ok(Some(LineBounds { start, end: lf - 1, next: lf + 1 }))
}
