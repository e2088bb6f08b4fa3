//! C03: edits of pipelines, and edits that fail.

use waterwheel_channel::{Ctx, Edit, Events, Handler, HandlerResult, Name, PipelineError};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::{Log, RecordedMethod, Recorder};

use crate::support::{PipelineFixture, error, fixture, started_fixture, text};

fn three_recorders() -> PipelineFixture {
    started_fixture(|edit, log| {
        for name in ["a", "b", "c"] {
            edit.add_last(name, log.recorder())?;
        }
        Ok(())
    })
}

/// A handler of another type than the recorders.
struct NoOpHandler;

impl Handler for NoOpHandler {}

#[test]
fn c03_handlers_are_added_first_last_before_and_after_others() {
    let mut fixture = three_recorders();
    let log = fixture.log.clone();
    let names = fixture.with_pipeline(move |pipeline| -> Result<_, PipelineError> {
        pipeline.add_first("first", log.recorder())?;
        pipeline.add_last("last", log.recorder())?;
        pipeline.add_before("b", "before b", log.recorder())?;
        let slot = pipeline.add_after("b", "after b", log.recorder())?;
        pipeline.add_before(slot, "between", log.recorder())?;
        Ok(pipeline.names())
    });
    let names = names.expect("the channel is open").expect("the edit succeeds");
    let expected = ["first", "a", "before b", "b", "between", "after b", "c", "last"];
    assert_eq!(names, expected);
    drop(fixture.log.take());
    fixture.on_loop(|channel| channel.fire_user_event(text("x")));
    assert_eq!(fixture.log.take(), expected.map(|name| format!("{name} on_user_event x")));
    fixture.on_loop(|channel| channel.flush());
    let mut outward = expected.map(|name| format!("{name} flush"));
    outward.reverse();
    assert_eq!(fixture.log.take(), outward);
}

#[test]
fn c03_handlers_are_removed_by_name_slot_and_type() {
    let mut fixture = three_recorders();
    let names = fixture.with_pipeline(|pipeline| -> Result<_, PipelineError> {
        pipeline.remove("b")?;
        let slot = pipeline.slot("c").expect("it is there");
        pipeline.remove(slot)?;
        let by_type = pipeline.slot_of::<Recorder>().expect("it is there");
        assert_eq!(Some(by_type), pipeline.slot("a"));
        assert_eq!(pipeline.slot_of::<NoOpHandler>(), None);
        pipeline.remove(by_type)?;
        Ok(pipeline.names())
    });
    assert_eq!(
        names.expect("the channel is open").expect("the edit succeeds"),
        Vec::<String>::new()
    );
    let gone =
        ["b", "c", "a"].map(|name| [format!("{name} on_removed"), format!("{name} dropped")]);
    assert_eq!(fixture.log.take(), gone.concat());
}

#[test]
fn c03_handlers_are_replaced_under_the_same_name_or_another() {
    let mut fixture = three_recorders();
    let log = fixture.log.clone();
    let names = fixture.with_pipeline(move |pipeline| -> Result<_, PipelineError> {
        pipeline.replace("b", "b", log.recorder())?;
        let slot = pipeline.slot("c").expect("it is there");
        let new = pipeline.replace(slot, "d", log.recorder())?;
        assert_eq!(pipeline.slot("d"), Some(new));
        assert!(pipeline.slot("c").is_none());
        Ok(pipeline.names())
    });
    assert_eq!(names.expect("the channel is open").expect("the edit succeeds"), ["a", "b", "d"]);
    assert_eq!(
        fixture.log.take(),
        ["b on_added", "b on_removed", "b dropped", "d on_added", "c on_removed", "c dropped"]
    );
}

#[test]
fn c03_a_name_may_be_reused_after_its_handler_was_removed() {
    let mut fixture = three_recorders();
    let log = fixture.log.clone();
    let slots = fixture.with_pipeline(move |pipeline| -> Result<_, PipelineError> {
        let old = pipeline.slot("b").expect("it is there");
        pipeline.remove("b")?;
        let new = pipeline.add_last("b", log.recorder())?;
        assert!(matches!(pipeline.remove(old), Err(PipelineError::UnknownSlot { .. })));
        Ok((old, new, pipeline.names()))
    });
    let (old, new, names) = slots.expect("the channel is open").expect("the edit succeeds");
    assert_ne!(old, new, "a slot that is used again is another one");
    assert_eq!(names, ["a", "c", "b"]);
}

