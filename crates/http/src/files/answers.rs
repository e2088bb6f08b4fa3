//! The answers: status, headers and body for a file, a redirect or an error.

use std::io;
use std::time::SystemTime;

use http::header::{
    ACCEPT_RANGES, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    HeaderName, LAST_MODIFIED, LOCATION, RANGE, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, request};
use waterwheel_channel::FileRegion;

use crate::body::outgoing::Body;
use crate::content::content_coding::ContentCoding;
use crate::files::builder::FilesSettings;
use crate::files::byte_range::{RangeSelection, select_ranges};
use crate::files::multipart::{cut, multipart};
use crate::files::preconditions::{ConditionOutcome, evaluate, may_use_range};
use crate::files::root::OpenedFile;
use crate::files::validators::FileValidators;
use crate::service::service::Response;

/// A file that was found for a request.
#[derive(Debug)]
pub(crate) struct FoundFile {
    pub(crate) opened: OpenedFile,
    pub(crate) media_type: HeaderValue,
    pub(crate) coding: Option<ContentCoding>,
}

/// Returns the answer that sends a file, a part of it, or the outcome of the request's conditions.
///
/// # Errors
/// The file is not a regular file.
pub(crate) fn answer_file(
    settings: &FilesSettings,
    request: &request::Parts,
    found: FoundFile,
    now: SystemTime,
) -> io::Result<Response> {
    let FoundFile { opened: OpenedFile { file, metadata }, media_type, coding } = found;
    let validators = FileValidators::new(&metadata, now);
    let mut response = match evaluate(&request.headers, &validators) {
        ConditionOutcome::Failed => return Ok(text_answer(StatusCode::PRECONDITION_FAILED)),
        ConditionOutcome::NotModified => bare_answer(StatusCode::NOT_MODIFIED),
        ConditionOutcome::Send => {
            let whole = FileRegion::with_metadata(file, &metadata)?;
            let selection = selection_of(settings, request, &validators, whole.len());
            if selection == RangeSelection::Unsatisfiable {
                return Ok(unsatisfiable_answer(whole.len()));
            }
            let mut response = contents_answer(whole, &selection, media_type);
            let headers = response.headers_mut();
            let unit = if settings.max_ranges > 0 { "bytes" } else { "none" };
            headers.insert(ACCEPT_RANGES, HeaderValue::from_static(unit));
            if let Some(coding) = coding {
                headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
            }
            if let Some(date) = validators.last_modified() {
                insert_text(headers, LAST_MODIFIED, &httpdate::fmt_http_date(date));
            }
            response
        }
    };
    // These guide caches, and are the same in 200, 206 and 304.
    let headers = response.headers_mut();
    insert_text(headers, ETAG, &validators.etag_value());
    if let Some(value) = &settings.cache_control {
        headers.insert(CACHE_CONTROL, value.clone());
    }
    if settings.precompressed {
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    Ok(response)
}

/// Returns the part of the file that the request asks for. Ranges are defined for GET alone, and `Range` for one line.
fn selection_of(
    settings: &FilesSettings,
    request: &request::Parts,
    validators: &FileValidators,
    len: u64,
) -> RangeSelection {
    let mut lines = request.headers.get_all(RANGE).iter();
    match (lines.next(), lines.next()) {
        (Some(line), None)
            if request.method == Method::GET && may_use_range(&request.headers, validators) =>
        {
            select_ranges(line.as_bytes(), len, settings.max_ranges)
        }
        _ => RangeSelection::Whole,
    }
}

/// Returns the answer with a whole file (200) or parts of it (206).
fn contents_answer(
    whole: FileRegion,
    selection: &RangeSelection,
    media_type: HeaderValue,
) -> Response {
    let complete = whole.len();
    let (status, body, media_type, content_range) = match selection {
        RangeSelection::Parts(ranges) if let [range] = ranges[..] => {
            let body = Body::file(cut(&whole, range));
            (StatusCode::PARTIAL_CONTENT, body, media_type, Some(range.content_range(complete)))
        }
        RangeSelection::Parts(ranges) => {
            // Settings have refused media types that are not ASCII.
            let part_type = media_type.to_str().unwrap_or_default();
            let (body, boundary) = multipart(&whole, ranges, part_type);
            let text = format!("multipart/byteranges; boundary={boundary}");
            let media_type = HeaderValue::from_str(&text).unwrap_or(media_type);
            (StatusCode::PARTIAL_CONTENT, Body::from_source(body), media_type, None)
        }
        _ => (StatusCode::OK, Body::file(whole), media_type, None),
    };
    let mut response = bare_answer(status);
    *response.body_mut() = body;
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    if let Some(content_range) = content_range {
        insert_text(response.headers_mut(), CONTENT_RANGE, &content_range.to_string());
    }
    response
}

fn unsatisfiable_answer(complete: u64) -> Response {
    let mut response = text_answer(StatusCode::RANGE_NOT_SATISFIABLE);
    insert_text(response.headers_mut(), CONTENT_RANGE, &format!("bytes */{complete}"));
    response
}

/// Returns the answer to a method other than GET and HEAD.
pub(crate) fn method_answer() -> Response {
    let mut response = text_answer(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

/// Returns the answer that redirects for good.
pub(crate) fn redirect_answer(location: &str) -> Response {
    let mut response = text_answer(StatusCode::MOVED_PERMANENTLY);
    insert_text(response.headers_mut(), LOCATION, location);
    response
}

/// Returns an answer whose body is a line with its own status.
pub(crate) fn text_answer(status: StatusCode) -> Response {
    let reason = status.canonical_reason().unwrap_or_default();
    let mut response = bare_answer(status);
    *response.body_mut() = Body::from(format!("{} {reason}\n", status.as_u16()));
    response
}

fn bare_answer(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Inserts a text that was built from visible ASCII.
fn insert_text(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}
