//! Conditional requests for real files, whose validators change with them.

use std::time::{Duration, UNIX_EPOCH};

use waterwheel_http::Files;

use crate::folder::{Request, ask, body_of, header, old, set_modified, site};

#[test]
fn h08_entity_tags_change_with_the_file_and_are_weak_at_first() {
    let folder = site();
    let files = Files::new(folder.root()).unwrap();
    let etag = || String::from(header(&ask(&files, &Request::get("/digits.txt")), "etag"));
    let path = folder.root().join("digits.txt");
    // A time in the future is as young as one of this moment, and does not depend on the speed of the test.
    let future = UNIX_EPOCH + Duration::from_secs(32_000_000_000);
    set_modified(&path, future);
    let young = ask(&files, &Request::get("/digits.txt"));
    assert!(header(&young, "etag").starts_with("W/\""), "{young:?}");
    let date = httpdate::parse_http_date(header(&young, "last-modified")).unwrap();
    assert!(date < future, "no later than now");
    let ranged = Request::get("/digits.txt").with("range", "bytes=0-0");
    let if_range = ranged.with("if-range", header(&young, "etag"));
    assert_eq!(ask(&files, &if_range).status(), 200, "a weak tag does not join ranges");

    let modified = old(&path);
    let first = etag();
    assert_eq!(etag(), first, "stable");
    set_modified(&path, modified + Duration::from_nanos(1_000));
    let second = etag();
    assert_ne!(first, second, "the time in nanoseconds counts");
    std::fs::write(&path, "01234567890").unwrap();
    set_modified(&path, modified);
    let third = etag();
    assert_ne!(first, third, "the length counts");
    folder.write("new", "01234567890");
    set_modified(&folder.root().join("new"), modified);
    std::fs::rename(folder.root().join("new"), &path).unwrap();
    assert_ne!(etag(), third, "the inode counts");
}

#[test]
fn h08_a_file_from_before_1970_has_no_date() {
    let folder = site();
    let path = folder.root().join("digits.txt");
    set_modified(&path, UNIX_EPOCH - Duration::from_secs(100));
    let files = Files::new(folder.root()).unwrap();
    let answer = ask(&files, &Request::get("/digits.txt"));
    assert_eq!((answer.status().as_u16(), header(&answer, "last-modified")), (200, ""));
    let since =
        Request::get("/digits.txt").with("if-modified-since", "Tue, 15 Nov 1994 12:45:26 GMT");
    assert_eq!(ask(&files, &since).status(), 200);
}

#[test]
fn h08_conditional_requests_are_answered_304_or_412() {
    let folder = site();
    old(&folder.root().join("digits.txt"));
    let files = Files::builder(folder.root())
        .cache_control("no-cache")
        .precompressed(true)
        .build()
        .unwrap();
    let first = ask(&files, &Request::get("/digits.txt"));
    let (etag, date) = (header(&first, "etag"), header(&first, "last-modified"));
    let get = || Request::get("/digits.txt");
    for request in [
        get().with("if-none-match", etag),
        get().with("if-none-match", &format!("\"other\", W/{etag}")),
        get().with("if-modified-since", date),
        get().with("if-none-match", etag).with("range", "bytes=0-1"),
        Request::of("HEAD", "/digits.txt").with("if-none-match", "*"),
    ] {
        let answer = ask(&files, &request);
        assert_eq!(answer.status(), 304, "{request:?}");
        assert_eq!(body_of(&answer), "");
        let mut names: Vec<_> = answer.headers().keys().map(|name| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["cache-control", "etag", "vary", "x-content-type-options"]);
        assert_eq!(header(&answer, "etag"), etag);
    }
    let long_ago = "Tue, 15 Nov 1994 12:45:26 GMT";
    for request in [
        get().with("if-match", "\"other\""),
        get().with("if-unmodified-since", long_ago),
        get().with("if-match", "\"other\"").with("if-none-match", etag),
        get().with("if-match", "\"other\"").with("range", "bytes=100-"),
    ] {
        let answer = ask(&files, &request);
        assert_eq!((answer.status().as_u16(), header(&answer, "etag")), (412, ""), "{request:?}");
    }
    for request in [
        get().with("if-match", etag),
        get().with("if-none-match", "\"other\"").with("if-modified-since", date),
        get().with("if-modified-since", long_ago),
    ] {
        assert_eq!(ask(&files, &request).status(), 200, "{request:?}");
    }
    let missing = Request::get("/missing").with("if-match", "\"x\"");
    assert_eq!(ask(&files, &missing).status(), 404, "conditions are for what exists");
    let folder_redirect = Request::get("/docs").with("if-none-match", "*");
    assert_eq!(ask(&files, &folder_redirect).status(), 301);
}