#[test]
fn c03_a_handler_removes_itself_and_its_neighbours_while_it_runs() {
    for (gone, inward) in [("a", "b c"), ("b", "b c"), ("c", "b")] {
        let mut fixture = started_fixture(|edit, log| {
            edit.add_last("a", log.recorder())?;
            edit.add_last(
                "b",
                log.recorder().at(RecordedMethod::UserEvent, move |ctx| {
                    if ctx.pipeline().slot(gone).is_some() {
                        ctx.pipeline().remove(gone)?;
                    }
                    Ok(())
                }),
            )?;
            edit.add_last("c", log.recorder())?;
            Ok(())
        });
        fixture.on_loop(|channel| channel.fire_user_event(text("x")));
        let found = fixture.log.take();
        let told = |line: &str| found.iter().position(|it| it == line);
        let reached: Vec<_> = ["b", "c"]
            .into_iter()
            .filter(|name| told(&format!("{name} on_user_event x")).is_some())
            .collect();
        assert_eq!(reached.join(" "), inward, "{gone} was removed");
        assert!(
            told(&format!("{gone} on_removed")) < told(&format!("{gone} dropped")),
            "{found:?}"
        );
        assert!(!fixture.names().contains(&gone.to_owned()));
        fixture.on_loop(|channel| channel.fire_user_event(text("y")));
        let found = fixture.log.take();
        assert_eq!(found.len(), 2, "{gone} is gone: {found:?}");
    }
}

