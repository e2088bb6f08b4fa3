//! curl: whole files, parts, conditions, compressed files, resumed downloads, ways out of the folder.

use std::fs;

use crate::site::{MODIFIED, Site, content, curl, fetch, large_text, succeed};

/// The facts that curl writes of each answer.
const SUMMARY: &str = "%{http_code} %{size_download} %{num_connects}";

#[test]
fn h15_curl_gets_files_and_parts_of_them() {
    let site = Site::new("curl_parts");
    let server = site.serve();
    let (url, large) = (format!("http://{}/large.txt", server.address()), large_text());
    let all = large.as_bytes();
    let len = all.len();
    let Some(got) = fetch(with(&[&url]), SUMMARY, &site) else { return };
    assert_eq!(got.1, format!("200 {len} 1"));
    assert!(got.0 == all, "the whole file");
    for (range, part) in [
        ("0-99", &all[..100]),
        ("5-5", &all[5..6]),
        ("4000000-", &all[4_000_000..]),
        ("-100", &all[len - 100..]),
        (&format!("100-{}", u64::MAX), &all[100..]),
    ] {
        let (body, summary) = fetch(with(&["-r", range, &url]), SUMMARY, &site).unwrap();
        assert_eq!(summary, format!("206 {} 1", part.len()), "{range}");
        assert!(body == part, "{range}");
    }
    let (body, summary) = fetch(with(&["-r", "0-1,10-11", &url]), "%{http_code}", &site).unwrap();
    let body = String::from_utf8(body).unwrap();
    assert_eq!(summary, "206");
    for part in [format!("bytes 0-1/{len}\r\n\r\nli\r\n"), format!("bytes 10-11/{len}\r\n\r\n")] {
        assert!(body.contains(&part), "{body}");
    }
    let beyond = format!("{len}-");
    let (_, summary) = fetch(with(&["-r", &beyond, &url]), "%{http_code}", &site).unwrap();
    assert_eq!(summary, "416");
}

#[test]
fn h15_curl_asks_for_heads_on_one_connection() {
    let site = Site::new("curl_head");
    let server = site.serve();
    let (host, len) = (format!("http://{}", server.address()), large_text().len());
    let urls =
        ["/large.txt", "/docs/", "/missing", "/pixel.png"].map(|path| format!("{host}{path}"));
    let mut command = with(&["-I"]);
    command.args(&urls);
    let Some(heads) = succeed(&mut command) else { return };
    let heads = String::from_utf8(heads).unwrap();
    let lengths = heads.lines().filter_map(|line| line.strip_prefix("content-length: "));
    assert_eq!(lengths.collect::<Vec<_>>(), [&*len.to_string(), "11", "14", "69"], "{heads}");
    for field in [
        "content-type: text/plain; charset=utf-8",
        "content-type: image/png",
        "accept-ranges: bytes",
        &format!("last-modified: {MODIFIED}"),
        "x-content-type-options: nosniff",
    ] {
        assert!(heads.contains(&format!("{field}\r\n")), "{field}: {heads}");
    }
    let mut command = with(&["-I", "--write-out", "%{num_connects}"]);
    for url in &urls[..3] {
        command.args(["--output", "/dev/null", url]);
    }
    let connects = succeed(&mut command);
    assert_eq!(connects.unwrap(), b"100", "one connection");
}

#[test]
fn h15_curl_asks_whether_a_file_has_changed() {
    let site = Site::new("curl_conditions");
    let server = site.serve();
    let url = format!("http://{}/large.txt", server.address());
    let form = "%{http_code} %{size_download}";
    let Some((_, fresh)) = fetch(with(&["-z", MODIFIED, &url]), form, &site) else { return };
    assert_eq!(fresh, "304 0");
    let older = "Sun, 13 Sep 2020 12:26:39 GMT";
    let whole = format!("200 {}", large_text().len());
    assert_eq!(fetch(with(&["-z", older, &url]), form, &site).unwrap().1, whole);
    let tag = site.file("tag");
    let tag = tag.to_str().unwrap();
    assert_eq!(fetch(with(&["--etag-save", tag, &url]), form, &site).unwrap().1, whole);
    assert_eq!(fetch(with(&["--etag-compare", tag, &url]), form, &site).unwrap().1, "304 0");
    // The tag of the compressed file is weak, and of the same file.
    let compressed = with(&["--compressed", "--etag-compare", tag, &url]);
    assert_eq!(fetch(compressed, form, &site).unwrap().1, "304 0");
    fs::write(site.served().join("large.txt"), "changed").unwrap();
    assert_eq!(fetch(with(&["--etag-compare", tag, &url]), form, &site).unwrap().1, "200 7");
}

