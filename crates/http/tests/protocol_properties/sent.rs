//! Random messages, valid ones and rubble.

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use waterwheel_http::{
    BodyFraming, ConnectionField, MessageLimits, encode_body_end, encode_chunk_start,
    encode_request_head, encode_response_head,
};

use crate::decoded::{Seen, SeenHead, push_data};

/// A body as its sender cuts it.
#[derive(Clone, Debug)]
pub(crate) enum SentBody {
    None,
    Sized(Vec<u8>),
    Chunks(Vec<Vec<u8>>, HeaderMap),
}

#[derive(Clone, Debug)]
pub(crate) struct SentRequest {
    method: Method,
    target: String,
    headers: HeaderMap,
    connection: ConnectionField,
    body: SentBody,
}

#[derive(Clone, Debug)]
pub(crate) struct SentResponse {
    status: StatusCode,
    headers: HeaderMap,
    connection: ConnectionField,
    body: SentBody,
}

impl SentBody {
    fn framing(&self) -> BodyFraming {
        match self {
            Self::None => BodyFraming::None,
            Self::Sized(data) => BodyFraming::Length(data.len() as u64),
            Self::Chunks(..) => BodyFraming::Chunked,
        }
    }

    pub(crate) fn encode(&self, dst: &mut BytesMut) {
        match self {
            Self::None => {}
            Self::Sized(data) => dst.extend_from_slice(data),
            Self::Chunks(chunks, trailers) => {
                for chunk in chunks {
                    encode_chunk_start(chunk.len() as u64, dst);
                    dst.extend_from_slice(chunk);
                    dst.extend_from_slice(b"\r\n");
                }
                encode_body_end(Some(trailers), dst);
            }
        }
    }

    /// Returns the events of a message with this body.
    pub(crate) fn events(&self, head: SeenHead) -> Vec<Seen> {
        let mut events = vec![Seen::Head(head)];
        let (data, trailers) = match self {
            Self::None => return events,
            Self::Sized(data) if data.is_empty() => return events,
            Self::Sized(data) => (data.clone(), HeaderMap::new()),
            Self::Chunks(chunks, trailers) => (chunks.concat(), trailers.clone()),
        };
        push_data(&mut events, &data);
        events.push(Seen::End(trailers));
        events
    }
}

impl SentRequest {
    pub(crate) fn encode(&self, dst: &mut BytesMut) {
        let Self { method, target, headers, connection, body } = self;
        encode_request_head(method, target, headers, body.framing(), *connection, dst);
        body.encode(dst);
    }

    pub(crate) fn events(&self) -> Vec<Seen> {
        self.body.events(SeenHead {
            start: format!("{} {} HTTP/1.1", self.method, self.target),
            headers: received(&self.headers, self.body.framing(), self.connection),
            framing: self.body.framing(),
            keeps_alive: self.connection != ConnectionField::Close,
        })
    }
}

impl SentResponse {
    pub(crate) fn encode(&self, dst: &mut BytesMut) {
        let Self { status, headers, connection, body } = self;
        encode_response_head(*status, headers, body.framing(), *connection, dst);
        body.encode(dst);
    }

    pub(crate) fn events(&self) -> Vec<Seen> {
        self.body.events(SeenHead {
            start: format!("HTTP/1.1 {}", self.status.as_str()),
            headers: received(&self.headers, self.body.framing(), self.connection),
            framing: self.body.framing(),
            keeps_alive: self.connection != ConnectionField::Close,
        })
    }
}

/// Returns the fields with those that the encoder adds.
pub(crate) fn received(
    headers: &HeaderMap,
    framing: BodyFraming,
    connection: ConnectionField,
) -> HeaderMap {
    let mut headers = headers.clone();
    match framing {
        BodyFraming::Length(length) => headers.insert("content-length", HeaderValue::from(length)),
        BodyFraming::Chunked => {
            headers.insert("transfer-encoding", HeaderValue::from_static("chunked"))
        }
        _ => None,
    };
    match connection {
        ConnectionField::Close => headers.insert("connection", HeaderValue::from_static("close")),
        ConnectionField::KeepAlive => {
            headers.insert("connection", HeaderValue::from_static("keep-alive"))
        }
        _ => None,
    };
    headers
}

/// Names without a meaning for the framing, the connection or the trailers.
pub(crate) fn names() -> impl Strategy<Value = HeaderName> {
    prop_oneof![
        select(vec!["accept", "etag", "x-forwarded-for", "via", "a", "x!#$%&'*+-.^_`|~0"])
            .prop_map(HeaderName::from_static),
        "x-[a-z0-9-]{1,40}".prop_map(|name| name.parse().unwrap()),
    ]
}

