//! An HTTP/1.1 server on an event loop, whose requests the test answers in the order that it wants.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, Sender};

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Channel, Ctx, EventLoopGroup, HandlerResult, In, InboundHandler, ServerBootstrap,
};
use waterwheel::codec::LineDecoder;
use waterwheel::net::{Auto, Tcp};

use crate::program::WAIT_LIMIT;

pub(crate) struct PageServer {
    _group: EventLoopGroup,
    listener: Channel,
    events: Receiver<PageEvent>,
}

enum PageEvent {
    Requested(String, PageRequest),
    /// A connection ended whose last request was for this path.
    Closed(String),
}

/// A request that waits for its answer.
pub(crate) struct PageRequest(Channel);

impl PageServer {
    pub(crate) fn start() -> Self {
        let group = EventLoopGroup::builder(Auto).threads(1).name("pages").build().unwrap();
        let (sender, events) = mpsc::channel();
        let listener = ServerBootstrap::new(&group, Tcp)
            .child_initialiser(move |edit| {
                edit.add_last("lines", LineDecoder::new(8192).text())?;
                edit.add_last("requests", In(Requests { path: None, events: sender.clone() }))?;
                Ok(())
            })
            .bind("127.0.0.1:0")
            .join()
            .unwrap();
        Self { _group: group, listener, events }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.listener.local_address().unwrap())
    }

    /// Waits for this many requests, and returns them by their paths.
    pub(crate) fn requests(&self, count: usize) -> BTreeMap<String, PageRequest> {
        let mut requests = BTreeMap::new();
        while requests.len() < count {
            match self.events.recv_timeout(WAIT_LIMIT).expect("a request") {
                PageEvent::Requested(path, request) => drop(requests.insert(path, request)),
                PageEvent::Closed(_) => {}
            }
        }
        requests
    }

    /// Waits for the end of a connection, and returns the path of its last request.
    pub(crate) fn closed_path(&self) -> String {
        loop {
            if let PageEvent::Closed(path) =
                self.events.recv_timeout(WAIT_LIMIT).expect("the end of a connection")
            {
                return path;
            }
        }
    }
}

impl PageRequest {
    pub(crate) fn answer(self, status: &str, body: &str) {
        let length = body.len();
        let text = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
        drop(self.0.write_and_flush(Bytes::from(text)));
    }
}

/// Reads the lines of requests without a body.
struct Requests {
    path: Option<String>,
    events: Sender<PageEvent>,
}

impl InboundHandler for Requests {
    type In = String;

    fn on_read(&mut self, ctx: &Ctx<'_>, line: String) -> HandlerResult {
        if let Some(rest) = line.strip_prefix("GET ") {
            self.path = rest.split(' ').next().map(str::to_owned);
        } else if line.is_empty()
            && let Some(path) = self.path.clone()
        {
            let _ = self.events.send(PageEvent::Requested(path, PageRequest(ctx.channel())));
        }
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if let Some(path) = self.path.take() {
            let _ = self.events.send(PageEvent::Closed(path));
        }
        ctx.fire_inactive();
        Ok(())
    }
}
