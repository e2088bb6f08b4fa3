//! Transports that panic (rule 11).

use std::time::Duration;

use waterwheel_channel::NewChannel;

use super::support::{Puppet, Stage, Trouble, on_event};

#[test]
fn c05_rule_11_a_channel_whose_transport_panics_in_close_is_closed() {
    let mut stage = Stage::new();
    let channel = stage.register(Puppet(Trouble::Close), |_| Ok(()));
    let other = stage.register(Puppet::default(), |_| Ok(()));
    let closed = stage.on(|_| channel.close());
    stage.run();
    assert!(closed.is_done(), "whoever asked for it learns it");
    assert!(channel.closed().is_done());
    assert_eq!(stage.on(|here| here.registered_channels()), [other], "the loop has forgotten it");
    let told = format!("{:?}", stage.reports.take());
    assert!(told.contains("trouble at Close"), "{told}");
}

#[test]
fn c05_rule_11_a_transport_that_panics_in_register_leaves_nothing_behind() {
    let mut stage = Stage::new();
    let new = NewChannel::new(Puppet(Trouble::Register));
    let made = stage.event_loop.event_loop().register(new);
    stage.run();
    assert!(made.is_done());
    let metrics = stage.event_loop.event_loop().metrics();
    assert_eq!(metrics.channels, 0, "the loop has forgotten it");
    let local =
        stage.on(|here| here.register_with(NewChannel::new(Puppet(Trouble::Register)), |_| Ok(())));
    let error = local.expect_err("it cannot be registered").to_string();
    assert!(error.contains("trouble at Register"), "{error}");
}

#[test]
fn l10_a_panicking_transport_does_not_keep_a_shutdown_from_closing_the_other_channels() {
    for trouble in [Trouble::Write, Trouble::SetRead, Trouble::Close] {
        let mut stage = Stage::new();
        let channel = stage.register(Puppet(trouble), |_| Ok(()));
        let others = [(); 3].map(|()| stage.register(Puppet::default(), |_| Ok(())));
        stage.on(|here| {
            here.with_pipeline(&channel, |pipeline| {
                pipeline.write(String::from("x"));
                pipeline.flush();
                here.handle().shutdown_gracefully(Duration::ZERO, Duration::ZERO)
            });
        });
        stage.run();
        assert!(channel.closed().is_done(), "{trouble:?}");
        for other in others {
            assert!(other.closed().is_done(), "{trouble:?}");
        }
        assert!(stage.event_loop.is_over(), "{trouble:?}");
    }
}

#[test]
fn c05_rule_11_a_panicking_transport_does_not_close_the_channel_that_called() {
    let mut stage = Stage::new();
    let channel = stage.register(Puppet(Trouble::SetRead), |_| Ok(()));
    let target = channel.clone();
    let caller = stage.register(Puppet::default(), |edit| {
        edit.add_last("caller", on_event(move |_| target.set_auto_read(false)))?;
        Ok(())
    });
    stage.on(|_| caller.fire_user_event(()));
    stage.run();
    assert!(!channel.is_open());
    assert!(caller.is_open(), "it has no part in it");
}
