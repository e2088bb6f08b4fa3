//! The types of messages a handler takes and gives, as far as it says so. Whether neighbours fit is checked
//! in `type_check`.

use std::any::TypeId;
use std::fmt;

use crate::pipeline::message::Message;

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
    pub(super) inbound: MessageFlow,
    pub(super) outbound: MessageFlow,
    pub(super) answers: Types,
}

/// What becomes of messages in one direction: those it accepts turn into those it emits; any other
/// passes through.
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
    /// Nothing is known of it.
    #[must_use]
    pub const fn any() -> Self {
        Self { inbound: MessageFlow::ANY, outbound: MessageFlow::ANY, answers: Types::Unknown }
    }

    /// True if nothing is known of it: the same as a comparison with [`any`](Self::any), without one of lists.
    pub(crate) fn is_any(&self) -> bool {
        let types = [self.inbound.accepts, self.inbound.emits, self.answers];
        let outbound = [self.outbound.accepts, self.outbound.emits];
        types.iter().chain(&outbound).all(|types| matches!(types, Types::Unknown))
    }

    /// Passes every message on as it is, and writes none of its own.
    #[must_use]
    pub const fn transparent() -> Self {
        Self { inbound: MessageFlow::PASS, outbound: MessageFlow::PASS, answers: Types::NONE }
    }

    /// Of what comes in it takes these, and gives those; the rest passes.
    #[must_use]
    pub const fn inbound(mut self, accepts: &'static [TypeTag], emits: &'static [TypeTag]) -> Self {
        self.inbound = MessageFlow { accepts: Types::These(accepts), emits: Types::These(emits) };
        self
    }

    /// Of what comes in it takes these; what it gives is not known.
    #[must_use]
    pub const fn reads(mut self, accepts: &'static [TypeTag]) -> Self {
        self.inbound = MessageFlow { accepts: Types::These(accepts), emits: Types::Unknown };
        self
    }

    /// Of what goes out it takes these, and gives those; the rest passes.
    #[must_use]
    pub const fn outbound(
        mut self,
        accepts: &'static [TypeTag],
        emits: &'static [TypeTag],
    ) -> Self {
        self.outbound = MessageFlow { accepts: Types::These(accepts), emits: Types::These(emits) };
        self
    }

    /// Of what goes out it takes these; what it gives is not known.
    #[must_use]
    pub const fn writes(mut self, accepts: &'static [TypeTag]) -> Self {
        self.outbound = MessageFlow { accepts: Types::These(accepts), emits: Types::Unknown };
        self
    }

    /// Of a handler of the inbound direction alone.
    pub(crate) const fn of_inbound(
        accepts: &'static [TypeTag],
        emits: Types,
        answers: Types,
    ) -> Self {
        let inbound = MessageFlow { accepts: Types::These(accepts), emits };
        Self { inbound, outbound: MessageFlow::PASS, answers }
    }

    /// Of a handler of the outbound direction alone.
    pub(crate) const fn of_outbound(accepts: &'static [TypeTag], emits: Types) -> Self {
        let outbound = MessageFlow { accepts: Types::These(accepts), emits };
        Self { inbound: MessageFlow::PASS, outbound, answers: Types::NONE }
    }

    /// It writes these of its own accord.
    #[must_use]
    pub const fn answers(mut self, types: &'static [TypeTag]) -> Self {
        self.answers = Types::These(types);
        self
    }
}
