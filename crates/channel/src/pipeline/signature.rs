//! The types of messages a handler takes and gives, and whether neighbours fit (C06).
//!
//! The check runs when a pipeline is assembled or changed, never when a message arrives. It follows
//! what is known to flow, from the transport inward and from the writers outward, and complains where
//! something known can never be right:
//!
//! ```text
//!  inbound   head ──Bytes──► lines ──Line──► app        `app` accepts Req but `lines` before it emits Line
//!  outbound  head ◄──Line── app                         the transport accepts Bytes but `app` emits Line
//! ```
//!
//! A handler that says nothing may turn anything into anything: after it, nothing is known.

use std::any::TypeId;
use std::fmt;

use super::message::Message;

/// A type of message, with its name.
#[derive(Clone, Copy)]
pub struct TypeTag {
    id: fn() -> TypeId,
    name: fn() -> &'static str,
}

impl TypeTag {
    /// The tag of `T`.
    #[must_use]
    pub const fn of<T: Message>() -> Self {
        Self { id: TypeId::of::<T>, name: std::any::type_name::<T> }
    }

    /// The tag of a type that need not be a message.
    pub(crate) const fn of_any<T: 'static>() -> &'static TypeTag {
        const { &TypeTag { id: TypeId::of::<T>, name: std::any::type_name::<T> } }
    }

    /// A list of `T` alone.
    #[must_use]
    pub const fn list<T: Message>() -> &'static [TypeTag] {
        const { &[TypeTag::of::<T>()] }
    }

    /// The name of the type.
    #[must_use]
    pub fn name(self) -> &'static str {
        (self.name)()
    }

    pub(crate) fn id(self) -> TypeId {
        (self.id)()
    }
}

impl PartialEq for TypeTag {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for TypeTag {}

impl fmt::Debug for TypeTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Types of messages, as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Types {
    /// It could be anything.
    Unknown,
    /// These and no others.
    These(&'static [TypeTag]),
}

impl Types {
    /// None at all.
    pub const NONE: Types = Types::These(&[]);

    /// A list of `T` alone.
    #[must_use]
    pub const fn of<T: Message>() -> Self {
        Types::These(TypeTag::list::<T>())
    }

    /// Whether it could be one of these.
    pub(crate) fn include(self, id: TypeId) -> bool {
        match self {
            Types::Unknown => true,
            Types::These(types) => types.iter().any(|tag| tag.id() == id),
        }
    }
}

/// The types of messages a handler takes and gives, in both directions.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_channel::{Signature, TypeTag};
///
/// // Reads bytes, passes strings on inward, and writes strings of its own.
/// let signature = Signature::transparent()
///     .inbound(TypeTag::list::<Bytes>(), TypeTag::list::<String>())
///     .answers(TypeTag::list::<String>());
/// assert_ne!(signature, Signature::any());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    inbound: Flow,
    outbound: Flow,
    answers: Types,
}

/// What becomes of messages in one direction: those it accepts turn into those it emits; any other
/// passes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flow {
    accepts: Types,
    emits: Types,
}

impl Flow {
    const ANY: Flow = Flow { accepts: Types::Unknown, emits: Types::Unknown };
    const PASS: Flow = Flow { accepts: Types::NONE, emits: Types::NONE };
}

impl Signature {
    /// Nothing is known of it.
    #[must_use]
    pub const fn any() -> Self {
        Self { inbound: Flow::ANY, outbound: Flow::ANY, answers: Types::Unknown }
    }

    /// Passes every message on as it is, and writes none of its own.
    #[must_use]
    pub const fn transparent() -> Self {
        Self { inbound: Flow::PASS, outbound: Flow::PASS, answers: Types::NONE }
    }

    /// Of what comes in it takes these, and gives those; the rest passes.
    #[must_use]
    pub const fn inbound(mut self, accepts: &'static [TypeTag], emits: &'static [TypeTag]) -> Self {
        self.inbound = Flow { accepts: Types::These(accepts), emits: Types::These(emits) };
        self
    }

    /// Of what comes in it takes these; what it gives is not known.
    #[must_use]
    pub const fn reads(mut self, accepts: &'static [TypeTag]) -> Self {
        self.inbound = Flow { accepts: Types::These(accepts), emits: Types::Unknown };
        self
    }

    /// Of what goes out it takes these, and gives those; the rest passes.
    #[must_use]
    pub const fn outbound(
        mut self,
        accepts: &'static [TypeTag],
        emits: &'static [TypeTag],
    ) -> Self {
        self.outbound = Flow { accepts: Types::These(accepts), emits: Types::These(emits) };
        self
    }

