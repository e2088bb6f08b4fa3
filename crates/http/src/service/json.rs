//! Bodies as JSON, behind the feature `json`.

use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use waterwheel_executor::Error;

use super::into_response::IntoResponse;
use super::request::Request;
use super::service::Response;
use crate::body::error::BodyError;
use crate::body::outgoing::Body;

/// A value that is sent as JSON. One that cannot be serialised becomes status 500, with the error in the extensions of
/// the response, where the server reports it.
///
/// ```
/// use waterwheel_http::{Json, JsonError, Request, request_json};
///
/// #[derive(serde::Deserialize, serde::Serialize)]
/// struct User {
///     name: String,
/// }
///
/// async fn rename(request: Request) -> Result<Json<User>, JsonError> {
///     let mut user: User = request_json(request, 64 * 1024).await?;
///     user.name.make_ascii_uppercase();
///     Ok(Json(user))
/// }
/// # fn check(_: impl waterwheel_http::Service) {}
/// # check(rename);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<T>(pub T);

/// The reason why the body of a request is not the value that was expected. Never repeats what the client sent.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum JsonError {
    /// The Content-Type is missing, repeated, or not JSON. Answered with 415.
    #[error("the Content-Type of the request is not application/json")]
    ContentType,
    /// The body is too long, or did not arrive.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The body is not JSON. Answered with 400.
    #[error("the body is not JSON: line {line}, column {column}")]
    Syntax {
        /// The line of the mistake, from 1.
        line: usize,
        /// The column of the mistake, in bytes; 0 at the start of a line.
        column: usize,
    },
    /// The body is JSON of another shape: a missing or unknown field, or a value of another type. Answered with 422.
    #[error("the JSON of the body is not the expected value: line {line}, column {column}")]
    Value {
        /// The line of the mistake, from 1.
        line: usize,
        /// The column of the mistake, in bytes; 0 at the start of a line.
        column: usize,
    },
}

/// Receives the body of a request as JSON of at most `limit` bytes.
///
/// The Content-Type must be `application/json`, or a type that ends with `+json`; parameters such as `charset` are
/// ignored, as JSON is UTF-8 (RFC 8259, section 8.1). The type is checked before the body is read. Values that are nested
/// more than 128 deep are refused.
///
/// # Errors
/// The type, the length or the syntax is wrong, or the body did not arrive. The error is a response.
pub async fn request_json<T: DeserializeOwned>(
    request: Request,
    limit: usize,
) -> Result<T, JsonError> {
    if !has_json_type(&request) {
        return Err(JsonError::ContentType);
    }
    let body = request.into_body().collect(limit).await?;
    serde_json::from_slice(&body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        match error.classify() {
            Category::Data => JsonError::Value { line, column },
            Category::Syntax | Category::Eof | Category::Io => JsonError::Syntax { line, column },
        }
    })
}

fn has_json_type(request: &Request) -> bool {
    let mut values = request.headers().get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let Ok(value) = value.to_str() else { return false };
    let essence = value.split(';').next().unwrap_or_default().trim();
    let Some((_, subtype)) = essence.split_once('/') else { return false };
    let suffix = subtype.rsplit_once('+').map(|(_, suffix)| suffix);
    essence.eq_ignore_ascii_case("application/json")
        || suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case("json"))
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(bytes) => Response::new(Body::from(bytes).with_content_type("application/json")),
            Err(error) => Error::new(error).into_response(),
        }
    }
}

impl IntoResponse for JsonError {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Body(error) => return error.into_response(),
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Syntax { .. } => StatusCode::BAD_REQUEST,
            Self::Value { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        };
        (status, self.to_string()).into_response()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use bytes::Bytes;
    use serde::Deserialize;

    use super::*;
    use crate::body::incoming::Incoming;
    use crate::body::outgoing::BodyRepr;

    #[derive(Debug, Deserialize, Serialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Point {
        x: u8,
        y: u8,
    }

    const LIMIT: usize = 20;

    fn receive(types: &[&'static str], body: &'static [u8]) -> Result<Point, JsonError> {
        let mut request = Request::new(Incoming::from(Bytes::from_static(body)));
        for value in types {
            request.headers_mut().append(CONTENT_TYPE, value.parse().unwrap());
        }
        let received = pin!(request_json(request, LIMIT));
        match received.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(received) => received,
            Poll::Pending => panic!("the body waits"),
        }
    }

    #[test]
    fn h07_a_body_is_read_as_json_of_its_type() {
        let types = [
            "application/json",
            "Application/JSON ; charset=utf-8",
            "application/problem+json",
            "model/gltf+JSON",
        ];
        for json in types {
            assert_eq!(receive(&[json], b"{\"x\":1,\"y\":2}"), Ok(Point { x: 1, y: 2 }), "{json}");
        }
        let others: [&[&str]; 6] = [
            &[],
            &["text/plain"],
            &["application/jsonx"],
            &["json"],
            &["application/json", "application/json"],
            &["application/x-www-form-urlencoded"],
        ];
        for other in others {
            assert_eq!(receive(other, b"{}"), Err(JsonError::ContentType), "{other:?}");
        }
        assert_eq!(JsonError::ContentType.into_response().status(), 415);
    }

    #[test]
    fn h07_json_that_is_wrong_is_answered_with_its_place_and_without_its_text() {
        let syntax = |line, column| (JsonError::Syntax { line, column }, 400);
        let value = |line, column| (JsonError::Value { line, column }, 422);
        let table: [(&[u8], (JsonError, u16)); 9] = [
            (b"", syntax(1, 0)),
            (b"{\"x\":1,\n\"y\":}", syntax(2, 5)),
            (b"{\"x\":1", syntax(1, 6)),
            (b"{\"x\":1,\"y\":2}<", syntax(1, 14)),
            (b"{\"x\":1,\"x\xff", syntax(1, 10)),
            (b"{\"x\":\"secret\"}", value(1, 13)),
            (b"{\"secret\":1}", value(1, 9)),
            (b"{\"x\":256}", value(1, 8)),
            (b"{\"x\":1}", value(1, 7)),
        ];
        for (body, (error, status)) in table {
            let text = String::from_utf8_lossy(body);
            assert_eq!(receive(&["application/json"], body), Err(error), "{text}");
            assert!(!error.to_string().contains("secret"));
            assert_eq!(error.into_response().status(), status, "{text}");
        }
    }

    #[test]
    fn h07_json_beyond_the_limit_is_413() {
        let error = receive(&["application/json"], b"{\"x\":1,\"y\":2, \"z\":33}").unwrap_err();
        assert_eq!(error, JsonError::Body(BodyError::LongerThan { limit: LIMIT }));
        assert_eq!(error.into_response().status(), 413);
    }

    #[test]
    fn h07_a_value_is_sent_as_json() {
        let response = Json(Point { x: 1, y: 2 }).into_response();
        assert_eq!(response.status(), 200);
        assert_eq!(response.body().content_type(), Some("application/json"));
        let BodyRepr::Bytes(bytes) = response.into_body().into_repr() else { panic!("bytes") };
        assert_eq!(bytes, "{\"x\":1,\"y\":2}");
    }

    #[test]
    fn h07_a_value_that_cannot_be_json_is_500_and_reported() {
        let keys = std::collections::BTreeMap::from([((1, 2), 3)]);
        let response = Json(keys).into_response();
        assert_eq!(response.status(), 500);
        let error = response.extensions().get::<Error>().expect("the server reports it");
        assert!(error.find::<serde_json::Error>().is_some(), "{error}");
    }
}