/// Values without white space around them, which no reader keeps.
pub(crate) fn values() -> impl Strategy<Value = HeaderValue> {
    let visible = || prop_oneof![9 => 0x21u8..0x7f, 1 => 0x80u8..=0xff];
    let inner = prop_oneof![9 => visible(), 1 => select(vec![b' ', b'\t'])];
    let text = (visible(), vec(inner, 0..40), visible()).prop_map(|(first, mut middle, last)| {
        middle.insert(0, first);
        middle.push(last);
        middle
    });
    prop_oneof![1 => Just(Vec::new()), 5 => text]
        .prop_map(|bytes| HeaderValue::from_bytes(&bytes).unwrap())
}

pub(crate) fn fields(count: usize) -> impl Strategy<Value = HeaderMap> {
    vec((names(), values()), 0..count).prop_map(|fields| {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, value);
        }
        headers
    })
}

pub(crate) fn bodies() -> impl Strategy<Value = SentBody> {
    let chunks = vec(vec(any::<u8>(), 1..40), 0..5);
    prop_oneof![
        Just(SentBody::None),
        vec(any::<u8>(), 0..80).prop_map(SentBody::Sized),
        (chunks, fields(4)).prop_map(|(chunks, trailers)| SentBody::Chunks(chunks, trailers)),
    ]
}

pub(crate) fn connections() -> impl Strategy<Value = ConnectionField> {
    select(vec![ConnectionField::Absent, ConnectionField::KeepAlive, ConnectionField::Close])
}

prop_compose! {
    pub(crate) fn requests()(
        method in prop_oneof![
            select(vec![Method::GET, Method::HEAD, Method::POST, Method::OPTIONS]),
            "[A-Z!#$%&'*+.^_`|~0-9-]{1,20}".prop_filter_map("CONNECT has other targets", |method| {
                method.parse().ok().filter(|method| *method != Method::CONNECT)
            }),
        ],
        target in prop_oneof!["/[a-zA-Z0-9/._~%!$&'()*+,;=:@-]{0,30}", "/[a-z]{0,3}[?][a-z=&/?]{0,20}"],
        host in "[a-z0-9.-]{0,20}(:[0-9]{1,4})?",
        mut headers in fields(10),
        connection in connections(),
        body in bodies(),
    ) -> SentRequest {
        headers.insert("host", host.parse().unwrap());
        SentRequest { method, target, headers, connection, body }
    }
}

prop_compose! {
    pub(crate) fn responses()(
        status in (200u16..1000)
            .prop_filter("has a body", |status| *status != 204 && *status != 304)
            .prop_map(|status| StatusCode::from_u16(status).unwrap()),
        headers in fields(10),
        connection in connections(),
        // A response without any framing ends with the connection.
        body in bodies().prop_map(|body| match body {
            SentBody::None => SentBody::Sized(Vec::new()),
            body => body,
        }),
    ) -> SentResponse {
        SentResponse { status, headers, connection, body }
    }
}

/// Pieces of messages in no order, some of them damaged: near enough to messages to come far.
pub(crate) fn rubble() -> impl Strategy<Value = Vec<u8>> {
    let known: Vec<&[u8]> = vec![
        b"GET / HTTP/1.1\r\n",
        b"POST /a HTTP/1.1\r\nHost: a\r\n",
        b"HEAD /a HTTP/1.0\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.0 404 Not Found\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/2.0",
        b"Host: a\r\n",
        b"Host: a\r\n\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: 5\r\n\r\nhello",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"Connection: close\r\n",
        b"Expect: 100-continue\r\n",
        b"x: y\r\n",
        b"5\r\nhello\r\n",
        b"5;a=\"b\"\r\nhello\r\n",
        b"0\r\n\r\n",
        b"0\r\nx: y\r\n\r\n",
        b"\r\n",
        b"\r\n\r\n",
        b"\r",
        b"\n",
        b" ",
        b":",
        b"\0",
    ];
    let random = vec(any::<u8>(), 0..8);
    vec(prop_oneof![12 => select(known).prop_map(<[u8]>::to_vec), 1 => random], 0..16)
        .prop_map(|pieces| pieces.concat())
}

pub(crate) fn limits() -> impl Strategy<Value = MessageLimits> {
    let narrow = (1usize..120, 0usize..5, 0u64..20, 0usize..20);
    prop_oneof![
        Just(MessageLimits::default()),
        narrow.prop_map(|(head, lines, body, extensions)| {
            MessageLimits::default()
                .max_head_bytes(head)
                .max_field_lines(lines)
                .max_body_bytes(body)
                .max_extension_bytes(extensions)
        }),
    ]
}

pub(crate) fn cuts() -> impl Strategy<Value = Vec<Index>> {
    vec(any::<Index>(), 0..12)
}
