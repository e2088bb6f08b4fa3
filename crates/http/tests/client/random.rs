//! Servers that answer in every way, and callers that give up at any time: no response reaches another request, and
//! nothing is left behind.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Method, Response};
use waterwheel_executor::Error;
use waterwheel_http::{Body, BodyChunk, BodySource, ClientError, Incoming};
use waterwheel_testkit::manual::Peer;

use crate::support::{Bench, Running, SECOND, read_text};

const ROUNDS: u64 = 30;
const STEPS: usize = 80;

/// A generator of numbers that look random (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % end
    }
}

/// A streamed body of a request, which the test lets go on.
#[derive(Clone, Default)]
struct Valve(Rc<RefCell<(usize, bool, Option<Waker>)>>);

impl Valve {
    fn open(&self, bench: &mut Bench, chunks: usize, ends: bool) {
        let mut state = self.0.borrow_mut();
        state.0 += chunks;
        state.1 |= ends;
        let waker = state.2.take();
        drop(state);
        if let Some(waker) = waker {
            bench.event_loop.on_loop(|_| waker.wake());
        }
        bench.run();
    }
}

impl BodySource for Valve {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<BodyChunk, Error>>> {
        let mut state = self.0.borrow_mut();
        match *state {
            (0, true, _) => Poll::Ready(None),
            (0, false, _) => {
                state.2 = Some(cx.waker().clone());
                Poll::Pending
            }
            _ => {
                state.0 -= 1;
                Poll::Ready(Some(Ok(Bytes::from_static(&[b'z'; 9_000]).into())))
            }
        }
    }
}

/// A request, from its start to the text of its response.
struct Exchange {
    number: usize,
    valve: Valve,
    call: Option<Running<Result<Response<Incoming>, ClientError>>>,
    response: Option<Response<Incoming>>,
    text: Option<Running<Result<String, String>>>,
}

/// The server's end of a connection.
struct ServerEnd {
    peer: Peer,
    received: Vec<u8>,
    /// The bytes to send, in pieces that are sent as they are.
    answers: VecDeque<Vec<u8>>,
    finishes: bool,
}

fn text_of(number: usize) -> String {
    format!("<{number}>").repeat(1 + number % 7 * 700)
}

impl ServerEnd {
    /// Answers the requests that have come.
    fn answer(&mut self, dice: &mut Dice) {
        self.received.extend_from_slice(&self.peer.take_received());
        while let Some(head) = find(&self.received, b"T /") {
            let Some(end) = find(&self.received[head..], b" HTTP/1.1\r\n") else { return };
            let number = std::str::from_utf8(&self.received[head + 3..head + end]).unwrap();
            let number = number.parse().unwrap();
            self.received.drain(..head + end);
            self.queue_answer(number, dice);
        }
    }

    fn queue_answer(&mut self, number: usize, dice: &mut Dice) {
        let text = text_of(number);
        let mut wire = String::new();
        for _ in 0..dice.below(3) {
            wire.push_str(
                ["HTTP/1.1 100 \r\n\r\n", "HTTP/1.1 103 Hints\r\nlink: a\r\n\r\n"][dice.below(2)],
            );
        }
        let status = ["200 OK", "200 OK", "200 OK", "404 No", "413 Large"][dice.below(5)];
        let close = ["", "", "connection: close\r\n"][dice.below(3)];
        let length = text.len();
        match dice.below(4) {
            0 | 1 => {
                wire +=
                    &format!("HTTP/1.1 {status}\r\n{close}content-length: {length}\r\n\r\n{text}")
            }
            2 => {
                wire += &format!("HTTP/1.1 {status}\r\n{close}transfer-encoding: chunked\r\n\r\n");
                let (first, second) = text.split_at(length / 2);
                wire += &format!(
                    "{:x}\r\n{first}\r\n{:x};a=b\r\n{second}\r\n0\r\nt: r\r\n\r\n",
                    first.len(),
                    second.len()
                );
            }
            _ => {
                wire += &format!("HTTP/1.1 {status}\r\n\r\n{text}");
                self.finishes = true;
            }
        }
        let mut rest = wire.into_bytes();
        while rest.len() > 1 && dice.below(3) > 0 {
            let back = rest.split_off(1 + dice.below(rest.len() - 1));
            self.answers.push_back(std::mem::replace(&mut rest, back));
        }
        if dice.below(6) == 0 && !self.finishes {
            rest.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwrong");
        }
        self.answers.push_back(rest);
    }

