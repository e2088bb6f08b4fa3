//! Services that compress the answers, or decompress the requests, of another service.

use super::compression::{Compression, CompressionFacts};
use super::decoded_body::decompress;
use super::limits::DecodeLimits;
use crate::service::into_response::IntoResponse;
use crate::service::request::Request;
use crate::service::service::{Response, Service};

/// Wraps a service, such as a router or files, whose answers are compressed by these [rules](Compression).
///
/// - A part of a file (206) is sent as it is. A client that compresses and resumes gets the whole file again, because
///   its entity tag is weak then.
/// - A stream of events is flushed with each event.
/// - Files that are compressed are read and encoded on the loop's thread, 64 KiB in a turn. For files that are asked for
///   often, put [compressed ones](crate::FilesBuilder::precompressed) beside them.
///
/// ```
/// use waterwheel_http::{Compression, Files, HttpServer, compressed};
///
/// let server = HttpServer::new(compressed(Files::new("src")?, Compression::default()));
/// # drop(server);
/// # Ok::<(), waterwheel_http::InvalidFiles>(())
/// ```
pub fn compressed<S: Service>(service: S, compression: Compression) -> CompressedService<S> {
    CompressedService { service, compression }
}

/// Wraps a service whose requests are [decompressed](decompress) within these limits. A request with a coding that is not
/// known is answered with 415 in place of the service; one whose body cannot be decoded has the error
/// [`BodyError::Undecodable`](crate::BodyError::Undecodable), which is a response of status 400 or 413.
///
/// ```
/// use waterwheel_http::{BodyError, DecodeLimits, HttpServer, Request, decompressed};
///
/// async fn count(request: Request) -> Result<String, BodyError> {
///     let bytes = request.into_body().collect(1024 * 1024).await?;
///     Ok(format!("{} bytes", bytes.len()))
/// }
///
/// let server = HttpServer::new(decompressed(count, DecodeLimits::default()));
/// # drop(server);
/// ```
pub fn decompressed<S: Service>(service: S, limits: DecodeLimits) -> DecompressedService<S> {
    DecompressedService { service, limits }
}

/// A service whose answers are compressed: see [`compressed`].
#[derive(Clone, Debug)]
pub struct CompressedService<S> {
    service: S,
    compression: Compression,
}

impl<S: Service> Service for CompressedService<S> {
    async fn call(&self, request: Request) -> Response {
        let facts = CompressionFacts::of(request.method(), request.headers());
        self.compression.apply(&facts, self.service.call(request).await)
    }
}

/// A service whose requests are decompressed: see [`decompressed`].
#[derive(Clone, Debug)]
pub struct DecompressedService<S> {
    service: S,
    limits: DecodeLimits,
}

impl<S: Service> Service for DecompressedService<S> {
    async fn call(&self, request: Request) -> Response {
        match decompress(request, self.limits) {
            Ok(request) => self.service.call(request).await,
            Err(unsupported) => unsupported.into_response(),
        }
    }
}