    /// Of what goes out it takes these; what it gives is not known.
    #[must_use]
    pub const fn writes(mut self, accepts: &'static [TypeTag]) -> Self {
        self.outbound = Flow { accepts: Types::These(accepts), emits: Types::Unknown };
        self
    }

    /// Of a handler of the inbound direction alone.
    pub(crate) const fn of_inbound(
        accepts: &'static [TypeTag],
        emits: Types,
        answers: Types,
    ) -> Self {
        let inbound = Flow { accepts: Types::These(accepts), emits };
        Self { inbound, outbound: Flow::PASS, answers }
    }

    /// Of a handler of the outbound direction alone.
    pub(crate) const fn of_outbound(accepts: &'static [TypeTag], emits: Types) -> Self {
        let outbound = Flow { accepts: Types::These(accepts), emits };
        Self { inbound: Flow::PASS, outbound, answers: Types::NONE }
    }

    /// It writes these of its own accord.
    #[must_use]
    pub const fn answers(mut self, types: &'static [TypeTag]) -> Self {
        self.answers = Types::These(types);
        self
    }
}

/// Two neighbours do not fit.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{acceptor}` accepts {accepts} but `{emitter}` {side} it emits {emits}")]
pub struct TypeMismatch {
    /// Who would get the messages.
    pub acceptor: String,
    /// What it takes.
    pub accepts: String,
    /// Who would give them.
    pub emitter: String,
    /// Where that is, as seen from the acceptor: `before` or `after`.
    pub side: &'static str,
    /// What it gives.
    pub emits: String,
}

/// The transport's end of a pipeline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) name: &'static str,
    pub(crate) reads: Types,
    pub(crate) accepts: Types,
}

/// Checks a pipeline, from its first handler to its last.
pub(crate) fn check<'a>(
    ends: Ends,
    handlers: impl DoubleEndedIterator<Item = (&'a dyn fmt::Display, Signature)> + Clone,
) -> Result<(), TypeMismatch> {
    check_inbound(ends, handlers.clone())?;
    check_outbound(ends, handlers.rev())
}

/// A type that flows, and who let it.
type Flowing<'a> = Vec<(TypeTag, &'a dyn fmt::Display)>;

fn flowing<'a>(types: Types, from: &'a dyn fmt::Display) -> Option<Flowing<'a>> {
    match types {
        Types::Unknown => None,
        Types::These(types) => Some(types.iter().map(|tag| (*tag, from)).collect()),
    }
}

fn check_inbound<'a>(
    ends: Ends,
    handlers: impl Iterator<Item = (&'a dyn fmt::Display, Signature)>,
) -> Result<(), TypeMismatch> {
    let head = ends.name;
    let mut known = flowing(ends.reads, &head);
    for (name, signature) in handlers {
        let Types::These(accepts) = signature.inbound.accepts else {
            known = None;
            continue;
        };
        let Some(mut types) = known else { continue };
        if !accepts.is_empty() {
            let taken = types.iter().any(|(tag, _)| accepts.contains(tag));
            if let Some((_, emitter)) = types.last().filter(|_| !taken) {
                let emits = types.iter().map(|(tag, _)| *tag);
                return Err(mismatch(name, accepts, (*emitter, "before", emits.collect())));
            }
            types.retain(|(tag, _)| !accepts.contains(tag));
        }
        known = match signature.inbound.emits {
            Types::Unknown => None,
            Types::These(emits) => {
                types.extend(emits.iter().map(|tag| (*tag, name)));
                Some(types)
            }
        };
    }
    Ok(())
}

/// From the last handler to the first. Anybody may write anything into a pipeline from its end, so
/// only what its handlers say they write is followed.
fn check_outbound<'a>(
    ends: Ends,
    handlers: impl Iterator<Item = (&'a dyn fmt::Display, Signature)>,
) -> Result<(), TypeMismatch> {
    let Types::These(takes) = ends.accepts else { return Ok(()) };
    let mut known: Flowing<'a> = Vec::new();
    for (name, signature) in handlers {
        let emit = |known: &mut Flowing<'a>, types: Types| {
            if let Types::These(types) = types {
                known.extend(types.iter().map(|tag| (*tag, name)));
            }
        };
        match signature.outbound.accepts {
            // Whatever was on its way may be something else now.
            Types::Unknown => known.clear(),
            Types::These(accepts) if known.iter().any(|(tag, _)| accepts.contains(tag)) => {
                known.retain(|(tag, _)| !accepts.contains(tag));
                emit(&mut known, signature.outbound.emits);
            }
            Types::These(_) => {}
        }
        emit(&mut known, signature.answers);
    }
    match known.iter().find(|(tag, _)| !takes.contains(tag)) {
        Some((tag, emitter)) => Err(mismatch(&ends.name, takes, (*emitter, "after", vec![*tag]))),
        None => Ok(()),
    }
}

