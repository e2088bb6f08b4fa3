//! Files of a folder as answers (H08): ranges, conditions, types, and no way out of the folder.
//!
//! ```text
//!   path of the URI ──► url_path ──► root ───────► validators ──► preconditions ──► byte_range ──► answers
//!                       decode once  open within   tag, date      304, 412          206, 416       body
//!                       refuse: 404  or 404
//! ```
//!
//! # Rules
//!
//! 1. **Paths** are decoded once. `.` and `..`, empty names, NUL, backslashes and escaped slashes name nothing, and
//!    neither do names that begin with a dot, unless [allowed](FilesBuilder::hidden_files). Every refusal is a 404.
//! 2. **Links** are not followed, or [within the folder](FilesBuilder::follow_links), never out of it. A hard link or a
//!    mounted folder counts as lying in the folder.
//! 3. **Regular files** only. Folders are not listed: they have an [index file](FilesBuilder::index_names), and a path
//!    without its slash is redirected (301).
//! 4. **Ranges** that overlap, are too [many](FilesBuilder::max_ranges) or malformed are ignored, and the answer is the
//!    whole file. Several ranges are answered as `multipart/byteranges`. A client that resumes with a date rather than
//!    an entity tag does not notice two changes within one second.
//! 5. **Entity tags** are made of inode, length and time of modification, so that copies of a file on several servers
//!    have different ones. In the first seconds after a change a tag is weak: ranges and `If-Match` do not take it.
//! 6. **The disk** is read on the loop's thread: openat2, statx and close for each answer, and `sendfile` when the body is
//!    sent. With files in the page cache that is some microseconds; a cold file stops the loop, and all its channels,
//!    until the disk has answered. Put folders of a slow disk or a network file system on loops of their own.
//! 7. **Errors** of the system, such as EMFILE, are answered with 500 and in the extensions of the response, from where
//!    the server reports them. Nothing that a client can ask for makes a log line.

mod answers;
mod builder;
mod byte_range;
mod confined_open;
mod entity_tag;
mod media_type;
mod multipart;
mod path_check;
mod precompressed;
mod preconditions;
mod redirect;
mod root;
mod url_path;
mod validators;

use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use http::{Method, StatusCode, request};
use waterwheel_executor::Error;

pub use crate::files::builder::{DEFAULT_MAX_RANGES, FilesBuilder, InvalidFiles};

use crate::files::answers::{FoundFile, answer_file, method_answer, redirect_answer, text_answer};
use crate::files::builder::FilesSettings;
use crate::files::precompressed::accepted_siblings;
use crate::files::root::{FoundEntry, OpenedFile};
use crate::files::url_path::RelativePath;
use crate::service::path_params::PathParams;
use crate::service::request::Request;
use crate::service::service::{Response, Service};

/// A folder whose files are served. Clones share it; they may be used on any thread.
///
/// As a service it answers GET and HEAD for the path of the request, or, as a route that ends with a tail, for that tail:
///
/// ```
/// use waterwheel_http::{Files, HttpServer, Router};
///
/// let files = Files::new("src")?;
/// let everywhere = HttpServer::new(files.clone());
/// let router = Router::builder().get("/static/{*path}", files).build()?;
/// # drop((everywhere, router));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Files {
    settings: Arc<FilesSettings>,
}

/// The error of the system that is answered with 500.
#[derive(Debug, thiserror::Error)]
#[error(
    "the path {path:?} in the folder {root:?} cannot be served: {error}; the client is answered 500"
)]
struct UnservedPath {
    path: String,
    root: PathBuf,
    #[source]
    error: io::Error,
}

impl Files {
    /// Serves a folder with the default options.
    ///
    /// # Errors
    /// The root is not a folder that can be found.
    pub fn new(root: impl Into<PathBuf>) -> Result<Self, InvalidFiles> {
        Self::builder(root).build()
    }

    /// Returns a builder for the files below a folder.
    pub fn builder(root: impl Into<PathBuf>) -> FilesBuilder {
        FilesBuilder::new(root.into())
    }

