//! The check that the message types of neighbours in a pipeline fit (C06).
//!
//! The check runs when a pipeline is assembled or edited, never when a message arrives. It follows the declared types
//! from the transport inward and from the writers outward, and reports a type that no handler can accept:
//!
//! ```text
//!  inbound   head ──Bytes──► lines ──Line──► app        `app` accepts Req but `lines` before it emits Line
//!  outbound  head ◄──Line── app                         the transport accepts Bytes but `app` emits Line
//! ```
//!
//! A handler that declares nothing may turn any type into any other: after it, nothing is known.

use std::fmt;

use super::signature::{Signature, TypeTag, Types};

/// The error of two neighbours whose message types do not fit.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{acceptor}` accepts {accepts} but `{emitter}` {side} it emits {emits}")]
pub struct TypeMismatch {
    /// The name of the handler that would receive the messages, or of the transport.
    pub acceptor: String,
    /// The types that the acceptor accepts.
    pub accepts: String,
    /// The name of the handler that emits the messages, or of the transport.
    pub emitter: String,
    /// The position of the emitter as seen from the acceptor: `before` or `after`.
    pub side: &'static str,
    /// The types that the emitter emits.
    pub emits: String,
}

/// The message types of a transport, at the head of a pipeline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransportTypes {
    pub(crate) name: &'static str,
    pub(crate) reads: Types,
    pub(crate) accepts: Types,
}

/// Checks the handlers of a pipeline, given from the first to the last.
pub(crate) fn check<'a>(
    transport: TransportTypes,
    handlers: impl DoubleEndedIterator<Item = (&'a dyn fmt::Display, Signature)> + Clone,
) -> Result<(), TypeMismatch> {
    check_inbound(transport, handlers.clone())?;
    check_outbound(transport, handlers.rev())
}

/// The types that are known to arrive at a handler, each with the name of its emitter.
type KnownTypes<'a> = Vec<(TypeTag, &'a dyn fmt::Display)>;

fn known_types<'a>(types: Types, from: &'a dyn fmt::Display) -> Option<KnownTypes<'a>> {
    match types {
        Types::Unknown => None,
        Types::These(types) => Some(types.iter().map(|tag| (*tag, from)).collect()),
    }
}

fn check_inbound<'a>(
    transport: TransportTypes,
    handlers: impl Iterator<Item = (&'a dyn fmt::Display, Signature)>,
) -> Result<(), TypeMismatch> {
    // After a handler that does not declare its accepted types, nothing is known.
    let mut handlers = handlers
        .map_while(|(name, signature)| match signature.inbound.accepts {
            Types::Unknown => None,
            Types::These(accepts) => Some((name, accepts, signature.inbound.emits)),
        })
        .peekable();
    if handlers.peek().is_none() {
        return Ok(());
    }
    let head = transport.name;
    let mut known = known_types(transport.reads, &head);
    for (name, accepts, emits) in handlers {
        let Some(mut types) = known else { return Ok(()) };
        if !accepts.is_empty() {
            let taken = types.iter().any(|(tag, _)| accepts.contains(tag));
            if let Some((_, emitter)) = types.last().filter(|_| !taken) {
                let emits = types.iter().map(|(tag, _)| *tag);
                return Err(mismatch(name, accepts, (*emitter, "before", emits.collect())));
            }
            types.retain(|(tag, _)| !accepts.contains(tag));
        }
        known = match emits {
            Types::Unknown => None,
            Types::These(emits) => {
                types.extend(emits.iter().map(|tag| (*tag, name)));
                Some(types)
            }
        };
    }
    Ok(())
}

