//! Files over TLS, where the kernel cannot send them: they are read in pieces.

use std::fs;

use crate::program::Program;
use crate::site::{MODIFIED, Site, content, curl, fetch, large_text, succeed};

#[test]
fn h08_files_over_tls_are_the_same() {
    let site = Site::new("tls");
    let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (site.file("cert.pem"), site.file("key.pem"));
    fs::write(&certificate, identity.cert.pem()).unwrap();
    fs::write(&key, identity.signing_key.serialize_pem()).unwrap();
    let server = Program::start(
        "files",
        &[&"--tls", &certificate.display(), &key.display(), &0, &site.served().display()],
    );
    let large = large_text();
    let url = format!("https://{}/large.txt", server.address());
    let with = |args: &[&str]| {
        let mut curl = curl();
        curl.arg("-k").args(args).arg(&url);
        curl
    };
    let form = "%{http_code} %{http_version}";
    let Some((body, summary)) = fetch(with(&[]), form, &site) else { return };
    assert_eq!(summary, "200 1.1");
    assert!(body == large.as_bytes(), "the whole file");
    let (body, summary) = fetch(with(&["-r", "100-4000099"]), form, &site).unwrap();
    assert_eq!(summary, "206 1.1");
    assert!(body == large.as_bytes()[100..=4_000_099]);
    let (body, _) = fetch(with(&["-r", "0-1,9-9"]), form, &site).unwrap();
    assert!(String::from_utf8(body).unwrap().contains("\r\n\r\nli\r\n--"), "two parts");
    let (body, size) = fetch(with(&["--compressed"]), "%{size_download}", &site).unwrap();
    assert!(body == large.as_bytes() && size.parse::<usize>().unwrap() < large.len() / 2, "{size}");
    assert_eq!(fetch(with(&["-z", MODIFIED]), "%{http_code}", &site).unwrap().1, "304");
    let head = String::from_utf8(succeed(&mut with(&["-I"])).unwrap()).unwrap();
    assert!(head.contains(&format!("content-length: {}\r\n", large.len())), "{head}");
    let target = site.file("download");
    fs::write(&target, &large[..1_234_567]).unwrap();
    succeed(with(&["-C", "-"]).arg("--output").arg(&target)).unwrap();
    assert!(content(&target) == large.as_bytes(), "resumed");
}