    /// Answers a request for the file that `path` names: the path of the request's URI, still percent-encoded, or the
    /// end of it behind a prefix. An answer to HEAD has the body of GET: the server states its length, and leaves it out.
    ///
    /// ```
    /// use waterwheel_http::Files;
    ///
    /// let files = Files::new("src")?;
    /// let request = http::Request::get("/lib.rs").header("range", "bytes=0-99").body(()).unwrap();
    /// let answer = files.answer(&request.into_parts().0, "/lib.rs");
    /// assert_eq!((answer.status().as_u16(), answer.body().exact_len()), (206, Some(100)));
    /// # Ok::<(), waterwheel_http::InvalidFiles>(())
    /// ```
    #[must_use]
    pub fn answer(&self, request: &request::Parts, path: &str) -> Response {
        if request.method != Method::GET && request.method != Method::HEAD {
            return method_answer();
        }
        self.try_answer(request, path).unwrap_or_else(|error| {
            let (path, root) = (path.to_owned(), self.settings.root.path.clone());
            let mut response = text_answer(StatusCode::INTERNAL_SERVER_ERROR);
            let error = Error::new(UnservedPath { path, root, error });
            response.extensions_mut().insert(error);
            response
        })
    }

    fn try_answer(&self, request: &request::Parts, path: &str) -> io::Result<Response> {
        let RelativePath { path: relative, mut trailing_slash } = match url_path::resolve(
            path,
            self.settings.hidden_files,
        ) {
            Ok(resolved) => resolved,
            Err(refusal) => {
                tracing::trace!(?path, %refusal, "a path names no file; the client is answered 404");
                return Ok(text_answer(StatusCode::NOT_FOUND));
            }
        };
        if path.is_empty() {
            trailing_slash = request.uri.path().ends_with('/');
        }
        if trailing_slash {
            for name in &self.settings.index_names {
                let index = relative.join(name);
                if let FoundEntry::File(opened) = self.settings.root.find(&index)? {
                    return self.answer_found(request, &index, opened);
                }
            }
            return Ok(text_answer(StatusCode::NOT_FOUND));
        }
        match self.settings.root.find(&relative)? {
            FoundEntry::File(opened) => self.answer_found(request, &relative, opened),
            FoundEntry::Folder => Ok(self.redirect(request, &relative)),
            FoundEntry::Absent => Ok(text_answer(StatusCode::NOT_FOUND)),
        }
    }

    /// Answers with a file, or with the compressed one beside it that the request likes best.
    fn answer_found(
        &self,
        request: &request::Parts,
        relative: &Path,
        opened: OpenedFile,
    ) -> io::Result<Response> {
        #[expect(
            clippy::disallowed_methods,
            reason = "compared with the time of day at which a file was modified"
        )]
        let now = SystemTime::now();
        let settings = &*self.settings;
        let media_type = settings.media_types.type_of(relative);
        let mut found = FoundFile { opened, media_type, coding: None };
        if settings.precompressed {
            for sibling in accepted_siblings(&request.headers) {
                let path = sibling.path_beside(relative);
                if let FoundEntry::File(opened) = settings.root.find(&path)? {
                    found = FoundFile { opened, coding: Some(sibling.coding), ..found };
                    break;
                }
            }
        }
        answer_file(settings, request, found, now)
    }

    /// Redirects to a folder. Its name is in `relative`; that of the root only in the URI.
    fn redirect(&self, request: &request::Parts, relative: &Path) -> Response {
        let query = request.uri.query();
        if let Some(name) = relative.file_name() {
            return redirect_answer(&redirect::location_of_folder(name.as_bytes(), query));
        }
        let last = request.uri.path().rsplit('/').next().unwrap_or_default();
        match url_path::resolve(last, true) {
            Ok(RelativePath { path: name, .. }) => {
                let name = name.as_os_str().as_bytes();
                redirect_answer(&redirect::location_of_folder(name, query))
            }
            Err(_) => text_answer(StatusCode::NOT_FOUND),
        }
    }
}

impl Service for Files {
    async fn call(&self, request: Request) -> Response {
        let (request, _body) = request.into_parts();
        let tail = request.extensions.get::<PathParams>().and_then(PathParams::encoded_tail);
        self.answer(&request, tail.unwrap_or(request.uri.path()))
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Files({:?})", self.settings.root.path)
    }
}