/// Checks writes, from the last handler to the first. Any type may be written to a pipeline from its tail, so only the
/// types that handlers declare to write are followed: answers, and messages written in place of accepted ones.
fn check_outbound<'a>(
    transport: TransportTypes,
    handlers: impl Iterator<Item = (&'a dyn fmt::Display, Signature)>,
) -> Result<(), TypeMismatch> {
    let Types::These(accepted) = transport.accepts else { return Ok(()) };
    let mut known: KnownTypes<'a> = Vec::new();
    for (name, signature) in handlers {
        let emit = |known: &mut KnownTypes<'a>, types: Types| {
            if let Types::These(types) = types {
                known.extend(types.iter().map(|tag| (*tag, name)));
            }
        };
        match signature.outbound.accepts {
            // The handler may turn the known types into others.
            Types::Unknown => known.clear(),
            Types::These(accepts) => {
                known.retain(|(tag, _)| !accepts.contains(tag));
                emit(&mut known, signature.outbound.emits);
            }
        }
        emit(&mut known, signature.answers);
    }
    match known.iter().find(|(tag, _)| !accepted.contains(tag)) {
        Some((tag, emitter)) => {
            Err(mismatch(&transport.name, accepted, (*emitter, "after", vec![*tag])))
        }
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
    use crate::pipeline::message::Message;

    const STREAM: TransportTypes = TransportTypes {
        name: "stream",
        reads: Types::of::<Bytes>(),
        accepts: Types::of::<Bytes>(),
    };

    fn check_stream(handlers: &[(&'static str, Signature)]) -> Result<(), String> {
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
            check_stream(&[("dec", decoder::<String>()), ("enc", encoder::<u32>()), ("app", app)]),
            Ok(())
        );
        assert_eq!(check_stream(&[]), Ok(()));
    }

    #[test]
    fn c06_a_type_that_no_neighbour_emits_is_reported_with_both_names() {
        let wrong = check_stream(&[("lines", decoder::<String>()), ("app", reader::<u32>())]);
        assert_eq!(
            wrong.unwrap_err(),
            "`app` accepts u32 but `lines` before it emits alloc::string::String"
        );
        let wrong = check_stream(&[("app", reader::<u32>())]).unwrap_err();
        assert_eq!(wrong, "`app` accepts u32 but `stream` before it emits bytes::bytes::Bytes");
    }

    #[test]
    fn c06_an_answer_without_an_encoder_is_reported_with_the_transport() {
        let app = reader::<Bytes>().answers(TypeTag::list::<u32>());
        assert_eq!(
            check_stream(&[("app", app)]).unwrap_err(),
            "`stream` accepts bytes::bytes::Bytes but `app` after it emits u32"
        );
        // An encoder after the writer does not see the message.
        assert!(check_stream(&[("app", app), ("enc", encoder::<u32>())]).is_err());
    }

    #[test]
    fn c06_an_encoder_whose_output_the_transport_refuses_is_reported() {
        let text =
            Signature::transparent().outbound(TypeTag::list::<u32>(), TypeTag::list::<String>());
        assert_eq!(
            check_stream(&[("text", text)]).unwrap_err(),
            "`stream` accepts bytes::bytes::Bytes but `text` after it emits alloc::string::String"
        );
        assert_eq!(check_stream(&[("lines", encoder::<String>()), ("text", text)]), Ok(()));
        assert!(check_stream(&[("text", text), ("lines", encoder::<String>())]).is_err());
    }

    #[test]
    fn c06_types_that_are_not_accepted_pass_to_the_next_handler() {
        let both = Signature::transparent().inbound(
            TypeTag::list::<Bytes>(),
            const { &[TypeTag::of::<u32>(), TypeTag::of::<String>()] },
        );
        assert_eq!(
            check_stream(&[("both", both), ("a", reader::<u32>()), ("b", reader::<String>())]),
            Ok(())
        );
        assert!(
            check_stream(&[("both", both), ("a", reader::<u32>()), ("b", reader::<u32>())])
                .is_err()
        );
    }

    #[test]
    fn c06_after_a_handler_without_a_signature_no_type_is_known() {
        assert_eq!(check_stream(&[("any", Signature::any()), ("app", reader::<u32>())]), Ok(()));
        let app = reader::<Bytes>().answers(TypeTag::list::<u32>());
        assert_eq!(check_stream(&[("logged", Signature::any()), ("app", app)]), Ok(()));
        let logged = [("log", Signature::transparent()), ("app", app)];
        assert!(check_stream(&logged).is_err(), "a transparent handler hides nothing");
    }
}
