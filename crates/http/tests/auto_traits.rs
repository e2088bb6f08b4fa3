//! The auto traits `Send`, `Sync` and `Unpin` of every public type.

use std::rc::Rc;

use waterwheel_http::{
    AcceptEncoding, AsyncEvents, Body, BodyChunk, BodyError, BodyFraming, BodySource, ChangedBody,
    Client, ClientBuilder, ClientError, CompressedService, Compression, CompressionBuilder,
    CompressionFacts, ConnectionField, ContentCoding, ContentDecodeError, ContentDecoder,
    ContentEncodeError, ContentEncoder, DecodeLimits, DecodeStatus, DecompressedService,
    EncodedEvent, EncoderOptions, EventDecoder, EventQueueBuilder, EventReaderTooSlow,
    EventSendError, EventSender, EventSource, EventStream, EventStreamError, Files, FilesBuilder,
    HttpMetrics, HttpServer, HttpServerBuilder, Incoming, InvalidClient, InvalidEvent,
    InvalidFiles, InvalidHttpOption, InvalidRoute, Json, JsonError, Malformation, MessageError,
    MessageLimits, NegotiatedCoding, PathParams, Proxy, QueuedEvents, ReceivedEvent, Request,
    RequestBuilder, RequestDecoder, RequestEvent, RequestHead, Response, ResponseDecoder,
    ResponseEvent, ResponseHead, Router, RouterBuilder, SendBody, ServerEvent, SlowReader,
    TowerService, UnsupportedCoding, ZeroEventCapacity,
};

#[path = "../../../support/auto_traits.rs"]
mod auto_traits;

use auto_traits::{AutoTraits, NotImplemented, is};

#[test]
fn public_types_cross_threads_as_listed() {
    let listed = [
        // On any thread.
        is!(HttpServer: true true true),
        is!(HttpServerBuilder<Rc<u8>>: false false true),
        is!(HttpServerBuilder<u8>: true true true),
        is!(Client: true true true),
        is!(ClientBuilder: true true true),
        is!(Proxy: true true true),
        is!(Files: true true true),
        is!(FilesBuilder: true true true),
        is!(EventSender: true true true),
        is!(EventQueueBuilder: true true true),
        is!(QueuedEvents: true true true),
        is!(SendBody: true true true),
        // On the loop of their connection.
        is!(Request: false false true),
        is!(Response: false false true),
        is!(Incoming: false false true),
        is!(Body: false false true),
        is!(RequestBuilder: false false true),
        is!(AsyncEvents: false false true),
        is!(dyn ChangedBody: false false false),
        is!(dyn BodySource: false false false),
        is!(dyn EventSource: false false false),
        is!(Router: false false true),
        is!(RouterBuilder: false false true),
        // As what they hold.
        is!(CompressedService<u8>: true true true),
        is!(CompressedService<Rc<u8>>: false false true),
        is!(DecompressedService<u8>: true true true),
        is!(DecompressedService<Rc<u8>>: false false true),
        is!(TowerService<u8>: true true true),
        is!(TowerService<Rc<u8>>: false false true),
        is!(EventStream<u8>: true true true),
        is!(EventStream<Rc<u8>>: false false true),
        is!(Json<u8>: true true true),
        is!(Json<Rc<u8>>: false false true),
        // State machines over bytes.
        is!(RequestDecoder: true false true),
        is!(RequestEvent: true false true),
        is!(RequestHead: true false true),
        is!(ResponseDecoder: true true true),
        is!(ResponseEvent: true true true),
        is!(ResponseHead: true true true),
        is!(EventDecoder: true true true),
        is!(ContentDecoder: true false true),
        is!(ContentEncoder: true false true),
        // Plain values.
        is!(AcceptEncoding: true true true),
        is!(BodyChunk: true true true),
        is!(BodyError: true true true),
        is!(BodyFraming: true true true),
        is!(ClientError: true true true),
        is!(Compression: true true true),
        is!(CompressionBuilder: true true true),
        is!(CompressionFacts: true true true),
        is!(ConnectionField: true true true),
        is!(ContentCoding: true true true),
        is!(ContentDecodeError: true true true),
        is!(ContentEncodeError: true true true),
        is!(DecodeLimits: true true true),
        is!(DecodeStatus: true true true),
        is!(EncodedEvent: true true true),
        is!(EncoderOptions: true true true),
        is!(EventReaderTooSlow: true true true),
        is!(EventSendError: true true true),
        is!(EventStreamError: true true true),
        is!(HttpMetrics: true true true),
        is!(InvalidClient: true true true),
        is!(InvalidEvent: true true true),
        is!(InvalidFiles: true true true),
        is!(InvalidHttpOption: true true true),
        is!(InvalidRoute: true true true),
        is!(JsonError: true true true),
        is!(Malformation: true true true),
        is!(MessageError: true true true),
        is!(MessageLimits: true true true),
        is!(NegotiatedCoding: true true true),
        is!(PathParams: true true true),
        is!(ReceivedEvent: true true true),
        is!(ServerEvent: true true true),
        is!(SlowReader: true true true),
        is!(UnsupportedCoding: true true true),
        is!(ZeroEventCapacity: true true true),
        // Not object-safe: no value to check.
        ("IntoResponse", (false, false, false), (false, false, false)),
        ("Service", (false, false, false), (false, false, false)),
    ];
    auto_traits::check(&listed, &[include_str!("../src/lib.rs")], &[]);
}
