//! permessage-deflate (RFC 7692): its parameters, and the compression of messages.

pub(crate) mod deflater;
pub(crate) mod inflater;
pub(crate) mod options;
pub(crate) mod parameters;
