//! Programs that must not compile: what belongs to a loop does not leave it (C01).
//!
//! After a new compiler says it in other words: `TRYBUILD=overwrite cargo test --test stays_on_the_loop`,
//! and a look at what has changed.

/// One call for all of them: it makes one project of them, and builds its dependencies once.
#[test]
fn c01_what_belongs_to_a_loop_does_not_leave_it() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/c01_*.rs");
}