#[test]
fn h15_curl_gets_compressed_files() {
    let site = Site::new("curl_compressed");
    let server = site.serve();
    let (host, large) = (format!("http://{}", server.address()), large_text());
    for coding in ["gzip", "br", "zstd"] {
        let url = format!("{host}/large.txt");
        let accept = format!("Accept-Encoding: {coding}");
        let form = "%{size_download} %header{content-encoding}";
        let Some((_, got)) = fetch(with(&["-H", &accept, &url]), form, &site) else { return };
        let (size, encoding) = got.split_once(' ').unwrap();
        assert_eq!(encoding, coding);
        assert!(size.parse::<usize>().unwrap() < large.len() / 2, "{coding}: {size} bytes");
    }
    let (body, size) =
        fetch(with(&["--compressed", &format!("{host}/large.txt")]), "%{size_download}", &site)
            .unwrap();
    assert!(body == large.as_bytes(), "curl has decoded the file");
    assert!(size.parse::<usize>().unwrap() < large.len() / 2, "{size} bytes on the wire");
    // Not worth it.
    let (body, size) =
        fetch(with(&["--compressed", &format!("{host}/large.bin")]), "%{size_download}", &site)
            .unwrap();
    assert!(body == large.as_bytes());
    assert_eq!(size, large.len().to_string());
}

#[test]
fn h15_curl_resumes_a_download() {
    let site = Site::new("curl_resume");
    let server = site.serve();
    let (url, large) = (format!("http://{}/large.txt", server.address()), large_text());
    let target = site.file("download");
    for begin in [0, 1, 3_000_000, large.len() - 1] {
        fs::write(&target, &large[..begin]).unwrap();
        let mut command = with(&["-C", "-", "--write-out", "%{http_code} %{size_download}", &url]);
        let Some(written) = succeed(command.arg("--output").arg(&target)) else { return };
        let status = if begin == 0 { 200 } else { 206 };
        let expected = format!("{status} {}", large.len() - begin);
        assert_eq!(String::from_utf8(written).unwrap(), expected);
        assert!(content(&target) == large.as_bytes(), "from {begin}");
    }
}

#[test]
fn h15_several_curls_read_slowly_and_get_everything() {
    let site = Site::new("curl_slow");
    let server = site.serve();
    let (url, large) = (format!("http://{}/large.txt", server.address()), large_text());
    let targets: Vec<_> = (0..8).map(|number| site.file(&format!("slow{number}"))).collect();
    let mut command = with(&["--parallel", "--limit-rate", "4M"]);
    for target in &targets {
        command.arg("--output").arg(target).arg(&url);
    }
    if succeed(&mut command).is_some() {
        for target in targets {
            assert!(content(&target) == large.as_bytes(), "{}", target.display());
        }
    }
}

#[test]
fn h15_curl_finds_no_way_out_and_follows_the_redirect_to_a_folder() {
    let site = Site::new("curl_paths");
    let server = site.serve();
    let host = format!("http://{}", server.address());
    for path in ["/../secret", "/docs/../../secret", "/%2e%2e/secret", "/..%2fsecret", "//secret"] {
        let url = format!("{host}{path}");
        let got = fetch(with(&["--path-as-is", &url]), "%{http_code}", &site);
        let Some((body, status)) = got else { return };
        assert_eq!((status.as_str(), &body[..]), ("404", &b"404 Not Found\n"[..]), "{path}");
    }
    let url = format!("{host}/docs?a=b");
    let got = fetch(with(&["-L", &url]), "%{http_code} %{url_effective}", &site).unwrap();
    assert_eq!(got, (b"<p>docs</p>".to_vec(), format!("200 {host}/docs/?a=b")));
    let url = format!("{host}/large.txt");
    let got = fetch(with(&["-X", "DELETE", &url]), "%{http_code} %header{allow}", &site).unwrap();
    assert_eq!(got.1, "405 GET, HEAD");
}

/// Returns a curl with these arguments.
fn with(args: &[&str]) -> std::process::Command {
    let mut curl = curl();
    curl.args(args);
    curl
}
