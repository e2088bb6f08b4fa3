//! The corpus, held against the server and against the codec. A test for each group reports all of the group's failures.

#[path = "../corpus/mod.rs"]
mod corpus;
mod corpus_tools;

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use corpus::http_server_suite;
use corpus::runner::{Played, Player, assert_conformance};
use http::{HeaderValue, Method, StatusCode, header};
use waterwheel_channel::{ChannelOptions, Completion, Ctx, Edit, Handler, HandlerResult, Msg};
use waterwheel_executor::Error;
use waterwheel_http::{
    Aggregator, FullRequest, FullResponse, HttpServer, HttpServerCodec, IntoResponse, Request,
    RequestHead, Response,
};
use waterwheel_testkit::embedded::Embedded;

/// The largest body that the service takes: that of the server.
const MAX_BODY: usize = 8 * 1024 * 1024;

/// A server over an embedded channel.
struct EmbeddedServer(HttpServer);

impl Player for EmbeddedServer {
    fn play(&self, pieces: &[&[u8]]) -> Played {
        play_embedded(pieces, |edit| self.0.initialise(edit))
    }
}

/// The codec, with a handler of heads, the aggregator and a handler of whole requests behind it.
struct EmbeddedCodec;

impl Player for EmbeddedCodec {
    fn play(&self, pieces: &[&[u8]]) -> Played {
        play_embedded(pieces, |edit| {
            HttpServerCodec::default().add_last(edit, "http")?;
            edit.add_last("bodiless", BodilessService::default())?;
            edit.add_last("whole", Aggregator::of_requests(MAX_BODY))?;
            edit.add_last("echo", Echo)?;
            Ok(())
        })
    }
}

/// Plays pieces against a pipeline.
fn play_embedded(
    pieces: &[&[u8]],
    initialise: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>,
) -> Played {
    let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
    let is_ended = Rc::new(Cell::new(false));
    let watch = EndWatch(is_ended.clone());
    let mut channel = Embedded::builder()
        .stream()
        .options(options)
        .build(|edit| {
            edit.add_last("watch", watch)?;
            initialise(edit)
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

/// Answers requests whose bodies nobody reads at once, and drops their parts.
#[derive(Default)]
struct BodilessService {
    is_skipping: bool,
}

impl Handler for BodilessService {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        if let Some(head) = msg.get::<RequestHead>() {
            let answer = match (head.path(), head.method()) {
                ("/echo", &Method::POST) => None,
                ("/echo", _) => Some((405, "POST", "")),
                ("/plaintext", &Method::GET | &Method::HEAD) => Some((200, "", "Hello, World!")),
                ("/plaintext", _) => Some((405, "GET, HEAD", "")),
                _ => Some((404, "", "")),
            };
            self.is_skipping = answer.is_some();
            if let Some((status, methods, body)) = answer {
                let mut answer = http::Response::builder().status(status);
                if !methods.is_empty() {
                    answer = answer.header(header::ALLOW, methods);
                }
                let answer = answer.body(Bytes::from(body)).map_err(Error::new)?;
                ctx.write_and_flush(FullResponse::from(answer));
            }
        }
        if !self.is_skipping {
            ctx.fire_read(msg);
        }
        Ok(())
    }
}

/// Answers whole requests with their bodies.
struct Echo;

impl Handler for Echo {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let full: FullRequest = msg.take().map_err(|_| Error::new("not a request"))?;
        ctx.write_and_flush(FullResponse::from(http::Response::new(full.request.into_body())));
        Ok(())
    }
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
http_server_suite!(codec, group_tests, EmbeddedCodec);
