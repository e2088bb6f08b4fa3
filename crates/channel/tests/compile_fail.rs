//! Programs that must not compile, each with the compiler's message beside it.
//!
//! When a new compiler changes a message: `TRYBUILD=overwrite cargo test --test compile_fail`, then review
//! the diff.

/// All cases in one call: trybuild makes one project of them and builds its dependencies once.
#[test]
fn c06_mismatched_types_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/c06_*.rs");
}

/// A loop, its pipelines, handlers and contexts are not `Send`.
#[test]
fn c01_types_that_belong_to_a_loop_cannot_leave_it() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/c01_*.rs");
}

/// The handles of local futures are not `Send`.
#[test]
fn l15_handles_of_local_futures_cannot_leave_their_loop() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/l15_*.rs");
}
