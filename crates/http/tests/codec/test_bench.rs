//! A pipeline under test: the test is the network on one side and the last handler on the other.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::{
    ChannelFuture, ChannelOptions, Ctx, Edit, Events, Handler, HandlerResult, Msg,
};
use waterwheel_executor::Error;
use waterwheel_http::{
    BodyEnd, FullRequest, FullResponse, HttpClientCodec, HttpServerCodec, RequestHead,
    RequestRefused, ResponseHead,
};
use waterwheel_testkit::embedded::Embedded;

pub(crate) struct TestBench {
    pub(crate) channel: Embedded,
    events: Rc<RefCell<Vec<String>>>,
}

impl TestBench {
    pub(crate) fn server() -> Self {
        Self::of_server(HttpServerCodec::default())
    }

    pub(crate) fn of_server(codec: HttpServerCodec) -> Self {
        Self::new(|edit| Ok(codec.add_last(edit, "http").map(drop)?))
    }

    pub(crate) fn client() -> Self {
        Self::new(|edit| Ok(HttpClientCodec::default().add_last(edit, "http").map(drop)?))
    }

    pub(crate) fn new(initialise: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>) -> Self {
        let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
        let events = Rc::new(RefCell::new(Vec::new()));
        let watch = EventWatch(events.clone());
        let channel = Embedded::builder()
            .stream()
            .options(options)
            .build(|edit| {
                initialise(edit)?;
                edit.add_last("watch", watch)?;
                Ok(())
            })
            .unwrap();
        Self { channel, events }
    }

    /// Sends bytes; returns the messages that they became.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> Vec<String> {
        self.channel.write_inbound(Bytes::copy_from_slice(bytes.as_ref()));
        self.channel.run();
        self.messages()
    }

    /// Returns the messages that came since the last call, without their dates.
    pub(crate) fn messages(&mut self) -> Vec<String> {
        let mut messages = Vec::new();
        while let Some(msg) = self.channel.read_inbound_any() {
            messages.push(describe(msg));
        }
        messages
    }

    /// Writes a message and flushes it.
    pub(crate) fn write(&mut self, msg: impl Into<Msg>) -> ChannelFuture {
        let written = self.channel.write(msg);
        self.channel.flush();
        self.channel.run();
        written
    }

    /// Writes a message that must be refused; returns why.
    pub(crate) fn write_refused(&mut self, msg: impl Into<Msg>) -> String {
        self.write(msg).join().unwrap_err().to_string()
    }

    /// Returns the bytes sent since the last call, without the date.
    pub(crate) fn sent(&mut self) -> String {
        let mut bytes = Vec::new();
        while let Some(part) = self.channel.read_outbound::<Bytes>() {
            bytes.extend_from_slice(&part);
        }
        let text = String::from_utf8(bytes).unwrap();
        let mut lines: Vec<_> = text.split("\r\n").collect();
        lines.retain(|line| !line.starts_with("date: "));
        lines.join("\r\n")
    }

    /// Returns the events and errors since the last call.
    pub(crate) fn events(&self) -> Vec<String> {
        std::mem::take(&mut *self.events.borrow_mut())
    }

    pub(crate) fn is_open(&self) -> bool {
        self.channel.channel().is_open()
    }

    pub(crate) fn close_cause(&self) -> String {
        self.channel.channel().close_cause().map_or_else(String::new, |cause| cause.to_string())
    }
}

/// Describes a message in a word or two.
pub(crate) fn describe(msg: Msg) -> String {
    let msg = match msg.into_bytes() {
        Ok(bytes) => return format!("{:?}", String::from_utf8_lossy(&bytes)),
        Err(other) => other,
    };
    if let Some(head) = msg.get::<RequestHead>() {
        return format!("{} {} {:?}", head.method(), head.uri(), head.framing());
    }
    if let Some(head) = msg.get::<ResponseHead>() {
        return format!("{} {:?}", head.status.as_str(), head.framing);
    }
    if let Some(end) = msg.get::<BodyEnd>() {
        return match &end.trailers {
            None => "end".to_owned(),
            Some(trailers) => format!("end with {} trailers", trailers.len()),
        };
    }
    if let Some(FullRequest { request, trailers }) = msg.get() {
        let trailers = if trailers.is_some() { " with trailers" } else { "" };
        return format!("{} {} {:?}{trailers}", request.method(), request.uri(), request.body());
    }
    if let Some(FullResponse { response, trailers }) = msg.get() {
        let trailers = if trailers.is_some() { " with trailers" } else { "" };
        return format!("{} {:?}{trailers}", response.status().as_str(), response.body());
    }
    msg.type_name().to_owned()
}

struct EventWatch(Rc<RefCell<Vec<String>>>);

impl Handler for EventWatch {
    fn interest(&self) -> Events {
        Events::USER_EVENT | Events::ERROR
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if let Some(RequestRefused(error)) = event.get() {
            self.0.borrow_mut().push(format!("refused: {error}"));
        }
        ctx.fire_user_event(event);
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.0.borrow_mut().push(format!("error: {error}"));
        Ok(())
    }
}
