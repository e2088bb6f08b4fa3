//! Outputs and panics.

use tokio::sync::oneshot;
use waterwheel_async::TokioTaskError;
use waterwheel_executor::Error;

use super::support::{Bench, DropCounter, panic_quietly};

#[test]
fn a05_the_output_of_a_tokio_task_returns_to_the_future_that_awaits_it() {
    let mut bench = Bench::new();
    let (answer, question) = oneshot::channel::<u32>();
    let task = bench.runtime.spawn(async { question.await.unwrap() * 2 });
    let output = bench.start(task);

    bench.drive_both();
    assert!(output.borrow().is_none(), "the task waits");
    answer.send(21).unwrap();
    bench.drive_tokio();
    assert!(output.borrow().is_none(), "the loop has not turned since");
    bench.channel.run();
    assert_eq!(output.take(), Some(Ok(42)));
}

#[test]
fn a05_a_task_starts_before_it_is_awaited_and_its_output_waits() {
    let mut bench = Bench::new();
    let task = bench.runtime.spawn(async { 42 });
    assert!(!task.is_finished());
    bench.drive_tokio();
    assert!(task.is_finished());
    let output = bench.start(task);
    assert_eq!(output.take(), Some(Ok(42)), "without another wake");
}

#[test]
fn a05_a_panic_is_an_error_that_names_the_call() {
    let mut bench = Bench::new();
    let line = line!() + 1;
    let output = bench.start(bench.runtime.spawn(async { panic_quietly("out of cheese") }));
    bench.drive_both();
    let error: TokioTaskError = output.take().unwrap().unwrap_err();
    let text = error.to_string();
    let expected = format!("tokio task from {}:{line}:", file!());
    assert!(text.starts_with(&expected) && text.ends_with(" panicked: out of cheese"), "{text}");

    let labelled = bench.runtime.labelled("cheese shop");
    let output = bench.start(labelled.spawn(async { panic_quietly(String::from("closed")) }));
    bench.drive_both();
    let error: Error = output.take().unwrap().unwrap_err().into();
    assert_eq!(error.to_string(), "tokio task from cheese shop panicked: closed");
    let found = error.find::<TokioTaskError>().unwrap();
    assert!(matches!(found, TokioTaskError::Panicked { origin, message }
        if origin.label() == Some("cheese shop") && message == "closed"));
}

#[test]
fn a05_a_panic_with_any_payload_is_an_error() {
    struct PanicsInDrop;
    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            panic_quietly("in the destructor of the payload");
        }
    }
    let mut bench = Bench::new();
    let runtime = bench.runtime.labelled("call");
    let number = bench.start(runtime.spawn(async { panic_quietly(7) }));
    let nested = bench.start(runtime.spawn(async { panic_quietly(PanicsInDrop) }));
    bench.drive_both();
    for output in [number, nested] {
        let error: TokioTaskError = output.take().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "tokio task from call panicked: a panic without a message");
    }
}

#[test]
fn a05_an_output_that_nobody_takes_is_dropped_with_the_task() {
    let mut bench = Bench::new();
    let outputs = DropCounter::default();
    let guard = outputs.guard();
    let task = bench.runtime.spawn(async move { guard });
    bench.drive_tokio();
    assert_eq!(outputs.dropped(), 0);
    bench.channel.on_loop(|_| drop(task));
    assert_eq!((outputs.dropped(), outputs.alive()), (1, 0));
}

#[test]
fn a05_values_say_what_they_are() {
    let bench = Bench::new();
    let runtime = waterwheel_async::TokioRuntime::from(bench.runtime.handle().clone());
    let task = runtime.labelled("look up").spawn(async {});
    assert!(format!("{runtime:?}").starts_with("TokioRuntime { id: "));
    assert_eq!(
        format!("{task:?}"),
        "TokioTask { origin: Origin(look up), is_finished: false, .. }"
    );
}
