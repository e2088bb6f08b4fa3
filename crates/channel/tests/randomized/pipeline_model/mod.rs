//! C03, C05: random edits of a pipeline, by the test and by its own handlers, while data flows both ways.
//!
//! Each program runs twice: over a real pipeline and over a model of the ordering rules. Both must call the
//! same handlers with the same events in the same order. Invariants of every program are checked too:
//! nothing is lost, duplicated or completed twice.

mod handler_script;
mod model;
mod program;
mod real_pipeline;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use self::handler_script::{Event, LogEntry};
use self::model::{Model, SINK};
use self::program::{Program, ProgramStep, program};
use self::real_pipeline::{Answer, Outcome};

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn c05_random_edits_lose_duplicate_and_reorder_nothing(program in program()) {
        let outcome = real_pipeline::run(&program);
        check_outbound(&outcome)?;
        check_handlers(&outcome)?;

        let mut model = Model::new(&program);
        program.steps.iter().for_each(|step| model.step(step));
        (0..outcome.flushes).for_each(|_| model.step(&ProgramStep::Flush));
        model.close();
        check_inbound(&program, &outcome, model.overtaken)?;
        prop_assert_eq!(&outcome.log, &model.log);
        prop_assert_eq!(&outcome.left, &model.left);
        prop_assert_eq!(&outcome.tail, &model.tail);
    }
}

/// Checks that every inbound number arrived once and in order; out of order only where a handler was
/// removed while it held a number.
fn check_inbound(
    program: &Program,
    outcome: &Outcome,
    overtaken: bool,
) -> Result<(), TestCaseError> {
    let arrived = program.steps.iter().map(|step| match step {
        ProgramStep::Arrive(count) => *count,
        _ => 0,
    });
    let sent: Vec<u32> = (1..=arrived.sum()).collect();
    let to_sink = outcome.log.iter().filter_map(|entry| match entry {
        LogEntry::Got(SINK, Event::Read(number)) => Some(*number),
        _ => None,
    });
    let mut came: Vec<u32> = to_sink.chain(outcome.tail.iter().copied()).collect();
    if overtaken {
        came.sort_unstable();
    }
    prop_assert_eq!(came, sent);
    Ok(())
}

/// Checks that every written number was sent once and its write succeeded, or was refused and its write
/// failed, and that nothing is pending. Completions given with the write were called in the order of sending.
fn check_outbound(outcome: &Outcome) -> Result<(), TestCaseError> {
    let told: BTreeMap<u32, &Answer> =
        outcome.told.iter().map(|answer| (answer.number, answer)).collect();
    prop_assert_eq!(told.len(), outcome.told.len(), "completed twice: {:?}", outcome.told);
    prop_assert!(told.keys().copied().eq(1..=outcome.written), "not completed: {:?}", outcome.told);
    let fine = told.values().filter(|answer| answer.fine).count();
    prop_assert_eq!(fine, outcome.left.len(), "{:?}", outcome);
    let in_turn = |answer: &Answer| answer.fine && answer.in_turn;
    let left = outcome.left.iter().filter(|number| in_turn(told[number]));
    let answers = outcome.told.iter().filter(|answer| in_turn(answer));
    prop_assert!(left.eq(answers.map(|answer| &answer.number)), "{:?}", outcome);
    prop_assert_eq!((outcome.pending_before_close, outcome.pending), (0, 0));
    Ok(())
}

/// Checks that every handler was added once, called only while present, and removed once.
fn check_handlers(outcome: &Outcome) -> Result<(), TestCaseError> {
    let (mut there, mut gone) = (BTreeSet::new(), BTreeSet::new());
    for entry in &outcome.log {
        match entry {
            LogEntry::Added(id) => prop_assert!(there.insert(*id) && !gone.contains(id), "{}", id),
            LogEntry::Got(id, _) => prop_assert!(there.contains(id), "{} is called", id),
            LogEntry::Removed(id) => prop_assert!(there.remove(id) && gone.insert(*id), "{}", id),
        }
    }
    prop_assert!(there.is_empty(), "not removed: {:?}", there);
    Ok(())
}
