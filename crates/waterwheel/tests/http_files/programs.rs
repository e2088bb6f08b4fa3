//! wget and Python's http.client.

use std::fs;
use std::process::Command;

use crate::site::{Site, content, large_text, run, succeed};

fn wget(args: &[&str]) -> Command {
    let mut wget = Command::new("wget");
    wget.args(["--no-proxy", "--no-verbose", "--tries=1", "--timeout=60"]).args(args);
    wget
}

#[test]
fn h15_wget_resumes_a_download() {
    let site = Site::new("wget_resume");
    let server = site.serve();
    let (url, large) = (format!("http://{}/large.txt", server.address()), large_text());
    let target = site.file("download");
    fs::write(&target, &large[..2_000_000]).unwrap();
    if succeed(wget(&["-c", &url]).arg("-O").arg(&target)).is_some() {
        assert!(content(&target) == large.as_bytes());
    }
}

#[test]
fn h15_wget_asks_for_what_is_newer_and_follows_the_links_of_a_page() {
    let site = Site::new("wget_pages");
    let server = site.serve();
    let (url, mirror) = (format!("http://{}/", server.address()), site.file("mirror"));
    let get = || {
        let mut command = wget(&["-N", "-r", "-l", "2", "-nH", "--no-parent", &url]);
        run(command.arg("-P").arg(&mirror))
    };
    let Some(first) = get() else { return };
    // robots.txt, which is missing, is no error for wget.
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    for path in ["index.html", "style.css", "app.js", "pixel.png", "shape.svg"] {
        let original = content(&site.served().join(path));
        assert!(content(&mirror.join(path)) == original && !original.is_empty(), "{path}");
    }
    // The name of the link, which is a redirect to the folder.
    assert_eq!(content(&mirror.join("docs")), b"<p>docs</p>");
    let again = get().unwrap();
    let log = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(again.status.success() && !log.contains("pixel.png\" ["), "not modified: {log}");
}

const CLIENT: &str = r#"
import http.client, sys
host, size = sys.argv[1], int(sys.argv[2])
client = http.client.HTTPConnection(host, timeout=60)
def ask(method, path, **fields):
    client.request(method, path, headers={name.replace("_", "-"): value for name, value in fields.items()})
    answer = client.getresponse()
    return answer, answer.read()
answer, body = ask("GET", "/large.txt")
socket = client.sock
assert (answer.status, len(body)) == (200, size), (answer.status, len(body))
tag, date = answer.headers["ETag"], answer.headers["Last-Modified"]
answer, nothing = ask("HEAD", "/large.txt")
assert (answer.status, nothing, answer.headers["Content-Length"]) == (200, b"", str(size))
for fields in ({"If_None_Match": tag}, {"If_Modified_Since": date}):
    answer, nothing = ask("GET", "/large.txt", **fields)
    assert (answer.status, nothing) == (304, b""), (answer.status, fields)
answer, part = ask("GET", "/large.txt", Range="bytes=7-1006", If_Range=tag)
assert (answer.status, part) == (206, body[7:1007])
assert answer.headers["Content-Range"] == f"bytes 7-1006/{size}"
answer, _ = ask("GET", "/large.txt", If_Match='"other"')
assert answer.status == 412
import gzip
answer, encoded = ask("GET", "/large.txt", Accept_Encoding="gzip")
assert answer.headers["Content-Encoding"] == "gzip" and gzip.decompress(encoded) == body
answer, _ = ask("POST", "/large.txt")
assert answer.status == 405
assert client.sock is socket, "all of them on one connection"
print("done")
"#;

#[test]
fn h15_python_asks_for_files_on_one_connection() {
    let site = Site::new("python");
    let server = site.serve();
    let mut python = Command::new("python3");
    python.args(["-c", CLIENT, &server.address().to_string(), &large_text().len().to_string()]);
    if let Some(printed) = succeed(&mut python) {
        assert_eq!(printed, b"done\n");
    }
}
