//! A temporary folder, and requests for the files in it.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{Response, request};
use waterwheel_channel::{ChannelOptions, FileRegion};
use waterwheel_executor::Error;
use waterwheel_http::{Files, HttpServer, Request as ServiceRequest};
use waterwheel_testkit::embedded::Embedded;

/// The content of `digits.txt`.
pub(crate) const TEXT: &str = "0123456789";

/// A folder with two others: `root`, which is served, and `outside`. Dropping it removes them.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("waterwheel-files-{}-{number}", std::process::id());
        let folder = Self(std::env::temp_dir().canonicalize().unwrap().join(name));
        fs::create_dir_all(folder.0.join("root")).unwrap();
        fs::create_dir(folder.0.join("outside")).unwrap();
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    /// Writes a file below the root, and creates its folder.
    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn write_outside(&self, path: &str, content: &str) {
        fs::write(self.0.join("outside").join(path), content).unwrap();
    }

    /// Creates a symbolic link below the root.
    pub(crate) fn link(&self, target: &str, path: &str) {
        symlink(target, self.root().join(path)).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// A folder with the files that most tests ask for.
pub(crate) fn site() -> Folder {
    let folder = Folder::new();
    for (path, content) in [
        ("index.html", "<home>"),
        ("digits.txt", TEXT),
        ("empty", ""),
        ("docs/index.html", "<docs>"),
        ("docs/a b.txt", "spaced"),
        ("bare/x", "x"),
        (".env", "SECRET"),
        (".well-known/acme", "challenge"),
    ] {
        folder.write(path, content);
    }
    folder
}

/// A request by method, path and headers.
#[derive(Debug)]
pub(crate) struct Request {
    parts: http::request::Parts,
    path: String,
}

impl Request {
    pub(crate) fn get(path: &str) -> Self {
        Self::of("GET", path)
    }

    pub(crate) fn of(method: &str, path: &str) -> Self {
        let request = http::Request::builder().method(method).body(()).unwrap();
        Self { parts: request.into_parts().0, path: String::from(path) }
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.parts.headers.append(name, value.parse().unwrap());
        self
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

/// An answer as a client receives it.
pub(crate) type Answer = Response<String>;

/// Asks for a file. The answer is that of a server's connection, whose service asks for the path as it is: some paths of
/// the tests cannot be sent.
pub(crate) fn ask(files: &Files, request: &Request) -> Answer {
    ask_by(files, &request.parts, &request.path).0
}

/// Asks for a path with the head of a request. Returns what the server has reported, too.
pub(crate) fn ask_by(files: &Files, head: &request::Parts, path: &str) -> (Answer, Option<Error>) {
    let (files, parts, path) = (files.clone(), head.clone(), path.to_owned());
    let service = move |_: ServiceRequest| {
        let answer = files.answer(&parts, &path);
        async move { answer }
    };
    let mut connection = connect(&HttpServer::new(service));
    let method = if head.method == "HEAD" { "HEAD" } else { "GET" };
    let bytes = exchange(&mut connection, &format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
    (parse(&bytes, method), connection.read_error())
}

/// Opens a connection to a server.
pub(crate) fn connect(server: &HttpServer) -> Embedded {
    let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
    Embedded::builder().options(options).build(|edit| server.initialise(edit)).unwrap()
}

/// Sends bytes, and returns what is answered.
pub(crate) fn exchange(connection: &mut Embedded, request: &str) -> Vec<u8> {
    connection.write_inbound(Bytes::copy_from_slice(request.as_bytes()));
    connection.run();
    let mut bytes = Vec::new();
    while let Some(part) = connection.read_outbound_any() {
        match part.take::<FileRegion>() {
            Ok(region) => bytes.extend_from_slice(&region.read(usize::MAX).unwrap()),
            Err(part) => bytes.extend_from_slice(&part.into_bytes().unwrap()),
        }
    }
    bytes
}

/// Parses one answer, and checks what holds for every one with a body: its length is that in the header.
pub(crate) fn parse(bytes: &[u8], method: &str) -> Answer {
    let text = std::str::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let mut answer = Response::builder().status(status);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        if name != "date" {
            answer = answer.header(name, value);
        }
    }
    let answer = answer.body(body.to_owned()).unwrap();
    if method == "HEAD" || answer.status() == 304 {
        assert_eq!(body, "", "{method}");
    } else {
        assert_eq!(header(&answer, "content-length"), body.len().to_string());
    }
    answer
}

/// Returns the value of a header, or nothing.
pub(crate) fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

/// Returns the body.
pub(crate) fn body_of(answer: &Answer) -> String {
    answer.body().clone()
}

/// Makes a file, if it exists, look as if it had been modified long ago, and returns when.
pub(crate) fn old(path: &Path) -> SystemTime {
    let modified = UNIX_EPOCH + Duration::from_millis(1_600_000_000_250);
    if path.is_file() {
        set_modified(path, modified);
    }
    modified
}

pub(crate) fn set_modified(path: &Path, modified: SystemTime) {
    File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
}
