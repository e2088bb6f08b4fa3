//! A temporary folder, and requests for the files in it.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::Response;
use waterwheel_http::{FileBody, FilePart, Files};

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

/// Asks for a file, and checks what holds for every answer: the length in the header is that of the body.
pub(crate) fn ask(files: &Files, request: &Request) -> Response<FileBody> {
    let answer = files.answer(&request.parts, &request.path);
    if request.parts.method != "HEAD" && answer.status() != 304 {
        assert_eq!(header(&answer, "content-length"), answer.body().len().to_string());
        assert_eq!(answer.body().is_empty(), body_of(&answer).is_empty());
    }
    answer
}

/// Returns the value of a header, or nothing.
pub(crate) fn header<'a>(answer: &'a Response<FileBody>, name: &str) -> &'a str {
    answer.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

/// Reads the body.
pub(crate) fn body_of(answer: &Response<FileBody>) -> String {
    let part = |part: &FilePart| match part {
        FilePart::Bytes(bytes) => bytes.to_vec(),
        FilePart::Region(region) => region.read(usize::MAX).unwrap().to_vec(),
    };
    let bytes = match answer.body() {
        FileBody::Text(bytes) => bytes.to_vec(),
        FileBody::Region(region) => region.read(usize::MAX).unwrap().to_vec(),
        FileBody::Parts(parts) => parts.iter().flat_map(part).collect(),
        _ => Vec::new(),
    };
    String::from_utf8(bytes).unwrap()
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
