//! Programs that must not compile, each with what the compiler says to it.
//!
//! After a new compiler says it in other words: `TRYBUILD=overwrite cargo test --test compile_fail`,
//! and a look at what has changed.

/// One call for all of them: it makes one project of them, and builds its dependencies once.
#[test]
fn c06_what_does_not_fit_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/c06_*.rs");
}
