//! Paths and loops for every test of this folder.

use std::path::{Path, PathBuf};

use waterwheel::channel::EventLoopGroup;
use waterwheel::net::Auto;

/// Returns the path of something that `scripts/test` installs beside the build.
pub(crate) fn beside_the_build(path: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join(path)
}

pub(crate) fn one_loop() -> EventLoopGroup {
    EventLoopGroup::builder(Auto).threads(1).build().unwrap()
}
