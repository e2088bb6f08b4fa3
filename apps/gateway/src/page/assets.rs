//! The files of the page, served from the binary.

use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, StatusCode};
use waterwheel::bytes::Bytes;
use waterwheel::http::{Body, Request, Response, RouterBuilder};

/// A file of the page.
#[derive(Debug)]
struct PageFile {
    path: &'static str,
    content_type: &'static str,
    content: &'static str,
}

/// Scripts, styles, pictures and connections of the gateway only; no page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

macro_rules! page_files {
    ($($path:literal: $content_type:ident $file:literal,)*) => {
        &[$(PageFile {
            path: $path,
            content_type: $content_type,
            content: include_str!(concat!("../../page/", $file)),
        },)*]
    };
}

/// All files of the page.
static FILES: &[PageFile] = page_files! {
    "/": HTML "index.html",
    "/page/page.css": STYLE "page.css",
    "/page/page.js": SCRIPT "page.js",
    "/page/live.js": SCRIPT "live.js",
    "/page/console.js": SCRIPT "console.js",
    "/page/dom.js": SCRIPT "dom.js",
    "/page/format.js": SCRIPT "format.js",
    "/page/log.js": SCRIPT "log.js",
    "/page/loops.js": SCRIPT "loops.js",
    "/page/plots.js": SCRIPT "plots.js",
    "/page/tables.js": SCRIPT "tables.js",
    "/page/trends.js": SCRIPT "trends.js",
    "/page/icon.svg": PICTURE "icon.svg",
    "/waterwheel.js": SCRIPT "waterwheel.js",
};

/// Adds the files of the page to the routes of the gateway.
pub fn add_routes(router: RouterBuilder) -> RouterBuilder {
    FILES.iter().fold(router, |router, file| {
        let etag = entity_tag(file.content);
        router.get(file.path, move |request: Request| {
            let response = answer(file, &etag, request.header("if-none-match"));
            std::future::ready(response)
        })
    })
}

fn answer(file: &PageFile, etag: &HeaderValue, known: Option<&[u8]>) -> Response {
    debug_assert_eq!(IF_NONE_MATCH, "if-none-match");
    let is_known = known.is_some_and(|known| known == etag.as_bytes());
    let mut response = match is_known {
        true => Response::new(Body::empty()),
        false => Response::new(Body::from(Bytes::from_static(file.content.as_bytes()))),
    };
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let fields = [
        (CONTENT_TYPE, HeaderValue::from_static(file.content_type)),
        // Asked for again each time, and answered with 304: a new gateway shows its own page.
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (ETAG, etag.clone()),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    response.headers_mut().extend(fields);
    response
}

/// Returns a tag that differs when the content does: FNV-1a, which is enough to tell versions of one file apart.
fn entity_tag(content: &str) -> HeaderValue {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let hash =
        content.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    HeaderValue::try_from(format!("\"{hash:016x}\""))
        .unwrap_or_else(|_| unreachable!("hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g04_the_page_is_small_and_asks_nobody_else_for_anything() {
        let all: usize = FILES.iter().map(|file| file.content.len()).sum();
        assert!(all < 150_000, "{all} bytes");
        for file in FILES {
            let foreign = ["https://", "http://", "//cdn"].iter().find(|at| {
                // The names of vocabularies are no addresses.
                file.content.replace("http://www.w3.org/2000/svg", "").contains(**at)
            });
            assert_eq!(foreign, None, "{}", file.path);
            assert!(!file.content.contains("innerHTML"), "{} puts text in as markup", file.path);
        }
    }

    #[test]
    fn g04_scripts_and_styles_of_the_page_are_files_of_it() {
        let page = FILES[0].content;
        assert!(!page.contains("style=") && !page.contains("onclick="), "refused by the policy");
        for part in page.split(['"', '\'']).filter(|part| part.starts_with("/page/")) {
            assert!(is_served(part), "{part} is not served");
        }
        for file in FILES.iter().filter(|file| file.path.starts_with("/page/")) {
            let imports = file.content.split("from \"./").skip(1);
            for import in imports.filter_map(|rest| rest.split('"').next()) {
                assert!(is_served(&format!("/page/{import}")), "{import} of {}", file.path);
            }
        }
    }

    fn is_served(path: &str) -> bool {
        FILES.iter().any(|file| file.path == path)
    }

    #[test]
    fn g04_tags_follow_the_content() {
        assert_ne!(entity_tag("a"), entity_tag("b"));
        assert_eq!(entity_tag("a"), entity_tag("a"));
    }
}