fn mismatch(
    acceptor: &dyn fmt::Display,
    accepts: &[TypeTag],
    (emitter, side, emits): (&dyn fmt::Display, &'static str, Vec<TypeTag>),
) -> TypeMismatch {
    TypeMismatch {
        acceptor: acceptor.to_string(),
        accepts: names(accepts),
        emitter: emitter.to_string(),
        side,
        emits: names(&emits),
    }
}

fn names(tags: &[TypeTag]) -> String {
    tags.iter().map(|tag| tag.name()).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const STREAM: Ends =
        Ends { name: "stream", reads: Types::of::<Bytes>(), accepts: Types::of::<Bytes>() };

    fn checked(handlers: &[(&'static str, Signature)]) -> Result<(), String> {
        let named =
            handlers.iter().map(|(name, signature)| (name as &dyn fmt::Display, *signature));
        check(STREAM, named).map_err(|error| error.to_string())
    }

    fn decoder<T: Message>() -> Signature {
        Signature::transparent().inbound(TypeTag::list::<Bytes>(), TypeTag::list::<T>())
    }

    fn encoder<T: Message>() -> Signature {
        Signature::transparent().outbound(TypeTag::list::<T>(), TypeTag::list::<Bytes>())
    }

    fn reader<T: Message>() -> Signature {
        Signature::transparent().inbound(TypeTag::list::<T>(), &[])
    }

    #[test]
    fn c06_neighbours_that_fit_pass() {
        let app = reader::<String>().answers(TypeTag::list::<u32>());
        assert_eq!(
            checked(&[("dec", decoder::<String>()), ("enc", encoder::<u32>()), ("app", app)]),
            Ok(())
        );
        assert_eq!(checked(&[]), Ok(()));
    }

    #[test]
    fn c06_a_reader_of_what_nobody_emits_is_named_with_its_neighbour() {
        let wrong = checked(&[("lines", decoder::<String>()), ("app", reader::<u32>())]);
        assert_eq!(
            wrong.unwrap_err(),
            "`app` accepts u32 but `lines` before it emits alloc::string::String"
        );
        let wrong = checked(&[("app", reader::<u32>())]).unwrap_err();
        assert_eq!(wrong, "`app` accepts u32 but `stream` before it emits bytes::bytes::Bytes");
    }

    #[test]
    fn c06_an_answer_that_nobody_encodes_is_named_with_the_transport() {
        let app = reader::<Bytes>().answers(TypeTag::list::<u32>());
        assert_eq!(
            checked(&[("app", app)]).unwrap_err(),
            "`stream` accepts bytes::bytes::Bytes but `app` after it emits u32"
        );
        // An encoder behind the writer does not see what it writes.
        assert!(checked(&[("app", app), ("enc", encoder::<u32>())]).is_err());
    }

    #[test]
    fn c06_what_is_not_accepted_passes_on_to_the_next() {
        let both = Signature::transparent().inbound(
            TypeTag::list::<Bytes>(),
            const { &[TypeTag::of::<u32>(), TypeTag::of::<String>()] },
        );
        assert_eq!(
            checked(&[("both", both), ("a", reader::<u32>()), ("b", reader::<String>())]),
            Ok(())
        );
        assert!(
            checked(&[("both", both), ("a", reader::<u32>()), ("b", reader::<u32>())]).is_err()
        );
    }

    #[test]
    fn c06_after_a_handler_that_says_nothing_nothing_is_known() {
        assert_eq!(checked(&[("any", Signature::any()), ("app", reader::<u32>())]), Ok(()));
        let app = reader::<Bytes>().answers(TypeTag::list::<u32>());
        assert_eq!(checked(&[("logged", Signature::any()), ("app", app)]), Ok(()));
        let logged = [("log", Signature::transparent()), ("app", app)];
        assert!(checked(&logged).is_err(), "a transparent handler hides nothing");
    }
}
