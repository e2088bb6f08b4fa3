//! Handlers that declare the types of their messages, and the check that neighbours fit.
//!
//! | to understand | read |
//! |---|---|
//! | handlers of one direction and one message type | `directional` |
//! | several stages in one slot, joined at compile time | `chain` |
//! | decoders and encoders | `codec`, with `cumulation` |
//! | which types a handler declares, and whether neighbours fit | `signature`, `type_check` |

pub(crate) mod chain;
pub(crate) mod codec;
pub(crate) mod cumulation;
pub(crate) mod directional;
pub(crate) mod signature;
pub(crate) mod type_check;
