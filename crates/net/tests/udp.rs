//! Channels of datagrams over UDP (C13).

use std::net::UdpSocket;
use std::time::Duration;

use waterwheel_channel::driver::OpenDriver;
use waterwheel_channel::{
    Address, Bootstrap, Ctx, Datagram, EventLoopGroup, HandlerResult, In, InboundHandler,
};
use waterwheel_net::{Epoll, Poll, Udp};

/// Answers each datagram with itself.
struct Echo;

impl InboundHandler for Echo {
    type In = Datagram;

    fn on_read(&mut self, ctx: &Ctx<'_>, datagram: Datagram) -> HandlerResult {
        ctx.write(datagram.answer(datagram.bytes().clone()));
        ctx.flush();
        Ok(())
    }
}

fn group(driver: impl OpenDriver + 'static) -> EventLoopGroup {
    EventLoopGroup::builder(driver).threads(1).build().unwrap()
}

fn an_echo_answers_whoever_asks(driver: impl OpenDriver + 'static) {
    let group = group(driver);
    let echo = Bootstrap::new(&group, Udp).initialiser(|edit| {
        edit.add_last("echo", In(Echo))?;
        Ok(())
    });
    let here = echo.bind("127.0.0.1:0").join().unwrap();
    let Some(Address::Ip(at)) = here.local_address() else { panic!("bound to an IP address") };
    for _ in 0..3 {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        for text in ["hello", "", "world"] {
            client.send_to(text.as_bytes(), at).unwrap();
            let mut room = [0; 100];
            let (n, from) = client.recv_from(&mut room).unwrap();
            assert_eq!((&room[..n], from), (text.as_bytes(), at));
        }
    }
    group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5)).unwrap().join().unwrap();
}

#[test]
fn c13_a_udp_echo_answers_whoever_asks_epoll() {
    an_echo_answers_whoever_asks(Epoll::default());
}

#[test]
fn c13_a_udp_echo_answers_whoever_asks_poll() {
    an_echo_answers_whoever_asks(Poll);
}
