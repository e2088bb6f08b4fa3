//! The limits of what the Redis engine holds and sends.

use std::time::Duration;

/// Calls that wait for an answer of Redis. More are refused, except those that the engine makes for itself.
pub(super) const MAX_CALLS: usize = 16_384;

/// Bytes of the calls that wait.
pub(super) const MAX_CALL_BYTES: usize = 64 << 20;

/// The longest publication, with the name of its user: half of the longest string that the decoder accepts.
pub(super) const MAX_PUBLICATION_BYTES: usize = 4 << 20;

/// Publications that one call of a script publishes: about a millisecond in which Redis does nothing else.
pub(super) const PUBLICATIONS_PER_CALL: usize = 64;

/// Bytes after which a call of a script takes no further publication.
pub(super) const PUBLICATION_BYTES_PER_CALL: usize = 256 << 10;

/// Bytes that are given to the channel at once.
pub(super) const BYTES_PER_WRITE: usize = 256 << 10;

/// Publications that one call of a script reads from the history.
pub(super) const HISTORY_PER_CALL: usize = 1_000;

/// Bytes after which a call of a script stops reading from the history.
pub(super) const HISTORY_BYTES_PER_CALL: usize = 256 << 10;

/// Calls with long answers that are on their way: 16 of 256 KiB stay below the 8 MiB of unsent output that Redis bears for a
/// minute.
pub(super) const MAX_READS: usize = 16;

/// Topics that one call of a script tells about.
pub(super) const TOPICS_PER_CALL: usize = 256;

/// Clients in a page of presence.
pub(super) const MAX_PRESENCE_PAGE: usize = 10_000;

/// Notes of presence that one call of a script makes.
pub(super) const NOTES_PER_CALL: usize = 128;

/// Channels in one command that subscribes.
pub(super) const CHANNELS_PER_CALL: usize = 128;

/// Nodes of a cluster that are remembered.
pub(super) const MAX_NODES: usize = 64;

/// Redirections (MOVED) that are followed at once; the next one waits like a failed attempt.
pub(super) const MAX_REDIRECTS: u32 = 5;

/// The time before the first attempt to connect again, and the longest one. Each attempt doubles it; a half is random.
pub(super) const FIRST_BACK_OFF: Duration = Duration::from_millis(50);
pub(super) const MAX_BACK_OFF: Duration = Duration::from_secs(5);

/// The bounds of the time between two beats, by which a gateway keeps its notes alive and learns that Redis is silent.
pub(super) const MIN_BEAT: Duration = Duration::from_millis(50);
pub(super) const MAX_BEAT: Duration = Duration::from_secs(1);
