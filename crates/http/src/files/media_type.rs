//! Media types of files, by the extension of their names.

use std::collections::HashMap;
use std::path::Path;

use http::HeaderValue;

/// The longest extension that is looked up, in bytes; `webmanifest` has eleven.
pub(crate) const MAX_EXTENSION_LEN: usize = 16;

/// The type of files with an extension that is not known: browsers offer to save such a file.
const UNKNOWN: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Types that were added to the built-in ones, or replace them, by extension in lower case.
#[derive(Clone, Debug, Default)]
pub(crate) struct MediaTypes {
    added: HashMap<Box<str>, HeaderValue>,
}

impl MediaTypes {
    /// Adds a type, or replaces one. Letters of the extension may be upper or lower case.
    pub(crate) fn add(&mut self, extension: &str, media_type: HeaderValue) {
        self.added.insert(extension.to_ascii_lowercase().into_boxed_str(), media_type);
    }

    /// Returns the type of a file, by the text after the last dot of its name.
    pub(crate) fn type_of(&self, path: &Path) -> HeaderValue {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let mut buffer = [0; MAX_EXTENSION_LEN];
        let Some(extension) = extension.and_then(|text| to_lowercase(text, &mut buffer)) else {
            return UNKNOWN;
        };
        let built_in = || built_in_type(extension).map(HeaderValue::from_static);
        self.added.get(extension).cloned().or_else(built_in).unwrap_or(UNKNOWN)
    }
}

/// Returns the text in lower case without allocating; `None` if it is too long.
fn to_lowercase<'a>(text: &str, buffer: &'a mut [u8; MAX_EXTENSION_LEN]) -> Option<&'a str> {
    let copy = buffer.get_mut(..text.len())?;
    copy.copy_from_slice(text.as_bytes());
    copy.make_ascii_lowercase();
    std::str::from_utf8(copy).ok()
}

/// Text that clients would otherwise guess the encoding of is declared as UTF-8.
fn built_in_type(extension: &str) -> Option<&'static str> {
    Some(match extension {
        // Text and code.
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "txt" | "log" => "text/plain; charset=utf-8",
        "md" => "text/markdown; charset=utf-8",
        "csv" => "text/csv; charset=utf-8",
        "ics" => "text/calendar; charset=utf-8",
        "vtt" => "text/vtt; charset=utf-8",
        "xml" => "text/xml; charset=utf-8",
        "xhtml" => "application/xhtml+xml",
        "atom" => "application/atom+xml",
        "rss" => "application/rss+xml",
        "json" | "map" => "application/json",
        "jsonld" => "application/ld+json",
        "webmanifest" => "application/manifest+json",
        "yaml" | "yml" => "application/yaml",
        "wasm" => "application/wasm",
        // Images.
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "apng" => "image/apng",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "bmp" => "image/bmp",
        "tif" | "tiff" => "image/tiff",
        "ico" => "image/vnd.microsoft.icon",
        // Fonts.
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        "otf" => "font/otf",
        // Sound and video.
        "mp3" => "audio/mpeg",
        "m4a" => "audio/mp4",
        "oga" | "ogg" | "opus" => "audio/ogg",
        "wav" => "audio/wav",
        "flac" => "audio/flac",
        "mp4" | "m4v" => "video/mp4",
        "webm" => "video/webm",
        "ogv" => "video/ogg",
        // Documents and archives.
        "pdf" => "application/pdf",
        "epub" => "application/epub+zip",
        "zip" => "application/zip",
        "gz" | "tgz" => "application/gzip",
        "bz2" => "application/x-bzip2",
        "xz" => "application/x-xz",
        "zst" => "application/zstd",
        "tar" => "application/x-tar",
        "7z" => "application/x-7z-compressed",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h08_types_go_by_the_last_extension() {
        let rows = [
            ("index.html", "text/html; charset=utf-8"),
            ("a/b/INDEX.HTM", "text/html; charset=utf-8"),
            ("main.css", "text/css; charset=utf-8"),
            ("main.js", "text/javascript; charset=utf-8"),
            ("main.mjs", "text/javascript; charset=utf-8"),
            ("main.js.map", "application/json"),
            ("data.json", "application/json"),
            ("app.webmanifest", "application/manifest+json"),
            ("logo.svg", "image/svg+xml"),
            ("photo.jpg", "image/jpeg"),
            ("photo.JPEG", "image/jpeg"),
            ("favicon.ico", "image/vnd.microsoft.icon"),
            ("font.woff2", "font/woff2"),
            ("code.wasm", "application/wasm"),
            ("all.tar.gz", "application/gzip"),
            ("a.b/README", "application/octet-stream"),
            ("README", "application/octet-stream"),
            ("html", "application/octet-stream"),
            (".html", "application/octet-stream"),
            ("a.", "application/octet-stream"),
            ("a.unknown", "application/octet-stream"),
            ("a.extension-that-is-far-too-long", "application/octet-stream"),
            ("a.ℋtml", "application/octet-stream"),
            ("", "application/octet-stream"),
        ];
        let types = MediaTypes::default();
        for (path, expected) in rows {
            assert_eq!(types.type_of(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn h08_types_can_be_added_and_replaced() {
        let mut types = MediaTypes::default();
        types.add("Water", HeaderValue::from_static("application/x-water"));
        types.add("js", HeaderValue::from_static("application/javascript"));
        assert_eq!(types.type_of(Path::new("a.wATER")), "application/x-water");
        assert_eq!(types.type_of(Path::new("a.js")), "application/javascript");
        assert_eq!(types.type_of(Path::new("a.mjs")), "text/javascript; charset=utf-8");
    }
}
