//! Ranges of a real file.

use waterwheel_http::Files;

use crate::folder::{Request, TEXT, ask, body_of, header, old, site};

#[test]
fn h08_one_range_is_206() {
    let folder = site();
    old(&folder.root().join("digits.txt"));
    let files = Files::new(folder.root()).unwrap();
    let rows = [
        ("bytes=2-4", "234", "bytes 2-4/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
        ("bytes=0-", "0123456789", "bytes 0-9/10"),
        ("bytes=3-3,50-60", "3", "bytes 3-3/10"),
    ];
    for (range, content, content_range) in rows {
        let answer = ask(&files, &Request::get("/digits.txt").with("range", range));
        assert_eq!((answer.status().as_u16(), body_of(&answer)), (206, content.into()), "{range}");
        assert_eq!(header(&answer, "content-range"), content_range);
        assert_eq!(header(&answer, "content-length"), content.len().to_string());
        assert_eq!(header(&answer, "content-type"), "text/plain; charset=utf-8");
        assert!(answer.headers().contains_key("etag"));
    }
}

#[test]
fn h08_several_ranges_are_multipart() {
    let folder = site();
    let files = Files::new(folder.root()).unwrap();
    let answer = ask(&files, &Request::get("/digits.txt").with("range", "bytes=0-1,-3,4-4"));
    assert_eq!((answer.status().as_u16(), header(&answer, "content-range")), (206, ""));
    let boundary = header(&answer, "content-type").strip_prefix("multipart/byteranges; boundary=");
    let boundary = boundary.unwrap();
    let part = |range: &str, content: &str| {
        format!(
            "--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Range: bytes {range}/10\r\n\r\n{content}\r\n"
        )
    };
    let expected = format!(
        "{}{}{}--{boundary}--\r\n",
        part("0-1", "01"),
        part("7-9", "789"),
        part("4-4", "4")
    );
    assert_eq!(body_of(&answer), expected);
    assert_eq!(header(&answer, "content-length"), expected.len().to_string());
}

#[test]
fn h08_a_range_beyond_the_end_is_416() {
    let folder = site();
    let files = Files::new(folder.root()).unwrap();
    for (path, range, content_range) in [
        ("/digits.txt", "bytes=10-", "bytes */10"),
        ("/digits.txt", "bytes=-0", "bytes */10"),
        ("/empty", "bytes=0-0", "bytes */0"),
    ] {
        let answer = ask(&files, &Request::get(path).with("range", range));
        assert_eq!(answer.status(), 416);
        assert_eq!(header(&answer, "content-range"), content_range);
        assert_eq!(body_of(&answer), "416 Range Not Satisfiable\n");
    }
}

#[test]
fn h08_ranges_that_are_ignored_get_the_whole_file() {
    let folder = site();
    old(&folder.root().join("digits.txt"));
    let files = Files::new(folder.root()).unwrap();
    let nine = "bytes=0-0,1-1,2-2,3-3,4-4,5-5,6-6,7-7,8-8";
    let get = || Request::get("/digits.txt");
    for request in [
        get().with("range", nine),
        get().with("range", "bytes=0-5,5-6"),
        get().with("range", "bytes=5-4"),
        get().with("range", "lines=1-2"),
        get().with("range", "bytes=0-0").with("range", "bytes=1-1"),
        get().with("range", "bytes=0-0").with("if-range", "\"other\""),
        get().with("range", "bytes=100-").with("if-range", "\"other\""),
        get().with("range", "bytes=0-0").with("if-range", "Tue, 15 Nov 1994 12:45:26 GMT"),
        Request::get("/empty").with("range", "bytes=-5"),
    ] {
        let answer = ask(&files, &request);
        let whole = if request.path() == "/empty" { "" } else { TEXT };
        assert_eq!(
            (answer.status().as_u16(), body_of(&answer)),
            (200, whole.into()),
            "{request:?}"
        );
    }
    let eight = nine.strip_suffix(",8-8").unwrap();
    assert_eq!(ask(&files, &get().with("range", eight)).status(), 206, "the limit itself is kept");

    let first = ask(&files, &get());
    for name in ["etag", "last-modified"] {
        let request = get().with("range", "bytes=0-0").with("if-range", header(&first, name));
        assert_eq!(ask(&files, &request).status(), 206, "{name}");
    }
    let without = Files::builder(folder.root()).max_ranges(0).build().unwrap();
    let answer = ask(&without, &get().with("range", "bytes=0-0"));
    assert_eq!((answer.status().as_u16(), header(&answer, "accept-ranges")), (200, "none"));
    let two = Files::builder(folder.root()).max_ranges(2).build().unwrap();
    assert_eq!(ask(&two, &get().with("range", "bytes=0-0,2-2")).status(), 206);
    assert_eq!(ask(&two, &get().with("range", "bytes=0-0,2-2,4-4")).status(), 200);
}
