//! Sockets that a driver refuses and whose destructors call the loop (rule 1).

use std::sync::{Arc, Mutex};

use waterwheel_channel::driver::Io;
use waterwheel_channel::{
    Channel, Ctx, Handler, HandlerResult, LocalLoop, NewChannel, Stream, Token,
};

use super::support::LoopFixture;

/// Hands its channel to the test.
struct ExposesChannel(Arc<Mutex<Option<Channel>>>);

impl Handler for ExposesChannel {
    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        *self.0.lock().expect("the lock is not poisoned") = Some(ctx.channel());
        Ok(())
    }
}

/// A value that is not a socket. Its destructor calls the loop and the channel, and records the calls.
struct UnsupportedSocket(Arc<Mutex<Option<Channel>>>, Arc<Mutex<Vec<&'static str>>>);

impl Drop for UnsupportedSocket {
    fn drop(&mut self) {
        let here = LocalLoop::current().expect("the socket is dropped on the loop");
        here.detach(Token::from_bits(7));
        let channel =
            self.0.lock().expect("the lock is not poisoned").take().expect("the handler was added");
        channel.send(1_u8);
        drop(channel.close());
        self.1.lock().expect("the lock is not poisoned").push("dropped");
    }
}

#[test]
fn c05_rule_1_a_socket_that_a_driver_refuses_is_dropped_while_nothing_is_borrowed() {
    let mut fixture = LoopFixture::new();
    let (shown, log) = (Arc::default(), Arc::default());
    let io = Io::new(UnsupportedSocket(Arc::clone(&shown), Arc::clone(&log)));
    let new = NewChannel::new(Stream::connected(io, None));
    let registered = fixture.on(|here| {
        here.register_with(new, |edit| {
            edit.add_last("shows", ExposesChannel(shown))?;
            Ok(())
        })
    });
    let error = registered.expect_err("no driver supports this socket").to_string();
    assert!(error.contains("cannot watch"), "{error}");
    fixture.run();
    assert_eq!(*log.lock().expect("the lock is not poisoned"), ["dropped"]);
    assert_eq!(fixture.reports.take(), [""; 0]);
}
