//! C06: message types, checked when a pipeline is built and when it is edited.

use bytes::Bytes;
use waterwheel_channel::{Handler, HandlerResult, Message, Msg, PipelineError, Signature, TypeTag};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::Log;

use crate::support::{PipelineFixture, fixture_with, text};

struct Line;
struct Request;

impl Message for Line {}
impl Message for Request {}

/// A handler with this signature and no behaviour.
struct Typed(Signature);

impl Handler for Typed {
    fn signature(&self) -> Signature {
        self.0
    }

    fn on_read(&mut self, _: &waterwheel_channel::Ctx<'_>, _: Msg) -> HandlerResult {
        Ok(())
    }
}

fn lines() -> Typed {
    Typed(Signature::transparent().inbound(TypeTag::list::<Bytes>(), TypeTag::list::<Line>()))
}

fn requests() -> Typed {
    Typed(Signature::transparent().inbound(TypeTag::list::<Line>(), TypeTag::list::<Request>()))
}

fn app() -> Typed {
    Typed(Signature::transparent().inbound(TypeTag::list::<Request>(), &[]))
}

fn encoder() -> Typed {
    Typed(Signature::transparent().outbound(TypeTag::list::<Request>(), TypeTag::list::<Bytes>()))
}

fn answering() -> Typed {
    Typed(Signature::transparent().answers(TypeTag::list::<Request>()))
}

/// Builds a channel of bytes with three handlers whose types fit.
fn fitting() -> PipelineFixture {
    fixture_with(Embedded::builder().stream(), |edit, _| {
        edit.add_last("lines", lines())?;
        edit.add_last("requests", requests())?;
        edit.add_last("app", app())?;
        Ok(())
    })
}

fn short(error: &impl ToString) -> String {
    let paths = [
        "pipeline::handlers::message_types::",
        "bytes::bytes::",
        "waterwheel_channel::payload::file_region::",
    ];
    paths.iter().fold(error.to_string(), |message, path| message.replace(path, ""))
}

#[test]
fn c06_mismatched_types_are_found_when_the_pipeline_is_built() {
    let log = Log::new();
    let made = Embedded::builder().stream().build(|edit| {
        edit.add_last("lines", lines())?;
        edit.add_last("log", log.recorder().interest(waterwheel_channel::Events::NONE))?;
        edit.add_last("app", app())?;
        Ok(())
    });
    // A handler without a signature may emit any type, so the type accepted by the next handler is not checked.
    assert!(made.is_ok());
    drop(made);
    drop(log.take());
    let made = Embedded::builder().stream().build(|edit| {
        edit.add_first("first", Typed(Signature::transparent()))?;
        edit.add_last("lines", lines())?;
        edit.add_last("app", app())?;
        edit.add_last("log", log.recorder())?;
        Ok(())
    });
    let message = "`app` accepts Request but `lines` before it emits Line";
    assert_eq!(short(&made.expect_err("the types do not fit")), message);
    assert_eq!(log.take(), ["never-added dropped"]);
}

#[test]
fn c06_the_types_of_the_transport_are_checked_too() {
    let made = Embedded::builder().stream().build(|edit| {
        edit.add_last("app", app())?;
        Ok(())
    });
    let message = "`app` accepts Request but `embedded` before it emits Bytes";
    assert_eq!(short(&made.expect_err("the types do not fit")), message);
    let made = Embedded::builder().stream().build(|edit| {
        edit.add_last("answering", answering())?;
        Ok(())
    });
    let message = "`embedded` accepts Bytes or FileRegion but `answering` after it emits Request";
    assert_eq!(short(&made.expect_err("the types do not fit")), message);
    let made = Embedded::builder().stream().build(|edit| {
        edit.add_last("encoder", encoder())?;
        edit.add_last("answering", answering())?;
        Ok(())
    });
    assert!(made.is_ok());
}

fn edit_fails(
    edit: impl FnOnce(&mut waterwheel_channel::Edit<'_>) -> Result<(), PipelineError> + 'static,
) -> String {
    let mut fixture = fitting();
    let edited =
        fixture.with_pipeline(|pipeline| pipeline.edit(edit)).expect("the channel is open");
    assert_eq!(fixture.names(), ["lines", "requests", "app"], "as it was");
    assert!(fixture.channel().is_open());
    let error = edited.expect_err("the types do not fit");
    assert!(matches!(error, PipelineError::Types(_)), "{error:?}");
    short(&error)
}

#[test]
fn c06_mismatched_types_are_found_when_the_pipeline_is_edited() {
    let message = "`app` accepts Request but `lines` before it emits Line";
    assert_eq!(edit_fails(|edit| edit.remove("requests")), message);
    let message = "`requests` accepts Line but `embedded` before it emits Bytes";
    assert_eq!(edit_fails(|edit| edit.remove("lines")), message);
    let swapped = edit_fails(|edit| edit.replace("requests", "encoder", encoder()).map(drop_slot));
    assert_eq!(swapped, "`app` accepts Request but `lines` before it emits Line");
    let added = edit_fails(|edit| edit.add_before("app", "answers", answering()).map(drop_slot));
    assert_eq!(
        added,
        "`embedded` accepts Bytes or FileRegion but `answers` after it emits Request"
    );
}

fn drop_slot(_: waterwheel_channel::SlotId) {}

#[test]
fn c06_types_are_checked_at_the_end_of_an_edit() {
    let mut fixture = fitting();
    let edited = fixture.with_pipeline(|pipeline| {
        pipeline.edit(|edit| -> Result<(), PipelineError> {
            edit.remove("lines")?;
            edit.remove("requests")?;
            edit.add_first("lines again", lines())?;
            edit.add_after("lines again", "requests again", requests()).map(drop_slot)
        })
    });
    assert!(matches!(edited, Some(Ok(()))), "{edited:?}");
    assert_eq!(fixture.names(), ["lines again", "requests again", "app"]);
}

#[test]
fn c06_a_message_of_an_unexpected_type_does_not_panic() {
    let mut fixture = fixture_with(Embedded::builder(), |edit, log| {
        edit.add_last("any", log.recorder())?;
        Ok(())
    });
    fixture.write_inbound_all([text("x").into(), Msg::new(5u32), Msg::new(Line)]);
    let passed: Vec<_> = fixture.passed();
    assert_eq!(passed, ["x", "u32", std::any::type_name::<Line>()]);
    assert_eq!(fixture.reports.take(), Vec::<String>::new());
}
