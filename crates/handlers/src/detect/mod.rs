//! Protocol detection: the first bytes of a connection choose its pipeline (K13).
//!
//! ```text
//!   Bytes ──► ProtocolDetector ──probes in order──┬─ Match ───► the initialiser of that protocol edits the pipeline
//!                │ holds bytes, on_active,         ├─ no match ► the fallback's initialiser, or error and close
//!                │ and user events                 └─ NeedMore ► the next read, up to a limit of bytes and of time
//!                └ then removes itself: on_active, user events, bytes, and what follows go to the chosen handlers
//! ```
//!
//! 1. Probes are asked in the order of registration, over the same bytes from the start of the connection. The first
//!    match wins when all probes before it have answered *no match*. The choice does not depend on how the bytes were
//!    cut, if each probe keeps the contract of [`Probe`].
//! 2. Handlers after the detector see the connection from its beginning: `on_active`, then the user events and all
//!    bytes that came meanwhile, in one piece, then everything later. Nothing is lost and nothing comes twice. If no
//!    protocol is chosen they see neither `on_active` nor `on_inactive`.
//! 3. Fewer bytes than the limit are held, plus the last read. A first read that decides is passed on as it was read.
//! 4. At the limit of bytes, at the end of the stream, and if asked at the limit of time, a probe that needs more has not
//!    matched: a later probe or the fallback is chosen. Otherwise the error goes to the handlers after the detector,
//!    and the channel is closed, unless one of them removes the detector: then they get the bytes.
//! 5. The initialiser's changes and the removal of the detector are one edit: either all of them take effect or none. An
//!    initialiser that fails closes the channel in the same way, and its handlers get no byte. One that panics closes
//!    the channel (rule 11 of `docs/PIPELINE.md`). After one that closes the channel, its handlers still get the
//!    bytes.
//! 6. A detector that is removed from outside passes on everything it has held.
//!
//! The search for a match (`search.rs`) and the stock probes (`stock_probe.rs`) know bytes and no channel.

mod builder;
mod detector;
mod error;
mod probe;
mod search;
mod stock_probe;

pub use self::builder::{AtLimit, InvalidDetector, ProtocolDetectorBuilder};
pub use self::detector::ProtocolDetector;
pub use self::error::DetectError;
pub use self::probe::{Detection, Probe};
pub use self::search::{ProbeSearch, SearchOutcome};
pub use self::stock_probe::StockProbe;
