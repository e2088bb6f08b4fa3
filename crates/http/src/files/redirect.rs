//! The redirect from a folder's path without a slash to the one with it.

use std::fmt::Write;

/// Returns the value of `Location`: the last name of the path with a slash behind it, relative to the request.
///
/// A relative reference cannot lead to another host, whatever the path was, and stays right behind a prefix that was
/// cut off. With `./` in front, a name such as `javascript:x` is not read as a scheme.
pub(crate) fn location_of_folder(name: &[u8], query: Option<&str>) -> String {
    let mut location = String::from("./");
    for byte in name {
        let is_unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
        push_byte(&mut location, *byte, is_unreserved);
    }
    location.push('/');
    if let Some(query) = query {
        location.push('?');
        for byte in query.bytes() {
            push_byte(&mut location, byte, byte.is_ascii_graphic());
        }
    }
    location
}

fn push_byte(location: &mut String, byte: u8, as_it_is: bool) {
    if as_it_is {
        location.push(char::from(byte));
    } else {
        // Writing to a string cannot fail.
        let _ = write!(location, "%{byte:02X}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h08_redirects_stay_on_the_host_and_in_the_header() {
        let rows: [(&[u8], Option<&str>, &str); 9] = [
            (b"docs", None, "./docs/"),
            (b"docs", Some("a=b&c=%20/"), "./docs/?a=b&c=%20/"),
            (b"docs", Some(""), "./docs/?"),
            (b"a b%2e", None, "./a%20b%252e/"),
            (b"evil.com", None, "./evil.com/"),
            (b"https:x@evil.com", None, "./https%3Ax%40evil.com/"),
            (b"a\r\nSet-Cookie: x=1", None, "./a%0D%0ASet-Cookie%3A%20x%3D1/"),
            ("ä?#".as_bytes(), None, "./%C3%A4%3F%23/"),
            (b"d", Some("ä b"), "./d/?%C3%A4%20b"),
        ];
        for (name, query, expected) in rows {
            assert_eq!(location_of_folder(name, query), expected);
        }
    }
}
