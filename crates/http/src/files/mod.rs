//! Files of a folder as answers (H08): ranges, conditions, types, and no way out of the folder.
//!
//! ```text
//!   path of the URI ──► url_path ──► root ───────► validators ──► preconditions ──► byte_range ──► answers
//!                       decode once  open, check   tag, date      304, 412          206, 416       body
//!                       refuse: 404  within: 404
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
//! 6. **The disk** is read on the thread that calls: a few system calls here, and `sendfile` when the body is sent. Put
//!    folders of a slow network file system on other loops than latency-critical channels.

mod answers;
mod body;
mod builder;
mod byte_range;
mod entity_tag;
mod media_type;
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

use http::{Method, Response, StatusCode, request};

pub use crate::files::body::{FileBody, FilePart};
pub use crate::files::builder::{DEFAULT_MAX_RANGES, FilesBuilder, InvalidFiles};

use crate::files::answers::{FoundFile, answer_file, method_answer, redirect_answer, text_answer};
use crate::files::builder::FilesSettings;
use crate::files::precompressed::accepted_codings;
use crate::files::root::EntryKind;
use crate::files::url_path::RelativePath;

/// A folder whose files are served. Clones share it; they may be used on any thread.
///
/// ```
/// use waterwheel_http::{FileBody, Files};
///
/// let files = Files::new("src")?;
/// let request = http::Request::get("/lib.rs").header("range", "bytes=0-99").body(()).unwrap();
/// let (request, ()) = request.into_parts();
/// let answer = files.answer(&request, request.uri.path());
/// assert_eq!(answer.status(), 206);
/// assert!(matches!(answer.body(), FileBody::Region(region) if region.len() == 100));
/// # Ok::<(), waterwheel_http::InvalidFiles>(())
/// ```
#[derive(Clone)]
pub struct Files {
    settings: Arc<FilesSettings>,
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
    /// end of it behind a prefix. `Content-Length` is set, also in answers to HEAD, which have no body.
    #[must_use]
    pub fn answer(&self, request: &request::Parts, path: &str) -> Response<FileBody> {
        if request.method != Method::GET && request.method != Method::HEAD {
            return method_answer();
        }
        let mut response = self.try_answer(request, path).unwrap_or_else(|error| {
            let root = &self.settings.root.path;
            tracing::warn!(?path, ?root, %error, "a file cannot be served; the client is answered 500");
            text_answer(StatusCode::INTERNAL_SERVER_ERROR)
        });
        if request.method == Method::HEAD {
            *response.body_mut() = FileBody::Empty;
        }
        response
    }

    fn try_answer(&self, request: &request::Parts, path: &str) -> io::Result<Response<FileBody>> {
        let RelativePath { path: relative, mut trailing_slash } = match url_path::resolve(
            path,
            self.settings.hidden_files,
        ) {
            Ok(resolved) => resolved,
            Err(refusal) => {
                tracing::debug!(?path, %refusal, "a path names no file; the client is answered 404");
                return Ok(text_answer(StatusCode::NOT_FOUND));
            }
        };
        if path.is_empty() {
            trailing_slash = request.uri.path().ends_with('/');
        }
        if trailing_slash {
            for name in &self.settings.index_names {
                if let Some(found) = self.find(request, &relative.join(name))? {
                    return self.answer_found(request, found);
                }
            }
            return Ok(text_answer(StatusCode::NOT_FOUND));
        }
        if let Some(found) = self.find(request, &relative)? {
            return self.answer_found(request, found);
        }
        Ok(match self.settings.root.kind_of(&relative)? {
            EntryKind::Folder => self.redirect(request, &relative),
            EntryKind::File | EntryKind::Absent => text_answer(StatusCode::NOT_FOUND),
        })
    }

    /// Finds a file, or the compressed one beside it that the request likes best.
    fn find(&self, request: &request::Parts, relative: &Path) -> io::Result<Option<FoundFile>> {
        let settings = &*self.settings;
        let media_type = || settings.media_types.type_of(relative);
        if settings.precompressed && settings.root.kind_of(relative)? == EntryKind::File {
            for coding in accepted_codings(&request.headers) {
                if let Some(opened) = settings.root.open(&coding.sibling_of(relative))? {
                    let media_type = media_type();
                    return Ok(Some(FoundFile { opened, media_type, coding: Some(coding) }));
                }
            }
        }
        let opened = settings.root.open(relative)?;
        Ok(opened.map(|opened| FoundFile { opened, media_type: media_type(), coding: None }))
    }

    fn answer_found(
        &self,
        request: &request::Parts,
        found: FoundFile,
    ) -> io::Result<Response<FileBody>> {
        #[expect(
            clippy::disallowed_methods,
            reason = "compared with the time of day at which a file was modified"
        )]
        let now = SystemTime::now();
        answer_file(&self.settings, request, found, now)
    }

    /// Redirects to a folder. Its name is in `relative`; that of the root only in the URI.
    fn redirect(&self, request: &request::Parts, relative: &Path) -> Response<FileBody> {
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

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Files({:?})", self.settings.root.path)
    }
}
