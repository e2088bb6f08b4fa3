//! A RESP client on the library, with redis-server.

use std::sync::mpsc::{Receiver, Sender, channel};

use waterwheel::channel::{
    Address, Bootstrap, Channel, Ctx, Decode, EventLoopGroup, HandlerResult, In, InboundHandler,
};
use waterwheel::codec::{RespCommand, RespDecoder, RespEncoder, RespValue};
use waterwheel::executor::Error;
use waterwheel::net::{Auto, Unix};

use crate::RedisServer;
use crate::program::WAIT_LIMIT;

struct Answers(Sender<Result<RespValue, Error>>);

impl InboundHandler for Answers {
    type In = RespValue;

    fn on_read(&mut self, _: &Ctx<'_>, value: RespValue) -> HandlerResult {
        let _ = self.0.send(Ok(value));
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        let _ = self.0.send(Err(error));
        Ok(())
    }
}

struct Client {
    channel: Channel,
    answers: Receiver<Result<RespValue, Error>>,
}

impl Client {
    fn connect(group: &EventLoopGroup, to: Address) -> Self {
        let (sender, answers) = channel();
        let channel = Bootstrap::new(group, Unix)
            .initialiser(move |edit| {
                edit.add_codec(
                    "resp",
                    Decode::new(RespDecoder::default()),
                    RespEncoder::default(),
                )?;
                edit.add_last("answers", In(Answers(sender.clone())))?;
                Ok(())
            })
            .connect(to)
            .join()
            .unwrap();
        Self { channel, answers }
    }

    fn answer(&self) -> RespValue {
        self.answers.recv_timeout(WAIT_LIMIT).unwrap().unwrap()
    }

    fn ask(&self, words: &[&str]) -> RespValue {
        self.channel.send(RespCommand::new(words));
        self.answer()
    }
}

fn text(value: &str) -> RespValue {
    RespValue::bulk(value.to_owned())
}

#[test]
fn k03_a_client_speaks_resp3_with_a_redis_server() {
    let Some(server) = RedisServer::start() else { return };
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let client = Client::connect(&group, server.address());
    assert_eq!(client.ask(&["PING"]), RespValue::simple("PONG"));
    assert_eq!(client.ask(&["GET", "nothing"]), RespValue::Null);
    assert!(matches!(client.ask(&["CONFIG", "GET", "save"]), RespValue::Array(_)));
    assert!(matches!(client.ask(&["HELLO", "3"]), RespValue::Map(_)));
    assert_eq!(client.ask(&["GET", "nothing"]), RespValue::Null);
    assert_eq!(
        client.ask(&["CONFIG", "GET", "save"]),
        RespValue::Map(vec![(text("save"), text(""))])
    );
    let long = "\r\n".repeat(500_000);
    assert_eq!(client.ask(&["SET", "long", &long]), RespValue::simple("OK"));
    assert_eq!(client.ask(&["GET", "long"]), text(&long));
    assert!(
        matches!(client.ask(&["INCR", "long"]), RespValue::Error(error) if error.starts_with(b"ERR"))
    );
    // Every RESP type, by the DEBUG PROTOCOL command.
    let int = RespValue::Integer;
    let three = || (0..3).map(int).collect::<Vec<_>>();
    for (kind, expected) in [
        ("string", text("Hello World")),
        ("integer", int(12345)),
        ("double", RespValue::Double("3.141".parse().unwrap())),
        ("null", RespValue::Null),
        ("array", RespValue::Array(three())),
        ("set", RespValue::Set(three())),
        ("map", RespValue::Map((0..3).map(|n| (int(n), RespValue::Boolean(n == 1))).collect())),
        ("true", RespValue::Boolean(true)),
        ("false", RespValue::Boolean(false)),
        ("bignum", RespValue::BigNumber("1234567999999999999999999999999999999".into())),
        (
            "verbatim",
            RespValue::Verbatim { format: *b"txt", text: "This is a verbatim\nstring".into() },
        ),
        (
            "attrib",
            RespValue::Attributed {
                attributes: vec![(
                    text("key-popularity"),
                    RespValue::Array(vec![text("key:123"), int(90)]),
                )],
                value: Box::new(text("Some real reply following the attribute")),
            },
        ),
    ] {
        assert_eq!(client.ask(&["DEBUG", "PROTOCOL", kind]), expected, "{kind}");
    }
    // A push arrives between answers.
    assert!(matches!(client.ask(&["SUBSCRIBE", "news"]), RespValue::Push(_)));
    assert_eq!(
        client.ask(&["PUBLISH", "news", "hello"]),
        RespValue::Push(vec![text("message"), text("news"), text("hello"),])
    );
    assert_eq!(client.answer(), int(1));
}
