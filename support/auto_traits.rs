//! Checks `Send`, `Sync` and `Unpin` of every public type of a crate.
//!
//! A type can gain or lose an auto trait without a change to its own lines, which changes the API. A test that
//! lists every type with its auto traits fails then, and also when a public type is not listed.

use std::collections::BTreeSet;
use std::marker::PhantomData;

/// Detects whether a type is `Send`, `Sync`, `Unpin`: the inherent constant exists only if the type is, and then hides
/// the constant of the trait.
pub(crate) struct AutoTraits<T: ?Sized>(PhantomData<T>);

#[allow(dead_code, reason = "unused by a list in which every type has all auto traits")]
pub(crate) trait NotImplemented {
    const SEND: bool = false;
    const SYNC: bool = false;
    const UNPIN: bool = false;
}

impl<T: ?Sized> NotImplemented for AutoTraits<T> {}

impl<T: ?Sized + Send> AutoTraits<T> {
    pub(crate) const SEND: bool = true;
}

impl<T: ?Sized + Sync> AutoTraits<T> {
    pub(crate) const SYNC: bool = true;
}

impl<T: ?Sized + Unpin> AutoTraits<T> {
    pub(crate) const UNPIN: bool = true;
}

/// Builds an entry of the list: the type, the expected auto traits, the actual ones.
macro_rules! is {
    ($ty:ty: $send:literal $sync:literal $unpin:literal) => {{
        let found = (<AutoTraits<$ty>>::SEND, <AutoTraits<$ty>>::SYNC, <AutoTraits<$ty>>::UNPIN);
        (stringify!($ty), ($send, $sync, $unpin), found)
    }};
}
pub(crate) use is;

/// An entry of the list: the type, the expected `Send`, `Sync`, `Unpin`, and the actual ones.
pub(crate) type TypeEntry = (&'static str, (bool, bool, bool), (bool, bool, bool));

/// Panics if an entry is wrong, or if the list is not exactly the public types: those re-exported in `sources`, plus
/// `others`.
pub(crate) fn check(listed: &[TypeEntry], sources: &[&'static str], others: &[&'static str]) {
    let changed: Vec<_> = listed.iter().filter(|(_, expected, found)| expected != found).collect();
    assert!(changed.is_empty(), "(type, listed Send Sync Unpin, found): {changed:#?}");

    let listed: BTreeSet<_> = listed.iter().map(|(ty, ..)| base_name(ty)).collect();
    let exported = sources.iter().flat_map(|source| exported_types(source));
    let public: BTreeSet<_> = exported.chain(others.iter().copied()).collect();
    assert_eq!(listed, public, "left: listed here, right: exported");
}

/// Returns the type's name without `dyn` and generics: `dyn Work<X>` is `Work`.
fn base_name(ty: &str) -> &str {
    let name = ty.trim_start_matches("dyn ");
    name.split(['<', ' ']).next().unwrap_or(name)
}

/// Returns the names of the types and traits that the crate re-exports, without constants and functions.
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
