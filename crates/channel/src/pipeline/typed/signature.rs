//! Signatures: the message types that a handler declares to accept and to emit. `type_check` checks that neighbours
//! fit.

use std::any::TypeId;
use std::fmt;

use crate::pipeline::message::Message;

/// Identifies a message type, with its name.
#[derive(Clone, Copy)]
pub struct TypeTag {
    id: fn() -> TypeId,
    name: fn() -> &'static str,
}

impl TypeTag {
    /// Returns the tag of `T`.
    #[must_use]
    pub const fn of<T: Message>() -> Self {
        Self { id: TypeId::of::<T>, name: std::any::type_name::<T> }
    }

    /// Returns the tag of a type that need not be a message.
    pub(crate) const fn of_any<T: 'static>() -> &'static TypeTag {
        const { &TypeTag { id: TypeId::of::<T>, name: std::any::type_name::<T> } }
    }

    /// Returns a list of `T` alone.
    #[must_use]
    pub const fn list<T: Message>() -> &'static [TypeTag] {
        const { &[TypeTag::of::<T>()] }
    }

    /// Returns the name of the type.
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

/// A set of message types, if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Types {
    /// Any type is possible.
    Unknown,
    /// Only these types.
    These(&'static [TypeTag]),
}

impl Types {
    /// No type.
    pub const NONE: Types = Types::These(&[]);

    /// Returns the set of `T` alone.
    #[must_use]
    pub const fn of<T: Message>() -> Self {
        Types::These(TypeTag::list::<T>())
    }

    /// True if the type is in the set, or the set is unknown.
    pub(crate) fn may_contain(self, id: TypeId) -> bool {
        match self {
            Types::Unknown => true,
            Types::These(types) => types.iter().any(|tag| tag.id() == id),
        }
    }
}

/// The message types that a handler accepts and emits, in both directions. Declared in
/// [`Handler::signature`](crate::Handler::signature) and checked when a pipeline is assembled.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_channel::{Signature, TypeTag};
///
/// // Reads bytes, fires strings inward, and writes strings of its own.
/// let signature = Signature::transparent()
///     .inbound(TypeTag::list::<Bytes>(), TypeTag::list::<String>())
///     .answers(TypeTag::list::<String>());
/// assert_ne!(signature, Signature::any());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    pub(super) inbound: MessageFlow,
    pub(super) outbound: MessageFlow,
    pub(super) answers: Types,
}

/// How a handler treats messages of one direction: it turns accepted messages into emitted ones, and forwards all
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageFlow {
    pub(super) accepts: Types,
    pub(super) emits: Types,
}

impl MessageFlow {
    const ANY: MessageFlow = MessageFlow { accepts: Types::Unknown, emits: Types::Unknown };
    const PASS: MessageFlow = MessageFlow { accepts: Types::NONE, emits: Types::NONE };
}

impl Signature {
    /// Returns the signature of a handler that declares nothing.
    #[must_use]
    pub const fn any() -> Self {
        Self { inbound: MessageFlow::ANY, outbound: MessageFlow::ANY, answers: Types::Unknown }
    }

    /// True if the handler declares nothing. Equal to a comparison with [`any`](Self::any), but compares no lists.
    pub(crate) fn is_any(&self) -> bool {
        let types = [self.inbound.accepts, self.inbound.emits, self.answers];
        let outbound = [self.outbound.accepts, self.outbound.emits];
        types.iter().chain(&outbound).all(|types| matches!(types, Types::Unknown))
    }

    /// Returns the signature of a handler that forwards every message unchanged and writes none of its
    /// own.
    #[must_use]
    pub const fn transparent() -> Self {
        Self { inbound: MessageFlow::PASS, outbound: MessageFlow::PASS, answers: Types::NONE }
    }

    /// Declares that the handler reads messages of the types `accepts` and fires the types `emits` in their place;
    /// messages of other types are forwarded.
    #[must_use]
    pub const fn inbound(mut self, accepts: &'static [TypeTag], emits: &'static [TypeTag]) -> Self {
        self.inbound = MessageFlow { accepts: Types::These(accepts), emits: Types::These(emits) };
        self
    }

    /// Declares that the handler reads messages of the types `accepts`; the types that it fires are unknown.
    #[must_use]
    pub const fn reads(mut self, accepts: &'static [TypeTag]) -> Self {
        self.inbound = MessageFlow { accepts: Types::These(accepts), emits: Types::Unknown };
        self
    }

    /// Declares that the handler takes written messages of the types `accepts` and writes the types `emits` in
    /// their place; messages of other types are forwarded.
    #[must_use]
    pub const fn outbound(
        mut self,
        accepts: &'static [TypeTag],
        emits: &'static [TypeTag],
    ) -> Self {
        self.outbound = MessageFlow { accepts: Types::These(accepts), emits: Types::These(emits) };
        self
    }

    /// Declares that the handler takes written messages of the types `accepts`; the types that it writes are unknown.
    #[must_use]
    pub const fn writes(mut self, accepts: &'static [TypeTag]) -> Self {
        self.outbound = MessageFlow { accepts: Types::These(accepts), emits: Types::Unknown };
        self
    }

    /// Returns the signature of an inbound handler, which forwards all writes.
    pub(crate) const fn of_inbound(
        accepts: &'static [TypeTag],
        emits: Types,
        answers: Types,
    ) -> Self {
        let inbound = MessageFlow { accepts: Types::These(accepts), emits };
        Self { inbound, outbound: MessageFlow::PASS, answers }
    }

    /// Returns the signature of an outbound handler, which forwards all reads and answers none.
    pub(crate) const fn of_outbound(accepts: &'static [TypeTag], emits: Types) -> Self {
        let outbound = MessageFlow { accepts: Types::These(accepts), emits };
        Self { inbound: MessageFlow::PASS, outbound, answers: Types::NONE }
    }

    /// Declares the types of the messages that the handler writes on its own, for example as answers.
    #[must_use]
    pub const fn answers(mut self, types: &'static [TypeTag]) -> Self {
        self.answers = Types::These(types);
        self
    }
}
