//! The answers of HTTP: JSON, and the fields for pages of other hosts.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL, HeaderValue, VARY,
};
use http::{HeaderName, StatusCode};
use waterwheel::http::{Body, Response};

use crate::error_code::GatewayError;
use crate::protocols::json::encoding::error_body;
use crate::protocols::origin::AcceptedOrigin;

/// The fields that a page of another host may send, and for how long a browser may remember that, in seconds.
const ALLOWED_FIELDS: &str = "authorization, content-type, last-event-id";
const MAX_AGE: &str = "600";

/// Returns an answer with a body of JSON.
pub(in crate::protocols) fn json_response(status: StatusCode, body: String) -> Response {
    let mut response = Response::new(Body::from(body).with_content_type("application/json"));
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns the answer to a request that was refused.
pub(in crate::protocols) fn error_response(error: &GatewayError) -> Response {
    let status = StatusCode::from_u16(error.code.http_status());
    json_response(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), error_body(error))
}

/// Lets the page of another host read an answer, if it is listed.
pub(in crate::protocols) fn share_with(origin: &AcceptedOrigin, response: &mut Response) {
    if let AcceptedOrigin::Listed(origin) = origin
        && let Ok(origin) = HeaderValue::from_str(origin)
    {
        response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        response.headers_mut().append(VARY, HeaderValue::from_static("Origin"));
    }
}

/// Returns the answer to the question of a browser whether a page may send a request.
pub(in crate::protocols) fn preflight_response(
    origin: &AcceptedOrigin,
    methods: &'static str,
) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    if matches!(origin, AcceptedOrigin::Listed(_)) {
        let fields: [(HeaderName, &'static str); 3] = [
            (ACCESS_CONTROL_ALLOW_METHODS, methods),
            (ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_FIELDS),
            (ACCESS_CONTROL_MAX_AGE, MAX_AGE),
        ];
        let fields = fields.map(|(name, value)| (name, HeaderValue::from_static(value)));
        response.headers_mut().extend(fields);
        share_with(origin, &mut response);
    }
    response
}
