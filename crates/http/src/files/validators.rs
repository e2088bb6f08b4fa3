//! The validators of a file (RFC 9110 section 8.8): its entity tag and its date of modification.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::files::entity_tag::EntityTag;

/// How old a modification must be for an entity tag that is strong. A file that is written twice within one step of
/// the file system's clock may keep its time and length: the step is 10 ms with ext4, and 2 s with FAT.
pub(crate) const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// The validators of one file at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileValidators {
    /// The text of the entity tag without its quotes: inode, length and time of modification.
    opaque: String,
    /// True if the file may have changed since without a difference in its tag.
    weak: bool,
    /// The date of modification in whole seconds, not later than now; `None` before 1970, which has no HTTP date.
    last_modified: Option<SystemTime>,
}

impl FileValidators {
    /// Returns the validators of a file, of which the metadata was read at about `now`.
    pub(crate) fn new(metadata: &Metadata, now: SystemTime) -> Self {
        let (seconds, nanos) = (metadata.mtime(), metadata.mtime_nsec());
        let opaque = format!("{:x}-{:x}-{seconds:x}.{nanos:x}", metadata.ino(), metadata.len());
        let since_epoch = u64::try_from(seconds).ok().map(Duration::from_secs);
        let modified = since_epoch.and_then(|seconds| UNIX_EPOCH.checked_add(seconds));
        // The seconds are rounded down: the modification may be a second younger.
        let settled_after = SETTLED_AFTER + Duration::from_secs(1);
        let is_settled =
            |modified| now.duration_since(modified).is_ok_and(|age| age >= settled_after);
        Self {
            opaque,
            weak: !modified.is_none_or(is_settled),
            last_modified: modified.map(|modified| modified.min(whole_seconds(now))),
        }
    }

    /// Returns the entity tag.
    pub(crate) fn entity_tag(&self) -> EntityTag<'_> {
        EntityTag { weak: self.weak, opaque: self.opaque.as_bytes() }
    }

    /// Returns the value of `ETag`.
    pub(crate) fn etag_value(&self) -> String {
        format!("{}\"{}\"", if self.weak { "W/" } else { "" }, self.opaque)
    }

    /// Returns the date of modification in whole seconds.
    pub(crate) fn last_modified(&self) -> Option<SystemTime> {
        self.last_modified
    }
}

/// Rounds a time down to the seconds of an HTTP date.
fn whole_seconds(time: SystemTime) -> SystemTime {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX_EPOCH + Duration::from_secs(since_epoch.as_secs())
}

#[cfg(test)]
impl FileValidators {
    /// Validators as they would be of a file with this tag and date.
    pub(crate) fn of_test(opaque: &str, weak: bool, last_modified: Option<SystemTime>) -> Self {
        Self { opaque: String::from(opaque), weak, last_modified }
    }
}
