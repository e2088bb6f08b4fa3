//! Who may cross threads: what the tests that list every public type of a crate have in common.
//!
//! A type that gains or loses `Send`, `Sync` or `Unpin` changes the API without a line of it being
//! touched. Here it fails a test; and so does a public type that is not listed.

use std::collections::BTreeSet;
use std::marker::PhantomData;

/// Asks whether a type is `Send`, `Sync`, `Unpin`: the inherent constant is there only if it is, and
/// then it hides the trait's.
pub(crate) struct Ask<T: ?Sized>(PhantomData<T>);

#[allow(dead_code, reason = "a list in which everything is `Send` does not come to it")]
pub(crate) trait Otherwise {
    const SEND: bool = false;
    const SYNC: bool = false;
    const UNPIN: bool = false;
}

impl<T: ?Sized> Otherwise for Ask<T> {}

impl<T: ?Sized + Send> Ask<T> {
    pub(crate) const SEND: bool = true;
}

impl<T: ?Sized + Sync> Ask<T> {
    pub(crate) const SYNC: bool = true;
}

impl<T: ?Sized + Unpin> Ask<T> {
    pub(crate) const UNPIN: bool = true;
}

/// A line of the list: the type, what it should be, what it is.
macro_rules! is {
    ($ty:ty: $send:literal $sync:literal $unpin:literal) => {{
        let found = (<Ask<$ty>>::SEND, <Ask<$ty>>::SYNC, <Ask<$ty>>::UNPIN);
        (stringify!($ty), ($send, $sync, $unpin), found)
    }};
}
pub(crate) use is;

/// A line of the list: the type, whether it should be `Send`, `Sync`, `Unpin`, and whether it is.
pub(crate) type Line = (&'static str, (bool, bool, bool), (bool, bool, bool));

/// Fails if a line is wrong, or if what is listed is not what is public: the types that these sources
/// re-export, and `others`.
pub(crate) fn check(listed: &[Line], sources: &[&'static str], others: &[&'static str]) {
    let changed: Vec<_> = listed.iter().filter(|(_, expected, found)| expected != found).collect();
    assert!(changed.is_empty(), "(type, listed Send Sync Unpin, found): {changed:#?}");

    let listed: BTreeSet<_> = listed.iter().map(|(ty, ..)| base_name(ty)).collect();
    let exported = sources.iter().flat_map(|source| exported_types(source));
    let public: BTreeSet<_> = exported.chain(others.iter().copied()).collect();
    assert_eq!(listed, public, "left: listed here, right: exported");
}

/// `dyn Work<X>` is `Work`.
fn base_name(ty: &str) -> &str {
    let name = ty.trim_start_matches("dyn ");
    name.split(['<', ' ']).next().unwrap_or(name)
}

/// The names of types and traits that the crate re-exports; constants and functions left out.
fn exported_types(lib: &str) -> Vec<&str> {
    let statements = lib
        .split("pub use ")
        .skip(1)
        .filter(|rest| rest.starts_with("crate::") || rest.starts_with("self::"));
    let names = statements.flat_map(|rest| {
        let statement = rest.split(';').next().unwrap_or(rest);
        statement.split(|c: char| !c.is_alphanumeric() && c != '_')
    });
    let is_type =
        |name: &&str| name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
    names.filter(is_type).collect()
}
