//! Which pages may use the gateway: those of its own host, and those of a list.
//!
//! Browsers let any page send requests and open WebSockets to any server, a gateway on this machine too. They name the page
//! in the field `Origin`, in all requests that change something and in those whose answers a page of another host could read.

use waterwheel::http::Request;

use crate::error_code::{ErrorCode, GatewayError};

/// The origin of a request that is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AcceptedOrigin {
    /// No page, or a page of the host that the request is for.
    Own,
    /// A page of another host, which is on the list. Its text is a value of a field.
    Listed(String),
}

/// Checks the origin of a request.
///
/// # Errors
/// `not_permitted`: a page of another host, which is not on the list.
pub(super) fn check_origin(
    request: &Request,
    allowed: &[String],
) -> Result<AcceptedOrigin, GatewayError> {
    let Some(origin) = request.header("origin") else { return Ok(AcceptedOrigin::Own) };
    let host = request.header("host");
    let text = std::str::from_utf8(origin).ok();
    // Browsers leave the standard port out of both.
    let authority = text.and_then(|text| text.split_once("://")).map(|(_, authority)| authority);
    if let (Some(authority), Some(host)) = (authority, host)
        && authority.as_bytes().eq_ignore_ascii_case(host)
    {
        return Ok(AcceptedOrigin::Own);
    }
    let is_listed =
        |text: &str| allowed.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(text));
    match text {
        Some(text) if is_listed(text) => Ok(AcceptedOrigin::Listed(text.to_owned())),
        _ => Err(GatewayError::new(
            ErrorCode::NotPermitted,
            "pages of this origin may not use the gateway; the operator lists others in origins.allowed",
        )),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use waterwheel::http::Incoming;

    use super::*;

    #[test]
    fn g03_a_page_of_another_host_is_accepted_if_it_is_listed_only() {
        let own = Ok(AcceptedOrigin::Own);
        let listed = |text: &str| Ok(AcceptedOrigin::Listed(text.to_owned()));
        let refused = Err(ErrorCode::NotPermitted);
        let list: &[&str] = &["https://example.org", "null"];
        let table = [
            (None, list, own.clone()),
            (Some("http://gateway:7000"), list, own.clone()),
            (Some("https://GATEWAY:7000"), &[], own),
            (Some("https://example.org"), list, listed("https://example.org")),
            (Some("null"), list, listed("null")),
            (Some("http://example.org"), list, refused.clone()),
            (Some("https://example.org.evil"), list, refused.clone()),
            (Some("http://gateway"), list, refused.clone()),
            (Some("http://gateway:7000.evil"), list, refused.clone()),
            (Some("gateway:7000"), list, refused.clone()),
            (Some("null"), &[], refused.clone()),
            (Some(""), &[], refused),
            (Some("http://any"), &["*"], listed("http://any")),
        ];
        for (origin, list, expected) in table {
            let mut request = Request::new(Incoming::empty());
            request.headers_mut().insert("host", HeaderValue::from_static("gateway:7000"));
            if let Some(origin) = origin {
                request.headers_mut().insert("origin", HeaderValue::from_static(origin));
            }
            let list: Vec<String> = list.iter().map(|&text| text.to_owned()).collect();
            let accepted = check_origin(&request, &list).map_err(|error| error.code);
            assert_eq!(accepted, expected, "{origin:?}");
        }
    }
}
