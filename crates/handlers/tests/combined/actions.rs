//! The actions of a random test.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::model::SourceEnd;
use crate::pipelines::{ALL, ReadPlan, Sabotage};

#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Writes a message of this length, with a future or a completion on the loop.
    Write(usize, bool),
    /// Writes a source with chunks of these lengths, and gives this many of them.
    WriteSource(Vec<usize>, usize),
    Give(usize),
    EndSource(usize, SourceEnd),
    Cancel(usize),
    Flush,
    Room(usize),
    ShortWrites(usize),
    Pass(u32),
    Jump(u32),
    SetRate(Option<u64>),
    SetGroupRate(Option<u64>),
    Inbound(Vec<usize>),
    Plan(ReadPlan),
    AutoRead(bool),
    Read,
    /// Leaves the loop, and comes back.
    Deregister,
    Remove(usize),
    End(EndAction),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum EndAction {
    ShutdownOutput,
    FinishInbound,
    Close,
    Disconnect,
    Fail,
    FailWrite,
    Sabotage(Sabotage),
}

pub(crate) fn action() -> impl Strategy<Value = Action> {
    let rate = || prop::option::of(prop_oneof![Just(0), Just(1), Just(u64::MAX), 500u64..90_000]);
    let len = || prop_oneof![4 => 2usize..60, 1 => Just(0), 1 => 2usize..5_000];
    let end = prop_oneof![
        3 => Just(SourceEnd::Finish), 1 => Just(SourceEnd::Fail), 1 => Just(SourceEnd::Panic),
    ];
    let plan = prop_oneof![
        4 => any::<bool>().prop_map(ReadPlan::AutoRead),
        2 => Just(ReadPlan::Toggle),
        4 => Just(ReadPlan::Read),
        2 => Just(ReadPlan::Flush),
        3 => (2usize..400, 0..2usize).prop_map(|(len, again)| ReadPlan::Write(len, again)),
        1 => Just(ReadPlan::ShutdownOutput),
        1 => Just(ReadPlan::Close),
        1 => proptest::sample::select(ALL.to_vec()).prop_map(ReadPlan::Remove),
    ];
    prop_oneof![
        8 => (len(), any::<bool>()).prop_map(|(len, local)| Action::Write(len, local)),
        4 => (vec(len(), 0..6), 0..6usize).prop_map(|(lens, now)| Action::WriteSource(lens, now)),
        6 => (1..4usize).prop_map(Action::Give),
        4 => (any::<usize>(), end).prop_map(|(at, end)| Action::EndSource(at, end)),
        1 => any::<usize>().prop_map(Action::Cancel),
        8 => Just(Action::Flush),
        4 => prop_oneof![0..60usize, 1_000..20_000usize].prop_map(Action::Room),
        1 => (1..40usize).prop_map(Action::ShortWrites),
        6 => (1..60u32).prop_map(Action::Pass),
        1 => (100..9_000u32).prop_map(Action::Jump),
        2 => rate().prop_map(Action::SetRate),
        2 => rate().prop_map(Action::SetGroupRate),
        4 => vec(1..400usize, 1..4).prop_map(Action::Inbound),
        2 => plan.prop_map(Action::Plan),
        1 => any::<bool>().prop_map(Action::AutoRead),
        2 => Just(Action::Read),
        1 => Just(Action::Deregister),
        1 => any::<usize>().prop_map(Action::Remove),
        1 => prop_oneof![
            4 => Just(EndAction::ShutdownOutput),
            2 => Just(EndAction::FinishInbound),
            3 => Just(EndAction::Close),
            1 => Just(EndAction::Disconnect),
            1 => Just(EndAction::Fail),
            1 => Just(EndAction::FailWrite),
            1 => Just(EndAction::Sabotage(Sabotage::Panic)),
            1 => Just(EndAction::Sabotage(Sabotage::PanicLater)),
            1 => Just(EndAction::Sabotage(Sabotage::Abort)),
            1 => Just(EndAction::Sabotage(Sabotage::Close)),
            1 => Just(EndAction::Sabotage(Sabotage::RemoveItself)),
        ].prop_map(Action::End),
    ]
}

/// Limits that may end a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) has_hard_cap: bool,
    pub(crate) write_timeout: Duration,
}

pub(crate) fn limits() -> impl Strategy<Value = Limits> {
    let timeouts = prop_oneof![1 => Just(Duration::from_millis(300)), 3 => Just(Duration::from_secs(60)), 1 => Just(Duration::MAX)];
    (proptest::bool::weighted(0.2), timeouts)
        .prop_map(|(has_hard_cap, write_timeout)| Limits { has_hard_cap, write_timeout })
}
