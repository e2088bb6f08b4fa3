//! A client and a server, connected with each other, and every cut of what one of them sends.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use waterwheel_channel::{Ctx, EventLoopGroup, Handler, HandlerResult, Msg};
use waterwheel_http::{
    BodyEnd, BodyFraming, HttpClientCodec, HttpServerCodec, RequestHead, ResponseHead,
};
use waterwheel_testkit::embedded::connected_pair;
use waterwheel_testkit::manual::Manual;

use crate::test_bench::{TestBench, describe};

/// A request to be sent, whose answer is its body in the same framing.
#[derive(Clone, Debug)]
struct EchoedRequest {
    chunks: Vec<Vec<u8>>,
    is_chunked: bool,
    has_trailers: bool,
}

impl EchoedRequest {
    fn framing(&self) -> BodyFraming {
        match self.is_chunked {
            true => BodyFraming::Chunked,
            false => BodyFraming::Length(self.chunks.concat().len() as u64),
        }
    }

    fn trailers(&self) -> Option<Box<HeaderMap>> {
        let mut trailers = HeaderMap::new();
        trailers.insert("x", HeaderValue::from_static("y"));
        (self.is_chunked && self.has_trailers).then(|| Box::new(trailers))
    }

    /// Returns what the client gets.
    fn answer(&self) -> Vec<String> {
        let mut answer = vec![format!("200 {:?}", self.framing())];
        let data = self.chunks.concat();
        if !data.is_empty() {
            answer.push(describe(Bytes::from(data).into()));
        }
        answer.push(describe(BodyEnd { trailers: self.trailers() }.into()));
        answer
    }

    fn messages(&self) -> Vec<Msg> {
        let uri = "http://a/echo".parse().unwrap();
        let mut messages = vec![RequestHead::new(Method::POST, uri, self.framing()).into()];
        messages.extend(self.chunks.iter().map(|chunk| Msg::from(Bytes::from(chunk.clone()))));
        messages.push(BodyEnd { trailers: self.trailers() }.into());
        messages
    }
}

/// Answers with the parts that come, as they come.
struct EchoParts;

impl Handler for EchoParts {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        match msg.take::<RequestHead>() {
            Ok(head) => ctx.write(ResponseHead::new(StatusCode::OK, head.framing())),
            Err(part) => ctx.write(part),
        }
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }
}

/// Sends requests and notes the parts of the answers. Data that came in several pieces is one part.
struct Asker {
    requests: Vec<EchoedRequest>,
    answers: Rc<RefCell<Vec<String>>>,
    data: Vec<u8>,
}

impl Handler for Asker {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        for request in &self.requests {
            for message in request.messages() {
                ctx.write(message);
            }
        }
        ctx.flush();
        Ok(())
    }

    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        match msg.into_bytes() {
            Ok(bytes) => self.data.extend_from_slice(&bytes),
            Err(other) => {
                let data = std::mem::take(&mut self.data);
                if !data.is_empty() {
                    self.answers.borrow_mut().push(describe(Bytes::from(data).into()));
                }
                self.answers.borrow_mut().push(describe(other));
            }
        }
        Ok(())
    }
}

/// Lets a client and a server talk over an embedded connection; returns what the client got.
fn talk(requests: &[EchoedRequest]) -> Vec<String> {
    let mut event_loop = EventLoopGroup::builder(Manual::readiness()).build_manual().unwrap();
    let (client, server) = connected_pair();
    let answers = Rc::new(RefCell::new(Vec::new()));
    let asker = Asker { requests: requests.to_vec(), answers: answers.clone(), data: Vec::new() };
    let registered = event_loop.on_loop(|here| {
        here.register_with(server, |edit| {
            HttpServerCodec::default().add_last(edit, "http")?;
            Ok(edit.add_last("echo", EchoParts).map(drop)?)
        })?;
        here.register_with(client, |edit| {
            HttpClientCodec::default().add_last(edit, "http")?;
            Ok(edit.add_last("asker", asker).map(drop)?)
        })?;
        Ok::<_, waterwheel_executor::Error>(())
    });
    registered.unwrap().unwrap();
    while !event_loop.is_idle() {
        event_loop.turn(Some(Duration::ZERO));
    }
    answers.take()
}

fn requests() -> impl Strategy<Value = Vec<EchoedRequest>> {
    let chunks = vec(vec(any::<u8>(), 1..700), 0..5);
    let request =
        (chunks, any::<bool>(), any::<bool>()).prop_map(|(chunks, is_chunked, has_trailers)| {
            EchoedRequest { chunks, is_chunked, has_trailers }
        });
    vec(request, 1..20)
}

/// Returns the messages of these bytes, cut at these places. Data that came in several pieces is one.
fn messages_of(mut bench: TestBench, bytes: &[u8], cuts: &[usize]) -> Vec<String> {
    let mut messages: Vec<String> = Vec::new();
    let mut start = 0;
    for end in cuts.iter().copied().chain([bytes.len()]) {
        for message in bench.send(&bytes[start..end]) {
            match (messages.last_mut(), message.strip_prefix('"')) {
                (Some(last), Some(more)) if last.starts_with('"') => {
                    last.pop();
                    last.push_str(more);
                }
                _ => messages.push(message),
            }
        }
        start = end;
    }
    messages.push(bench.sent());
    messages
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn h01_a_client_gets_from_a_server_what_it_sent(requests in requests()) {
        let expected: Vec<String> = requests.iter().flat_map(EchoedRequest::answer).collect();
        prop_assert_eq!(talk(&requests), expected);
    }

    #[test]
    fn h01_every_cut_of_the_bytes_gives_the_same_requests(
        pieces in vec(select(vec![
            "GET /a HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
            "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx: y\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /a HTTP/1.1\r\n\r\n",
            "GET /a HTTP/1.1\nHost: a\r\n\r\n",
        ]), 1..6),
        cuts in vec(any::<Index>(), 0..20),
    ) {
        let bytes = pieces.concat().into_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.sort_unstable();
        let whole = messages_of(TestBench::server(), &bytes, &[]);
        prop_assert_eq!(&messages_of(TestBench::server(), &bytes, &cuts), &whole);
        let every: Vec<usize> = (1..bytes.len()).collect();
        prop_assert_eq!(&messages_of(TestBench::server(), &bytes, &every), &whole);
    }
}

#[test]
fn h04_many_pipelined_requests_are_answered_at_once() {
    let request =
        EchoedRequest { chunks: vec![b"hello".to_vec()], is_chunked: false, has_trailers: false };
    let answers = talk(&vec![request; 1000]);
    assert_eq!(answers.len(), 3000);
}
