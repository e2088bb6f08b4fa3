//! Transports that panic (rule 11).

use std::time::Duration;

use waterwheel_channel::NewChannel;

use super::support::{LoopFixture, PanicPoint, ScriptedTransport, on_event};

#[test]
fn c05_rule_11_a_channel_whose_transport_panics_in_close_is_closed() {
    let mut fixture = LoopFixture::new();
    let channel = fixture.register(ScriptedTransport(PanicPoint::Close), |_| Ok(()));
    let other = fixture.register(ScriptedTransport::default(), |_| Ok(()));
    let closed = fixture.on(|_| channel.close());
    fixture.run();
    assert!(closed.is_done(), "the close completes");
    assert!(channel.closed().is_done());
    assert_eq!(
        fixture.on(|here| here.registered_channels()),
        [other],
        "the channel is deregistered"
    );
    let told = format!("{:?}", fixture.reports.take());
    assert!(told.contains("panic in Close"), "{told}");
}

#[test]
fn c05_rule_11_a_transport_that_panics_in_register_leaves_nothing_behind() {
    let mut fixture = LoopFixture::new();
    let new = NewChannel::new(ScriptedTransport(PanicPoint::Register));
    let made = fixture.event_loop.event_loop().register(new);
    fixture.run();
    assert!(made.is_done());
    let metrics = fixture.event_loop.event_loop().metrics();
    assert_eq!(metrics.channels, 0, "the channel is deregistered");
    let local = fixture.on(|here| {
        here.register_with(NewChannel::new(ScriptedTransport(PanicPoint::Register)), |_| Ok(()))
    });
    let error = local.expect_err("it cannot be registered").to_string();
    assert!(error.contains("panic in Register"), "{error}");
}

#[test]
fn l10_a_panicking_transport_does_not_keep_a_shutdown_from_closing_the_other_channels() {
    for point in [PanicPoint::Write, PanicPoint::SetRead, PanicPoint::Close] {
        let mut fixture = LoopFixture::new();
        let channel = fixture.register(ScriptedTransport(point), |_| Ok(()));
        let others = [(); 3].map(|()| fixture.register(ScriptedTransport::default(), |_| Ok(())));
        fixture.on(|here| {
            here.with_pipeline(&channel, |pipeline| {
                pipeline.write(String::from("x"));
                pipeline.flush();
                here.handle().shutdown_gracefully(Duration::ZERO, Duration::ZERO)
            });
        });
        fixture.run();
        assert!(channel.closed().is_done(), "{point:?}");
        for other in others {
            assert!(other.closed().is_done(), "{point:?}");
        }
        assert!(fixture.event_loop.is_terminated(), "{point:?}");
    }
}

#[test]
fn c05_rule_11_a_panicking_transport_does_not_close_the_channel_that_called() {
    let mut fixture = LoopFixture::new();
    let channel = fixture.register(ScriptedTransport(PanicPoint::SetRead), |_| Ok(()));
    let target = channel.clone();
    let caller = fixture.register(ScriptedTransport::default(), |edit| {
        edit.add_last("caller", on_event(move |_| target.set_auto_read(false)))?;
        Ok(())
    });
    fixture.on(|_| caller.fire_user_event(()));
    fixture.run();
    assert!(!channel.is_open());
    assert!(caller.is_open(), "the caller did not panic");
}