#[test]
fn c03_handlers_added_by_a_running_handler_receive_events_at_once() {
    let mut fixture = started_fixture(|edit, log| {
        let more = log.clone();
        edit.add_last(
            "app",
            log.recorder().interest(Events::USER_EVENT).at(RecordedMethod::UserEvent, move |ctx| {
                ctx.pipeline().add_before("app", "before", more.recorder())?;
                ctx.pipeline().add_after("app", "after", more.recorder())?;
                ctx.write(text("out"));
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.on_loop(|channel| channel.fire_user_event(text("x")));
    assert_eq!(
        fixture.log.take(),
        [
            "app on_user_event x",
            "before on_added",
            "after on_added",
            "before write out",
            "after on_user_event x",
        ]
    );
}

#[test]
fn c03_the_changes_of_an_edit_are_applied_at_its_end_in_order() {
    let mut fixture = three_recorders();
    let log = fixture.log.clone();
    let edited = fixture.with_pipeline(move |pipeline| {
        pipeline.edit(|edit| -> Result<(), PipelineError> {
            edit.remove("a")?;
            edit.add_last("d", log.recorder())?;
            edit.remove("c")?;
            let short_lived = edit.add_first("e", log.recorder())?;
            edit.remove(short_lived)?;
            log.push("the closure returns");
            assert_eq!(edit.names(), ["b", "d"]);
            Ok(())
        })
    });
    assert!(matches!(edited, Some(Ok(()))));
    assert_eq!(
        fixture.log.take(),
        [
            "never-added dropped",
            "the closure returns",
            "a on_removed",
            "a dropped",
            "d on_added",
            "c on_removed",
            "c dropped",
        ]
    );
}

#[test]
fn c03_names_are_generated_from_types() {
    let mut fixture = fixture(|edit, log| {
        edit.add_last(Name::auto(), log.recorder())?;
        edit.add_last("NoOpHandler#1", log.recorder())?;
        edit.add_last(Name::auto(), NoOpHandler)?;
        edit.add_last(Name::auto(), NoOpHandler)?;
        Ok(())
    });
    assert_eq!(fixture.names(), ["Recorder#0", "NoOpHandler#1", "NoOpHandler#2", "NoOpHandler#3"]);
}

/// Performs an edit that fails, checks that it leaves no trace, and returns its error text.
fn fails_without_trace(
    wrong: impl FnOnce(&mut Edit<'_>, &Log) -> Result<(), Error> + 'static,
) -> String {
    let mut fixture = three_recorders();
    let log = fixture.log.clone();
    let edited = fixture.with_pipeline(move |pipeline| {
        pipeline.edit(|edit| {
            edit.add_first("new", log.recorder())?;
            edit.remove("b")?;
            edit.replace("c", "other", log.recorder())?;
            wrong(edit, &log)
        })
    });
    let failed = edited.expect("the channel is open").expect_err("the edit fails");
    assert_eq!(fixture.names(), ["a", "b", "c"]);
    let found = fixture.log.take();
    assert!(found.iter().all(|line| line == "never-added dropped"), "{found:?}");
    fixture.on_loop(|channel| channel.fire_user_event(text("x")));
    let expected = ["a", "b", "c"].map(|name| format!("{name} on_user_event x"));
    assert_eq!(fixture.log.take(), expected);
    failed.to_string()
}

#[test]
fn c03_an_error_in_an_edit_undoes_all_of_it() {
    assert_eq!(
        fails_without_trace(|edit, log| Ok(edit.add_last("a", log.recorder()).map(|_| ())?)),
        "the pipeline already has a handler named `a`"
    );
    assert_eq!(
        fails_without_trace(|edit, _| Ok(edit.remove("nobody")?)),
        "the pipeline has no handler named `nobody`; its handlers are: new, a, other"
    );
    assert_eq!(
        fails_without_trace(|edit, _| Ok(edit.remove("b")?)),
        "the pipeline has no handler named `b`; its handlers are: new, a, other",
        "it was removed already"
    );
    assert_eq!(
        fails_without_trace(|edit, log| Ok(edit
            .replace("a", "new", log.recorder())
            .map(|_| ())?)),
        "the pipeline already has a handler named `new`"
    );
    assert_eq!(fails_without_trace(|_, _| Err(error("of its own"))), "of its own");
}

#[test]
fn c03_an_unknown_name_in_an_empty_pipeline_is_an_error() {
    let mut fixture = started_fixture(|_, _| Ok(()));
    let removed =
        fixture.with_pipeline(|pipeline| pipeline.remove("x")).expect("the channel is open");
    let message = "the pipeline has no handler named `x`; its handlers are: none";
    assert_eq!(removed.expect_err("there is none").to_string(), message);
}

#[test]
fn c03_a_nested_edit_may_undo_changes_staged_by_the_outer_one() {
    let mut fixture = three_recorders();
    let log = fixture.log.clone();
    let edited = fixture.with_pipeline(move |pipeline| {
        pipeline.edit(|edit| -> Result<(), PipelineError> {
            edit.add_after("a", "staged", log.recorder())?;
            pipeline.remove("staged")?;
            // Replaces the staged handler.
            pipeline.add_last("d", log.recorder())?;
            edit.remove("nobody")
        })
    });
    assert!(edited.expect("the channel is open").is_err());
    assert_eq!(fixture.names(), ["a", "b", "c", "d"], "the inner edits stay applied");
    let lines = ["never-added dropped", "d on_added"];
    assert_eq!(fixture.log.take(), lines);
    fixture.on_loop(|channel| channel.fire_user_event(text("x")));
    assert_eq!(
        fixture.log.take(),
        ["a", "b", "c", "d"].map(|name| format!("{name} on_user_event x"))
    );
}

#[test]
fn c03_a_handler_may_remove_one_that_was_added_in_the_same_edit() {
    let mut fixture = started_fixture(|edit, log| {
        let more = log.clone();
        edit.add_last(
            "a",
            log.recorder().at(RecordedMethod::Added, move |ctx| {
                ctx.pipeline().remove("b")?;
                ctx.pipeline().add_last("d", more.recorder())?;
                Ok(())
            }),
        )?;
        edit.add_last("b", log.recorder())?;
        edit.add_last("c", log.recorder())?;
        Ok(())
    });
    assert_eq!(fixture.names(), ["a", "c", "d"]);
    fixture.on_loop(|channel| channel.fire_user_event(text("x")));
    assert_eq!(fixture.log.take(), ["a", "c", "d"].map(|name| format!("{name} on_user_event x")));
}

#[test]
fn c03_a_handler_that_fails_in_on_added_is_removed_and_the_rest_stays() {
    let mut fixture = three_recorders();
    let log = fixture.log.clone();
    let added = fixture.with_pipeline(move |pipeline| {
        pipeline.edit(|edit| -> Result<(), PipelineError> {
            edit.add_last(
                "bad",
                log.recorder().at(RecordedMethod::Added, |_| Err(error("not here"))),
            )?;
            edit.add_last("good", log.recorder())?;
            edit.remove("b")
        })
    });
    let failed = added.expect("the channel is open").expect_err("`bad` cannot be added");
    assert_eq!(failed.to_string(), "`bad` could not be added: not here");
    let cause = std::error::Error::source(&failed).expect("the error of the handler");
    assert_eq!(cause.to_string(), "not here");
    assert_eq!(fixture.names(), ["a", "c", "good"]);
    assert_eq!(
        fixture.log.take(),
        [
            "bad on_added",
            "bad on_removed",
            "bad dropped",
            "good on_added",
            "b on_removed",
            "b dropped",
        ]
    );
}

#[test]
fn c03_an_initialiser_that_fails_closes_the_channel() {
    let log = Log::new();
    let made = Embedded::new(|edit| {
        edit.channel().closed().add_listener(log.listener("closed"));
        edit.add_last("a", log.recorder())?;
        Err(error("no"))
    });
    assert_eq!(made.expect_err("the initialiser failed").to_string(), "no");
    assert_eq!(log.take(), ["never-added dropped", "closed ok"]);
    let made = Embedded::new(|edit| {
        edit.add_last("a", log.recorder())?;
        edit.add_last("b", log.recorder().at(RecordedMethod::Added, |_| Err(error("not here"))))?;
        Ok(())
    });
    assert_eq!(
        made.expect_err("the initialiser failed").to_string(),
        "`b` could not be added: not here"
    );
    let lines =
        ["a on_added", "b on_added", "b on_removed", "b dropped", "a on_removed", "a dropped"];
    assert_eq!(log.take(), lines);
}

#[test]
fn c03_a_closed_channel_cannot_be_edited() {
    fn edit(ctx: &Ctx<'_>) -> HandlerResult {
        ctx.pipeline().add_last("late", NoOpHandler)?;
        Ok(())
    }
    let mut fixture = started_fixture(|edit_, log| {
        edit_.add_last("app", log.recorder().at(RecordedMethod::Removed, edit))?;
        Ok(())
    });
    fixture.close();
    let refused = "the channel is closed; its pipeline can no longer be changed";
    assert_eq!(fixture.errors(), [refused]);
    assert!(fixture.with_pipeline(|pipeline| pipeline.names()).is_none(), "it is gone");
    let mut asked = fixture.on_loop(|channel| channel.with_pipeline(|pipeline| pipeline.names()));
    assert!(asked.try_take().expect("the future completes at once").is_err());
}

#[test]
fn c03_unhandled_messages_and_errors_are_reported_at_the_tail() {
    let mut fixture = started_fixture(|_, _| Ok(()));
    let log = fixture.log.clone();
    let channel = fixture.another("other", |edit| {
        edit.add_last("one", log.recorder().interest(Events::NONE))?;
        edit.add_last("two", log.recorder().interest(Events::NONE))?;
        Ok(())
    });
    let channel = channel.expect("the channel can be built");
    let id = channel.id();
    fixture.on_loop(|_| {
        for _ in 0..5 {
            drop(channel.with_pipeline(|pipeline| pipeline.fire_read(text("x"))));
        }
        for _ in 0..5 {
            drop(channel.with_pipeline(|pipeline| pipeline.fire_error(error("no"))));
        }
        channel.fire_user_event(text("is nobody's fault"));
    });
    let message = |count| {
        let ty = "bytes::bytes::Bytes";
        format!(
            "channel {id}: a message of type {ty} reached the end of the pipeline [one, two], {count} so far"
        )
    };
    let failure = |count| {
        format!(
            "channel {id}: an error reached the end of the pipeline [one, two], {count} so far: no"
        )
    };
    let expected = [message(1), message(2), message(4), failure(1), failure(2), failure(4)];
    assert_eq!(fixture.reports.take(), expected, "each time their number has doubled");
}
