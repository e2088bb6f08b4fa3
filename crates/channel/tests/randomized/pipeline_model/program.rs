//! Programs: steps performed on a pipeline by the test, and scripts of its handlers.
//!
//! A handler's script has one reaction for each of its first few calls; after that the handler only passes
//! events on. Therefore every program ends.

use proptest::collection::vec;
use proptest::prelude::*;

/// Maximum number of handlers in a program: a handler that adds copies of itself would never end.
pub(crate) const MAX_HANDLERS: u32 = 10;

/// A pipeline and the steps performed on it.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Specifications of the handlers, those at the start and those added later.
    pub(crate) specs: Vec<HandlerSpec>,
    /// Handlers at the start, from the head to the tail.
    pub(crate) start: Vec<usize>,
    pub(crate) steps: Vec<ProgramStep>,
}

/// The specification of a handler.
#[derive(Clone, Debug)]
pub(crate) struct HandlerSpec {
    pub(crate) interest: Interest,
    /// Keeps the last inbound number until the next one arrives or the handler is removed, as a decoder keeps
    /// half a frame.
    pub(crate) keeps: bool,
    /// Holds writes back until a flush arrives or the handler is removed, if both concern it.
    pub(crate) holds: bool,
    pub(crate) script: Vec<Reaction>,
}

/// The events a handler is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Everything,
    Inbound,
    Outbound,
    Reads,
    Writes,
    Flushes,
}

/// The actions of a handler in one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reaction {
    pub(crate) before: Vec<Action>,
    pub(crate) after: Vec<Action>,
    pub(crate) end: CallEnd,
}

/// How a call ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CallEnd {
    #[default]
    Fine,
    /// The call fails after it passed its event on.
    Fails,
    /// The call fails; a write is not passed on.
    Refuses,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// Writes from the handler's position.
    Write,
    /// Writes from the tail, through the channel's handle.
    WriteByChannel,
    /// Writes from the tail, through the pipeline.
    WriteByPipeline,
    Flush,
    FlushByChannel,
    FireOnward,
    /// Fires from the head, through handlers that may be running.
    FireFromHead,
    Edit(Edit),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Edit {
    AddFirst(usize),
    AddBefore(EditTarget, usize),
    AddAfter(EditTarget, usize),
    Remove(EditTarget),
    Replace(EditTarget, usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum EditTarget {
    /// The handler that makes the edit; for the test, the first one.
    Me,
    /// The handler at this index, modulo their number.
    Nth(usize),
}

/// A step performed by the test.
#[derive(Clone, Debug)]
pub(crate) enum ProgramStep {
    /// This many numbers arrive in one read round.
    Arrive(u32),
    Write,
    Flush,
    Fire,
    Edit(Edit),
    /// The wire accepts this many messages and no more, until `Free`.
    Jam(usize),
    Free,
}

pub(crate) fn program() -> impl Strategy<Value = Program> {
    (vec(spec(), 1..4), vec(0..4usize, 0..5), vec(step(), 1..10))
        .prop_map(|(specs, start, steps)| Program { specs, start, steps })
}

fn spec() -> impl Strategy<Value = HandlerSpec> {
    let interest = prop_oneof![
        3 => Just(Interest::Everything),
        1 => Just(Interest::Inbound),
        1 => Just(Interest::Outbound),
        1 => Just(Interest::Reads),
        1 => Just(Interest::Writes),
        1 => Just(Interest::Flushes),
    ];
    let (keeps, holds) = (prop::bool::weighted(0.3), prop::bool::weighted(0.2));
    (interest, keeps, holds, vec(reaction(), 0..4))
        .prop_map(|(interest, keeps, holds, script)| HandlerSpec { interest, keeps, holds, script })
}

fn reaction() -> impl Strategy<Value = Reaction> {
    let end = prop_oneof![6 => Just(CallEnd::Fine), 1 => Just(CallEnd::Fails), 1 => Just(CallEnd::Refuses)];
    (vec(act(), 0..3), vec(act(), 0..3), end).prop_map(|(before, after, end)| Reaction {
        before,
        after,
        end,
    })
}

fn act() -> impl Strategy<Value = Action> {
    prop_oneof![
        2 => Just(Action::Write),
        2 => Just(Action::WriteByChannel),
        2 => Just(Action::WriteByPipeline),
        1 => Just(Action::Flush),
        1 => Just(Action::FlushByChannel),
        1 => Just(Action::FireOnward),
        2 => Just(Action::FireFromHead),
        5 => edit().prop_map(Action::Edit),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    let target = || prop_oneof![Just(EditTarget::Me), (0..6usize).prop_map(EditTarget::Nth)];
    prop_oneof![
        1 => (0..4usize).prop_map(Edit::AddFirst),
        1 => (target(), 0..4usize).prop_map(|(at, spec)| Edit::AddBefore(at, spec)),
        1 => (target(), 0..4usize).prop_map(|(at, spec)| Edit::AddAfter(at, spec)),
        2 => target().prop_map(Edit::Remove),
        2 => (target(), 0..4usize).prop_map(|(at, spec)| Edit::Replace(at, spec)),
    ]
}

fn step() -> impl Strategy<Value = ProgramStep> {
    prop_oneof![
        4 => (1..4u32).prop_map(ProgramStep::Arrive),
        2 => Just(ProgramStep::Write),
        2 => Just(ProgramStep::Flush),
        2 => Just(ProgramStep::Fire),
        2 => edit().prop_map(ProgramStep::Edit),
        1 => (0..3usize).prop_map(ProgramStep::Jam),
        1 => Just(ProgramStep::Free),
    ]
}
