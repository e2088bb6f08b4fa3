//! The fields of messages on their way through the proxy.

use std::fmt::Write;
use std::net::IpAddr;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// The name of the proxy in Via: a pseudonym, because the real name is of no use to a client.
const PSEUDONYM: &str = "1.1 waterwheel";

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Fields of one connection, besides those that Connection names (RFC 9110, section 7.6.1). Upgrade is the business of
/// the caller, Proxy-… of [`is_for_proxies`]. Content-Length and Transfer-Encoding are written anew with the message.
const OF_CONNECTION: [HeaderName; 5] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
];

/// Removes the fields that concern one connection only. Returns the value of Upgrade, if Connection names that field.
pub(crate) fn remove_connection_fields(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .collect();
    let upgrade = headers.remove(header::UPGRADE).filter(|_| named.contains(&header::UPGRADE));
    // A client cannot take these off its request: the framing is known already, and a request has a Host.
    let is_kept = |name: &HeaderName| [header::HOST, header::CONTENT_LENGTH].contains(name);
    for name in named.iter().filter(|name| !is_kept(name)).chain(&OF_CONNECTION) {
        headers.remove(name);
    }
    let for_proxies: Vec<_> = headers.keys().filter(|name| is_for_proxies(name)).cloned().collect();
    for name in for_proxies {
        headers.remove(name);
    }
    upgrade
}

/// True for Proxy-Authorization and its like, and for Proxy, which programs behind CGI take for the name of a proxy that
/// they are to use. Proxy-Status is for the client.
fn is_for_proxies(name: &HeaderName) -> bool {
    let name = name.as_str();
    name == "proxy" || (name.starts_with("proxy-") && name != "proxy-status")
}

/// Adds the proxy to Via.
pub(crate) fn add_via(headers: &mut HeaderMap) {
    append(headers, header::VIA, PSEUDONYM);
}

/// Tells the upstream of the client's address and of the scheme and host that it has asked for.
pub(crate) fn add_forwarded(headers: &mut HeaderMap, client: Option<IpAddr>) {
    let mut forwarded = String::from("for=");
    // Writing to a string does not fail.
    let _ = match client {
        Some(IpAddr::V4(address)) => write!(forwarded, "{address}"),
        Some(IpAddr::V6(address)) => write!(forwarded, "\"[{address}]\""),
        None => write!(forwarded, "unknown"),
    };
    // The server has checked that a Host is a host, which needs no escapes.
    if let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) {
        let _ = write!(forwarded, ";host=\"{host}\"");
    }
    forwarded.push_str(";proto=http");
    append(headers, header::FORWARDED, &forwarded);
    if let Some(client) = client {
        append(headers, X_FORWARDED_FOR, &client.to_string());
    }
    // The scheme that the first proxy was asked with is the one that matters.
    headers.entry(X_FORWARDED_PROTO).or_insert(HeaderValue::from_static("http"));
}

/// Appends an element to a field that is a list, in one line.
fn append(headers: &mut HeaderMap, name: HeaderName, element: &str) {
    let mut list = Vec::new();
    for value in headers.get_all(&name) {
        list.extend_from_slice(value.as_bytes());
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(element.as_bytes());
    // Made of field values and of what fits into one.
    if let Ok(list) = HeaderValue::from_bytes(&list) {
        headers.insert(name, list);
    }
}
