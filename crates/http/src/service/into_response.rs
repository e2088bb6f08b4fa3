//! Values that are responses.

use bytes::Bytes;
use http::StatusCode;

use super::service::Response;
use crate::body::error::BodyError;
use crate::body::outgoing::Body;
use waterwheel_executor::Error;

/// A value that becomes a response: a text, bytes, a status, a status with either, a [`Response`] itself, or a `Result`
/// of two of them.
///
/// ```
/// use http::StatusCode;
/// use waterwheel_http::IntoResponse;
///
/// assert_eq!("hello".into_response().status(), 200);
/// assert_eq!((StatusCode::CREATED, "made").into_response().status(), 201);
/// assert_eq!(Err::<&str, _>(StatusCode::NOT_FOUND).into_response().status(), 404);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a response",
    label = "a service returns what implements `IntoResponse`",
    note = "an error becomes a response as a `StatusCode`, as a `waterwheel::executor::Error` (status 500, reported), \
            or by an `impl IntoResponse` for a type of your own"
)]
pub trait IntoResponse {
    /// Returns the response.
    fn into_response(self) -> Response;
}

impl IntoResponse for Response {
    fn into_response(self) -> Response {
        self
    }
}

impl IntoResponse for Body {
    fn into_response(self) -> Response {
        Response::new(self)
    }
}

macro_rules! bodies {
    ($($ty:ty),*) => {
        $(impl IntoResponse for $ty {
            fn into_response(self) -> Response {
                Response::new(Body::from(self))
            }
        })*
    };
}

bodies!((), &'static str, String, Bytes, Vec<u8>);

/// The status with its name as text.
impl IntoResponse for StatusCode {
    fn into_response(self) -> Response {
        let body = match self.canonical_reason() {
            Some(reason) => Body::from(reason),
            None => Body::empty(),
        };
        (self, body).into_response()
    }
}

impl<T: IntoResponse> IntoResponse for (StatusCode, T) {
    fn into_response(self) -> Response {
        let mut response = self.1.into_response();
        *response.status_mut() = self.0;
        response
    }
}

impl<T: IntoResponse, E: IntoResponse> IntoResponse for Result<T, E> {
    fn into_response(self) -> Response {
        match self {
            Ok(value) => value.into_response(),
            Err(error) => error.into_response(),
        }
    }
}

/// An error that no one has turned into an answer: status 500 without the error's text, which may say more than a
/// stranger should know. The error is in the extensions of the response, and the server reports it from there, so that a
/// client that causes an error per request does not fill the log.
impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// The body of the request was not received: the status that says why.
impl IntoResponse for BodyError {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Refused(error) => error.status(),
            Self::LongerThan { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow { .. } | Self::TimedOut { .. } | Self::Aborted => {
                StatusCode::REQUEST_TIMEOUT
            }
            Self::Undecodable(error) => error.status(),
        };
        (status, Body::from(self.to_string())).into_response()
    }
}
