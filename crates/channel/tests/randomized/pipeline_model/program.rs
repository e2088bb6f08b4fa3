//! What is done to a pipeline: a program of steps from outside, and what its handlers do themselves.
//!
//! A handler's script has one reaction for each of its first few calls; after that it only passes
//! things on. So every program ends.

use proptest::collection::vec;
use proptest::prelude::*;

/// No more handlers than this are ever made: one that adds its like would never end.
pub(crate) const MOST_HANDLERS: u32 = 10;

/// A pipeline, and what happens to it.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// What handlers are made of, those at the start and those that are added later.
    pub(crate) specs: Vec<Spec>,
    /// The handlers at the start, from the transport inward.
    pub(crate) start: Vec<usize>,
    pub(crate) steps: Vec<Step>,
}

/// What a handler is like.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) interest: Interest,
    /// Keeps the last number that came in until the next one comes, or it is removed: as a decoder
    /// keeps half a frame.
    pub(crate) keeps: bool,
    pub(crate) script: Vec<Reaction>,
}

/// What a handler is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Everything,
    Inbound,
    Outbound,
}

/// What a handler does in one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reaction {
    pub(crate) before: Vec<Act>,
    pub(crate) after: Vec<Act>,
    pub(crate) end: End,
}

/// How a call ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    #[default]
    Fine,
    /// It fails, after what came was passed on.
    Fails,
    /// It fails; a write is not passed on.
    Refuses,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// From the handler on.
    Write,
    /// From the end of the pipeline, by the channel's handle.
    WriteByChannel,
    /// From the end of the pipeline, by the pipeline.
    WriteByPipeline,
    Flush,
    FlushByChannel,
    FireOnward,
    /// From the head: past, or into, handlers that run at this moment.
    FireFromHead,
    Edit(Edit),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Edit {
    AddFirst(usize),
    AddBefore(Target, usize),
    AddAfter(Target, usize),
    Remove(Target),
    Replace(Target, usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// Whoever does it; from outside, the first one.
    Me,
    /// The so-manieth, counted around.
    Nth(usize),
}

/// What happens from outside.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// So many numbers come in, as one round.
    Arrive(u32),
    Write,
    Flush,
    Fire,
    Edit(Edit),
    /// The wire takes so many messages and no more, until it is freed.
    Jam(usize),
    Free,
}

pub(crate) fn program() -> impl Strategy<Value = Program> {
    (vec(spec(), 1..4), vec(0..4usize, 0..5), vec(step(), 1..10))
        .prop_map(|(specs, start, steps)| Program { specs, start, steps })
}

fn spec() -> impl Strategy<Value = Spec> {
    let interest = prop_oneof![
        3 => Just(Interest::Everything),
        1 => Just(Interest::Inbound),
        1 => Just(Interest::Outbound),
    ];
    (interest, prop::bool::weighted(0.3), vec(reaction(), 0..4))
        .prop_map(|(interest, keeps, script)| Spec { interest, keeps, script })
}

fn reaction() -> impl Strategy<Value = Reaction> {
    let end = prop_oneof![6 => Just(End::Fine), 1 => Just(End::Fails), 1 => Just(End::Refuses)];
    (vec(act(), 0..3), vec(act(), 0..3), end).prop_map(|(before, after, end)| Reaction {
        before,
        after,
        end,
    })
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => Just(Act::Write),
        2 => Just(Act::WriteByChannel),
        2 => Just(Act::WriteByPipeline),
        1 => Just(Act::Flush),
        1 => Just(Act::FlushByChannel),
        1 => Just(Act::FireOnward),
        2 => Just(Act::FireFromHead),
        5 => edit().prop_map(Act::Edit),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    let target = || prop_oneof![Just(Target::Me), (0..6usize).prop_map(Target::Nth)];
    prop_oneof![
        1 => (0..4usize).prop_map(Edit::AddFirst),
        1 => (target(), 0..4usize).prop_map(|(at, spec)| Edit::AddBefore(at, spec)),
        1 => (target(), 0..4usize).prop_map(|(at, spec)| Edit::AddAfter(at, spec)),
        2 => target().prop_map(Edit::Remove),
        2 => (target(), 0..4usize).prop_map(|(at, spec)| Edit::Replace(at, spec)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..4u32).prop_map(Step::Arrive),
        2 => Just(Step::Write),
        2 => Just(Step::Flush),
        2 => Just(Step::Fire),
        2 => edit().prop_map(Step::Edit),
        1 => (0..3usize).prop_map(Step::Jam),
        1 => Just(Step::Free),
    ]
}
