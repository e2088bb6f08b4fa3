//! Media types that are worth compressing.

/// Types that are text in substance, though neither their name nor their suffix says so, and binary types without a
/// compression of their own.
const COMPRESSIBLE: [&str; 21] = [
    "application/ecmascript",
    "application/graphql",
    "application/javascript",
    "application/json",
    "application/ndjson",
    "application/rtf",
    "application/sql",
    "application/toml",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/x-javascript",
    "application/x-ndjson",
    "application/x-sh",
    "application/x-www-form-urlencoded",
    "application/x-yaml",
    "application/xml",
    "application/yaml",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/x-icon",
];

/// Structured syntaxes of text (RFC 6838, section 4.2.8).
const SUFFIXES: [&str; 4] = ["+json", "+text", "+xml", "+yaml"];

/// Returns the media type of a Content-Type without its parameters.
pub(super) fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim_matches([' ', '\t'])
}

/// True if bodies of this type become much smaller: text, JSON, XML, scripts, SVG, WebAssembly, uncompressed fonts. Images,
/// video, archives and all unknown types do not.
pub(super) fn is_compressible(essence: &str) -> bool {
    has_prefix(essence, "text/")
        || COMPRESSIBLE.iter().any(|listed| essence.eq_ignore_ascii_case(listed))
        || SUFFIXES.iter().any(|suffix| has_suffix(essence, suffix))
}

fn has_prefix(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

fn has_suffix(text: &str, suffix: &str) -> bool {
    let start = text.len().checked_sub(suffix.len());
    start.and_then(|at| text.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h09_text_is_worth_compressing_and_images_and_archives_are_not() {
        for (content_type, compressible) in [
            ("text/html; charset=utf-8", true),
            ("TEXT/Plain", true),
            ("text/event-stream", true),
            ("application/json", true),
            (" application/JSON ; charset=utf-8", true),
            ("application/problem+json", true),
            ("application/atom+xml;type=feed", true),
            ("image/svg+xml", true),
            ("text/javascript", true),
            ("application/wasm", true),
            ("font/ttf", true),
            ("font/woff2", false),
            ("image/png", false),
            ("image/jpeg", false),
            ("video/mp4", false),
            ("audio/ogg", false),
            ("application/zip", false),
            ("application/gzip", false),
            ("application/octet-stream", false),
            ("application/pdf", false),
            ("application/grpc", false),
            ("multipart/byteranges; boundary=x", false),
            ("application/jsonish", false),
            ("text", false),
            ("é", false),
            ("", false),
        ] {
            assert_eq!(is_compressible(essence(content_type)), compressible, "{content_type:?}");
        }
    }
}
