//! Programs that must not compile, each with the compiler's message beside it.
//!
//! When a new compiler changes a message: `TRYBUILD=overwrite cargo test --test compile_fail`, then review
//! the diff.

/// Handles of a channel that belong to its loop are not `Send`.
#[test]
fn a06_local_handles_cannot_leave_their_loop() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/a06_*.rs");
}
