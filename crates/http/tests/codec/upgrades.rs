//! Another protocol follows.

use bytes::Bytes;
use http::{Method, StatusCode};
use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};
use waterwheel_http::{BodyEnd, BodyFraming, FullResponse, RequestHead, ResponseHead};

use crate::test_bench::TestBench;

const UPGRADE: &str =
    "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n";
const SWITCHED: &str =
    "HTTP/1.1 101 Switching Protocols\r\nupgrade: shout\r\nconnection: upgrade\r\n\r\n";

fn switched() -> FullResponse {
    let response = http::Response::builder().status(101).header("upgrade", "shout");
    FullResponse::from(response.body(Bytes::new()).unwrap())
}

/// A protocol that answers bytes in upper case.
struct Shout;

impl Handler for Shout {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        if let Ok(bytes) = msg.into_bytes() {
            ctx.write_and_flush(Bytes::from(bytes.to_ascii_uppercase()));
        }
        Ok(())
    }
}

/// Changes the protocol when a request asks for it.
struct Upgrader;

impl Handler for Upgrader {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        match msg.get::<RequestHead>() {
            Some(head) if head.wants_upgrade() => {}
            _ => return Ok(()),
        }
        ctx.write_and_flush(switched());
        ctx.pipeline().edit(|edit| {
            edit.replace(ctx.slot(), "shout", Shout)?;
            edit.remove_codec("http")
        })?;
        Ok(())
    }
}

fn upgrader() -> TestBench {
    TestBench::new(|edit| {
        waterwheel_http::HttpServerCodec::default().add_last(edit, "http")?;
        edit.add_last("upgrader", Upgrader)?;
        Ok(())
    })
}

#[test]
fn h04_bytes_behind_an_upgrade_belong_to_the_next_protocol() {
    let mut bench = upgrader();
    let _ = bench.send(format!("{UPGRADE}hello GET / HTTP/1.1\r\n\r\n"));
    assert_eq!(bench.sent(), format!("{SWITCHED}HELLO GET / HTTP/1.1\r\n\r\n"));
    let _ = bench.send("more");
    assert_eq!(bench.sent(), "MORE");
    assert!(bench.is_open());
}

#[test]
fn h04_bytes_behind_an_upgrade_are_kept_until_it_is_answered() {
    let mut bench = TestBench::server();
    assert_eq!(bench.send(format!("{UPGRADE}hello")), ["GET /chat None", "end"]);
    drop(bench.write(switched()));
    assert_eq!(bench.sent(), SWITCHED);
    assert!(bench.send(" again").is_empty(), "kept for the next protocol");
    let edited = bench.channel.with_pipeline(|pipeline| {
        pipeline.edit(|edit| {
            edit.add_before("watch", "shout", Shout)?;
            edit.remove_codec("http")
        })
    });
    edited.unwrap().unwrap();
    bench.channel.run();
    assert_eq!(bench.sent(), "HELLO AGAIN");
}

#[test]
fn h04_a_refused_upgrade_leaves_http_as_it_is() {
    let mut bench = TestBench::server();
    let get = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(bench.send(format!("{get}{UPGRADE}{get}")).len(), 4);
    drop(bench.write(FullResponse::from(http::Response::new(Bytes::new()))));
    assert!(bench.messages().is_empty(), "the answer to the first request decides nothing");
    drop(bench.write(FullResponse::from(http::Response::new(Bytes::new()))));
    assert_eq!(bench.messages(), ["GET /a None", "end"]);
}

#[test]
fn h04_a_protocol_changes_after_a_whole_request_that_asks_for_it() {
    let ok = || FullResponse::from(http::Response::new(Bytes::new()));
    let mut bench = TestBench::server();
    let get = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
    let _ = bench.send(get);
    let refused = bench.write_refused(switched());
    assert!(refused.contains("would change the protocol"), "{refused}");
    drop(bench.write(ok()));
    let upgrade = UPGRADE.replace("Host: a", "Host: a\r\nContent-Length: 5");
    let _ = bench.send(format!("{upgrade}hel"));
    assert!(bench.write_refused(switched()).contains("its body has not come"));
    assert_eq!(bench.send("lo").len(), 2);
    drop(bench.write(switched()));
    assert_eq!(bench.sent(), format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n{SWITCHED}"));
}

#[test]
fn h04_connect_opens_a_tunnel_or_ends_the_connection() {
    let connect = "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n\x16\x03\x01";
    let mut bench = TestBench::server();
    assert_eq!(bench.send(connect), ["CONNECT a:1 None", "end"]);
    drop(bench.write(ResponseHead::new(StatusCode::OK, BodyFraming::None)));
    drop(bench.write(BodyEnd::default()));
    assert_eq!(bench.sent(), "HTTP/1.1 200 OK\r\n\r\n");
    drop(bench.write(Bytes::from_static(b"raw")));
    assert_eq!(bench.sent(), "raw", "bytes pass now");
    let removed =
        bench.channel.with_pipeline(|pipeline| pipeline.edit(|edit| edit.remove_codec("http")));
    removed.unwrap().unwrap();
    assert_eq!(bench.messages(), ["\"\\u{16}\\u{3}\\u{1}\""]);

    let mut bench = TestBench::server();
    let _ = bench.send(connect);
    let refused = http::Response::builder().status(403).body(Bytes::new()).unwrap();
    drop(bench.write(FullResponse::from(refused)));
    assert_eq!(
        bench.sent(),
        "HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        "the client may have begun to speak another protocol"
    );
}

#[test]
fn h04_a_client_hands_on_what_comes_behind_an_upgrade() {
    let mut bench = TestBench::client();
    let mut head =
        RequestHead::new(Method::GET, "http://a/chat".parse().unwrap(), BodyFraming::None);
    head.headers_mut().insert("connection", "upgrade".parse().unwrap());
    head.headers_mut().insert("upgrade", "shout".parse().unwrap());
    drop(bench.write(head));
    drop(bench.write(BodyEnd::default()));
    assert_eq!(
        bench.sent(),
        "GET /chat HTTP/1.1\r\nupgrade: shout\r\nhost: a\r\nconnection: upgrade\r\n\r\n"
    );
    assert_eq!(bench.send(format!("{SWITCHED}hel")), ["101 None", "end"]);
    assert!(bench.send("lo").is_empty());
    let removed =
        bench.channel.with_pipeline(|pipeline| pipeline.edit(|edit| edit.remove_codec("http")));
    removed.unwrap().unwrap();
    assert_eq!(bench.messages(), ["\"hello\""]);
    drop(bench.write(Bytes::from_static(b"raw")));
    assert_eq!(bench.sent(), "raw");
}
