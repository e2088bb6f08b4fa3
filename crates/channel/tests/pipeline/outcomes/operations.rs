//! C04: operations with a closure, a promise or no completion, and the texts of their errors.

use std::io;

use waterwheel_channel::{Address, Channel, Ctx, Events, Handler, HandlerResult, Msg};
use waterwheel_executor::{Error, ImmediateExecutor, PromiseFuture};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::Log;

use crate::support::{PipelineFixture, fixture_with, started_fixture, text};

type Ask = fn(&Ctx<'_>, Log);

/// Performs an operation at a user event.
struct Asks(Ask, Log);

impl Handler for Asks {
    fn on_user_event(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        (self.0)(ctx, self.1.clone());
        Ok(())
    }
}

/// Builds a channel whose last handler performs an operation, after a recorder of outbound events.
fn asking(ask: Ask, unconnected: bool) -> PipelineFixture {
    let builder = Embedded::builder();
    let builder = if unconnected { builder.unconnected() } else { builder };
    let mut fixture = fixture_with(builder, |edit, log| {
        let interest = Events::OUTBOUND.without(Events::BEGIN_READ);
        edit.add_last("out", log.recorder().interest(interest))?;
        edit.add_last("asks", Asks(ask, log.clone()))?;
        Ok(())
    });
    fixture.run();
    drop(fixture.log.take());
    fixture.channel().fire_user_event(text("now"));
    fixture.run();
    fixture
}

/// Returns a closure that logs an outcome.
fn note(log: Log) -> impl FnOnce(Result<(), Error>) {
    move |result| log.push(format!("done: {}", result.is_ok()))
}

/// Returns a promise that logs its outcome.
fn promise(log: Log) -> waterwheel_executor::Promise<()> {
    let (promise, future): (_, PromiseFuture<()>) = ImmediateExecutor.new_promise();
    future.on_complete(move |result| log.push(format!("done: {}", result.is_ok())));
    promise
}

#[test]
fn c04_every_operation_of_a_context_completes_a_closure_or_a_promise() {
    let operations: [(&str, bool, [Ask; 2]); 8] = [
        (
            "out bind",
            true,
            [
                |ctx, log| ctx.bind_then(Address::local("here"), note(log)),
                |ctx, log| ctx.bind_with(Address::local("here"), promise(log)),
            ],
        ),
        (
            "out connect",
            true,
            [
                |ctx, log| ctx.connect_then(Address::local("there"), note(log)),
                |ctx, log| ctx.connect_with(Address::local("there"), promise(log)),
            ],
        ),
        (
            "out disconnect",
            false,
            [
                |ctx, log| ctx.disconnect_then(note(log)),
                |ctx, log| ctx.disconnect_with(promise(log)),
            ],
        ),
        (
            "out close",
            false,
            [|ctx, log| ctx.close_then(note(log)), |ctx, log| ctx.close_with(promise(log))],
        ),
        (
            "out deregister",
            false,
            [
                |ctx, log| ctx.deregister_then(note(log)),
                |ctx, log| ctx.deregister_with(promise(log)),
            ],
        ),
        (
            "out shutdown_output",
            false,
            [
                |ctx, log| ctx.shutdown_output_then(note(log)),
                |ctx, log| ctx.shutdown_output_with(promise(log)),
            ],
        ),
        (
            "out write",
            false,
            [
                |ctx, log| ctx.write_and_flush_then(text("x"), note(log)),
                |ctx, log| ctx.write_and_flush_with(text("x"), promise(log)),
            ],
        ),
        (
            "done: true",
            false,
            [
                |ctx, log| ctx.shutdown_input_then(note(log)),
                |ctx, log| ctx.shutdown_input_with(promise(log)),
            ],
        ),
    ];
    for (first, unconnected, forms) in operations {
        for ask in forms {
            let log = asking(ask, unconnected).log.take();
            assert!(log[0].starts_with(first), "{first}: {log:?}");
            assert!(log.iter().any(|line| line == "done: true"), "{first}: {log:?}");
        }
    }
}

#[test]
fn c02_close_without_future_closes_the_channel() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("app", log.recorder().interest(Events::CLOSE | Events::INACTIVE))?;
        Ok(())
    });
    fixture.on_loop(Channel::close_without_future);
    assert_eq!(fixture.log.take()[..2], ["app close", "app on_inactive"]);
    let mut fixture = started_fixture(|_, _| Ok(()));
    fixture.channel().close_without_future(); // As another thread would.
    fixture.run();
    assert!(!fixture.channel().is_open());
    fixture.channel().close_without_future(); // A second call has no effect.
}

#[test]
fn c03_remove_if_present_says_whether_it_removed_a_handler() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("app", log.recorder())?;
        assert!(!edit.remove_if_present("other")?);
        Ok(())
    });
    let removed = fixture.with_pipeline(|pipeline| {
        let slot = pipeline.slot("app").expect("it is there");
        let is_there = pipeline.remove_if_present("app")?;
        let again = (pipeline.remove_if_present("app")?, pipeline.remove_if_present(slot)?);
        Ok::<_, Error>((is_there, again))
    });
    assert_eq!(removed.unwrap().unwrap(), (true, (false, false)));
    assert_eq!(fixture.names(), Vec::<String>::new());
}

#[test]
fn c07_an_operation_that_fails_because_of_a_close_names_the_cause() {
    let mut fixture = started_fixture(|_, _| Ok(()));
    fixture.set_room(0);
    let waits = fixture.on_loop(|channel| channel.write_and_flush(text("never sent")));
    fixture.fail(io::Error::from(io::ErrorKind::ConnectionReset).into());
    let error = waits.join().unwrap_err();
    assert!(error.is_closed(), "{error}");
    assert_eq!(error.io_kind(), Some(io::ErrorKind::ConnectionReset));
    let later = fixture.on_loop(|channel| channel.write(text("too late"))).join().unwrap_err();
    assert!(later.is_closed() && !later.is_cancelled());

    let mut fixture = fixture_with(Embedded::builder().stream(), |_, _| Ok(()));
    let unsupported = fixture.on_loop(|channel| channel.write_and_flush(String::new())).join();
    assert!(!unsupported.unwrap_err().is_closed());
}
