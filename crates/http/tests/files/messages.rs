//! Methods, headers, and compressed files beside the original.

use waterwheel_http::Files;

use crate::folder::{Request, TEXT, ask, body_of, header, old, site};

#[test]
fn h08_other_methods_are_405() {
    let folder = site();
    let files = Files::new(folder.root()).unwrap();
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "PROPFIND", "get"] {
        for path in ["/digits.txt", "/missing", "/.."] {
            let answer = ask(&files, &Request::of(method, path));
            assert_eq!(answer.status(), 405, "{method}");
            assert_eq!(header(&answer, "allow"), "GET, HEAD");
        }
    }
}

#[test]
fn h08_head_has_the_headers_of_get_and_no_body() {
    let folder = site();
    folder.write("docs/long", &"x".repeat(100_000));
    let files = Files::builder(folder.root()).cache_control("max-age=60").build().unwrap();
    for path in ["/digits.txt", "/docs/long", "/empty", "/docs", "/missing"] {
        old(&folder.root().join(&path[1..]));
        let get = ask(&files, &Request::get(path));
        let head = ask(&files, &Request::of("HEAD", path));
        assert_eq!((get.status(), get.headers()), (head.status(), head.headers()), "{path}");
        assert!(head.headers().contains_key("content-length"), "{path}");
    }
    let ranged = ask(&files, &Request::of("HEAD", "/digits.txt").with("range", "bytes=1-2"));
    assert_eq!((ranged.status().as_u16(), header(&ranged, "content-length")), (200, "10"));
}

#[test]
fn h08_a_file_has_its_type_its_validators_and_the_configured_caching() {
    let folder = site();
    let modified = old(&folder.root().join("digits.txt"));
    let files = Files::builder(folder.root())
        .cache_control("public, max-age=60")
        .media_type("TXT", "text/x-digits")
        .build()
        .unwrap();
    let answer = ask(&files, &Request::get("/digits.txt"));
    assert_eq!(header(&answer, "content-type"), "text/x-digits");
    assert_eq!(header(&answer, "cache-control"), "public, max-age=60");
    assert_eq!(header(&answer, "accept-ranges"), "bytes");
    assert_eq!(header(&answer, "last-modified"), httpdate::fmt_http_date(modified));
    assert_eq!(header(&answer, "vary"), "", "nothing was negotiated");
    let etag = header(&answer, "etag");
    assert!(
        etag.starts_with('"') && etag.ends_with('"'),
        "not strong, but the file is old: {etag}"
    );
    let home = ask(&files, &Request::get("/"));
    assert_eq!(header(&home, "content-type"), "text/html; charset=utf-8");
    let missing = ask(&files, &Request::get("/missing"));
    assert_eq!(header(&missing, "cache-control"), "", "errors are not cached");
}

#[test]
fn h08_precompressed_files_are_sent_to_clients_that_accept_them() {
    let folder = site();
    for (path, content) in [
        ("app.js", "original"),
        ("app.js.gz", "gzipped"),
        ("app.js.br", "brotli"),
        ("index.html.zst", "zstandard"),
        ("alone.js.br", "without an original"),
    ] {
        folder.write(path, content);
    }
    folder.write_outside("secret", "SECRET");
    folder.link("../outside/secret", "digits.txt.gz");
    let files = Files::builder(folder.root()).precompressed(true).build().unwrap();
    let rows = [
        ("/app.js", "gzip, br", "brotli", "br"),
        ("/app.js", "gzip, br;q=0.1", "gzipped", "gzip"),
        ("/app.js", "zstd", "original", ""),
        ("/app.js", "", "original", ""),
        ("/app.js", "gzip;q=0", "original", ""),
        ("/", "br, zstd, gzip", "zstandard", "zstd"),
        ("/app.js.gz", "gzip", "gzipped", ""),
        ("/digits.txt", "gzip", TEXT, ""),
    ];
    for (path, accepts, content, coding) in rows {
        let answer = ask(&files, &Request::get(path).with("accept-encoding", accepts));
        assert_eq!(body_of(&answer), content, "{path} {accepts}");
        assert_eq!(header(&answer, "content-encoding"), coding, "{path} {accepts}");
        assert_eq!(header(&answer, "vary"), "Accept-Encoding", "{path} {accepts}");
    }
    let get = |accepts| ask(&files, &Request::get("/app.js").with("accept-encoding", accepts));
    let (coded, original) = (get("br"), get(""));
    assert_eq!(header(&coded, "content-type"), "text/javascript; charset=utf-8");
    assert_ne!(header(&coded, "etag"), header(&original, "etag"));
    let alone = Request::get("/alone.js").with("accept-encoding", "br");
    assert_eq!(ask(&files, &alone).status(), 404);
    let off = Files::new(folder.root()).unwrap();
    let answer = ask(&off, &Request::get("/app.js").with("accept-encoding", "br"));
    assert_eq!((body_of(&answer).as_str(), header(&answer, "vary")), ("original", ""));
}