    fn send(&mut self, bench: &mut Bench) {
        match self.answers.pop_front() {
            Some(piece) => bench.send(&self.peer, piece),
            None if std::mem::take(&mut self.finishes) => bench.finish(&self.peer),
            None => {}
        }
    }
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}

impl Exchange {
    fn start(bench: &mut Bench, number: usize, dice: &mut Dice) -> Self {
        let valve = Valve::default();
        let (source, streams, is_asked) = (valve.clone(), dice.below(2) == 0, dice.below(4) == 0);
        let call = bench.start(move |client| async move {
            let url = format!("http://192.0.2.1/{number}");
            let method = if streams { Method::POST } else { Method::GET };
            let request = client.request(method, url).expect_continue(is_asked);
            match streams {
                true => request.body(Body::from_source(source)).send().await,
                false => request.send().await,
            }
        });
        Self { number, valve, call: Some(call), response: None, text: None }
    }

    /// Goes on by one step. Returns false when nothing is left to do.
    fn step(&mut self, bench: &mut Bench, dice: &mut Dice) -> bool {
        if let Some(call) = self.call.take() {
            match call.is_done() {
                true => match call.take() {
                    Ok(response) => self.response = Some(response),
                    Err(_) => return false,
                },
                false if dice.below(12) == 0 => {
                    call.cancel(bench);
                    return false;
                }
                false => {
                    self.valve.open(bench, dice.below(4), dice.below(4) == 0);
                    self.call = Some(call);
                }
            }
        } else if let Some(response) = self.response.take() {
            match dice.below(4) {
                0 => {
                    bench.drop_on_loop(response);
                    return false;
                }
                _ => self.text = Some(bench.start(|_| read_text(response))),
            }
        } else if let Some(text) = self.text.take() {
            self.valve.open(bench, dice.below(4), dice.below(3) == 0);
            if text.is_done() {
                if let Ok(text) = text.take() {
                    assert_eq!(text, text_of(self.number));
                }
                return false;
            }
            if dice.below(12) == 0 {
                text.cancel(bench);
                return false;
            }
            self.text = Some(text);
        }
        true
    }
}

fn run_round(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut bench = Bench::new();
    let (mut exchanges, mut servers) = (Vec::new(), Vec::<ServerEnd>::new());
    for number in 0..STEPS {
        if dice.below(3) == 0 {
            exchanges.push(Exchange::start(&mut bench, number, &mut dice));
        }
        if let Some(connect) = bench.next_connect() {
            let peer = connect.accept();
            bench.run();
            servers.push(ServerEnd {
                peer,
                received: Vec::new(),
                answers: VecDeque::new(),
                finishes: false,
            });
        }
        for server in &mut servers {
            server.answer(&mut dice);
            if dice.below(2) == 0 {
                server.send(&mut bench);
            }
        }
        match dice.below(30) {
            0 => bench.advance(SECOND),
            1 if !servers.is_empty() => {
                let at = dice.below(servers.len());
                bench.reset(&servers[at].peer);
            }
            _ => {}
        }
        exchanges.retain_mut(|exchange| {
            let goes_on = exchange.step(&mut bench, &mut dice);
            if !goes_on {
                // A request may be sent beside its response, and after that was read.
                exchange.valve.open(&mut bench, 0, true);
            }
            goes_on
        });
    }
    for exchange in exchanges {
        exchange.valve.open(&mut bench, 0, true);
        if let Some(call) = exchange.call {
            if call.is_done() {
                let outcome = call.take();
                bench.drop_on_loop(outcome);
            } else {
                call.cancel(&mut bench);
            }
        }
        bench.drop_on_loop(exchange.response);
        if let Some(text) = exchange.text {
            text.cancel(&mut bench);
        }
    }
    bench.advance(2 * SECOND);
    bench.assert_nothing_left();
}

#[test]
fn r04_no_response_reaches_another_request_and_nothing_is_left() {
    for seed in 1..=ROUNDS {
        run_round(seed);
    }
}
