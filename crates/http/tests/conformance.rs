//! The corpus, held against the server. A test for each group reports all of the group's failures.

mod corpus;

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use corpus::http_server_suite;
use corpus::runner::{Played, Player, assert_conformance};
use http::{HeaderValue, Method, StatusCode, header};
use waterwheel_channel::{ChannelOptions, Completion, Ctx, Handler, HandlerResult};
use waterwheel_http::{HttpServer, IntoResponse, Request, Response};
use waterwheel_testkit::embedded::Embedded;

/// The largest body that the service takes: that of the server.
const MAX_BODY: usize = 8 * 1024 * 1024;

/// A server over an embedded channel.
struct EmbeddedServer(HttpServer);

impl Player for EmbeddedServer {
    fn play(&self, pieces: &[&[u8]]) -> Played {
        let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
        let is_ended = Rc::new(Cell::new(false));
        let watch = EndWatch(is_ended.clone());
        let mut channel = Embedded::builder()
            .stream()
            .options(options)
            .build(|edit| {
                edit.add_last("watch", watch)?;
                self.0.initialise(edit)
            })
            .unwrap();
        let mut bytes = Vec::new();
        for piece in pieces {
            if is_ended.get() {
                break;
            }
            channel.write_inbound(Bytes::copy_from_slice(piece));
            channel.run();
            while let Some(part) = channel.read_outbound::<Bytes>() {
                bytes.extend_from_slice(&part);
            }
        }
        Played { bytes, is_ended: is_ended.get() }
    }
}

/// Notes that the server ends the connection.
struct EndWatch(Rc<Cell<bool>>);

impl Handler for EndWatch {
    fn shutdown_output(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.0.set(true);
        ctx.shutdown_output_with(done.take());
        Ok(())
    }

    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.0.set(true);
        ctx.close_with(done.take());
        Ok(())
    }
}

async fn service(request: Request) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    match (path.as_str(), method) {
        ("/plaintext", Method::GET | Method::HEAD) => "Hello, World!".into_response(),
        ("/plaintext", _) => not_allowed("GET, HEAD"),
        ("/echo", Method::POST) => request.into_body().collect(MAX_BODY).await.into_response(),
        ("/echo", _) => not_allowed("POST"),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

fn not_allowed(methods: &'static str) -> Response {
    let mut response = StatusCode::METHOD_NOT_ALLOWED.into_response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    response
}

macro_rules! group_tests {
    ($module:ident, $player:expr; $($name:ident)*) => {
        mod $module {
            use super::*;

            $(
                #[test]
                fn $name() {
                    assert_conformance(&$player, &corpus::$name());
                }
            )*
        }
    };
}

http_server_suite!(embedded, group_tests, EmbeddedServer(HttpServer::new(service)));
