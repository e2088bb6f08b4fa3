//! The bytes of a socket address.

use rustix::net::SocketAddrAny;

/// Returns the bytes of a `sockaddr`, from the family on. rustix does not expose them, and its own decoding of
/// `sockaddr_un` panics on a path of 108 bytes, which the kernel reports with a NUL after `sun_path`.
pub(crate) fn bytes(address: &SocketAddrAny) -> &[u8] {
    let (first, len) = (address.as_ptr().cast::<u8>(), address.addr_len() as usize);
    // SAFETY: an address keeps `addr_len` initialised bytes, at most its own size, from `as_ptr` on: its
    // constructors ask for that. It is borrowed for as long as the slice is.
    unsafe { std::slice::from_raw_parts(first, len) }
}
