//! The options of a folder that is served, and their checks.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use http::HeaderValue;
use waterwheel_executor::Error;

use crate::files::Files;
use crate::files::media_type::{MAX_EXTENSION_LEN, MediaTypes};
use crate::files::root::RootFolder;

/// The most ranges of one request that are answered, unless set otherwise: each part costs a write and about 100 bytes
/// of text, and players and download tools ask for one to a few.
pub const DEFAULT_MAX_RANGES: usize = 8;

/// The index file of a folder, unless set otherwise.
const DEFAULT_INDEX: &str = "index.html";

/// The checked options of [`Files`].
#[derive(Debug)]
pub(crate) struct FilesSettings {
    pub(crate) root: RootFolder,
    pub(crate) index_names: Vec<String>,
    pub(crate) hidden_files: bool,
    pub(crate) precompressed: bool,
    pub(crate) cache_control: Option<HeaderValue>,
    pub(crate) max_ranges: usize,
    pub(crate) media_types: MediaTypes,
}

/// Builds [`Files`]. Created by [`Files::builder`].
///
/// ```
/// use waterwheel_http::Files;
///
/// let files = Files::builder("src")
///     .index_names(["lib.rs"])
///     .cache_control("max-age=60")
///     .media_type("rs", "text/x-rust; charset=utf-8")
///     .build()?;
/// let (request, ()) = http::Request::get("/").body(()).unwrap().into_parts();
/// let answer = files.answer(&request, "/");
/// assert_eq!(answer.headers()["content-type"], "text/x-rust; charset=utf-8");
/// # Ok::<(), waterwheel_http::InvalidFiles>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until build is called"]
pub struct FilesBuilder {
    root: PathBuf,
    follow_links: bool,
    index_names: Vec<String>,
    hidden_files: bool,
    precompressed: bool,
    cache_control: Option<String>,
    max_ranges: usize,
    media_types: Vec<(String, String)>,
}

impl FilesBuilder {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self {
            root,
            follow_links: false,
            index_names: vec![String::from(DEFAULT_INDEX)],
            hidden_files: false,
            precompressed: false,
            cache_control: None,
            max_ranges: DEFAULT_MAX_RANGES,
            media_types: Vec::new(),
        }
    }

    /// Sets the names of the files that stand for their folder; the first one that exists is sent. Without any, a path
    /// that ends with a slash is answered with 404. Default: `index.html`.
    pub fn index_names<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.index_names = names.into_iter().map(Into::into).collect();
        self
    }

    /// Follows symbolic links to files and folders that lie within the root as well, also hidden ones. Links that lead
    /// out of the root are never followed. Absolute links cost six more system calls per request. Default: a path that
    /// contains a link, below the root, is answered with 404.
    pub fn follow_links(mut self, follow: bool) -> Self {
        self.follow_links = follow;
        self
    }

    /// Serves files and folders with names that begin with a dot, such as `.well-known`, but also `.git` and `.env`.
    /// Default: they are answered with 404.
    pub fn hidden_files(mut self, serve: bool) -> Self {
        self.hidden_files = serve;
        self
    }

    /// Sends `app.js.br`, `app.js.zst` or `app.js.gz` in place of `app.js` to clients that accept it. Both files must
    /// exist; nothing checks that they hold the same. Costs up to three system calls per request for files that do not
    /// exist. For files that are not there in this form, compress the answers of `Files` (`compressed`). Default: off.
    pub fn precompressed(mut self, choose: bool) -> Self {
        self.precompressed = choose;
        self
    }

    /// Sets the value of `Cache-Control` in answers with a file, and in 304. Default: none.
    pub fn cache_control(mut self, value: impl Into<String>) -> Self {
        self.cache_control = Some(value.into());
        self
    }

    /// Sets the limit of ranges in one request; one with more gets the whole file. With zero, every request does.
    /// Default: [`DEFAULT_MAX_RANGES`].
    pub fn max_ranges(mut self, max: usize) -> Self {
        self.max_ranges = max;
        self
    }

    /// Adds the media type of an extension, without its dot, or replaces the built-in one.
    pub fn media_type(
        mut self,
        extension: impl Into<String>,
        media_type: impl Into<String>,
    ) -> Self {
        self.media_types.push((extension.into(), media_type.into()));
        self
    }

    /// Checks the options, and opens the root: a link there is followed now, and not when it changes. A folder that takes
    /// the place of the root later is not seen: change its contents, or build `Files` anew.
    ///
    /// # Errors
    /// The root is not a folder that can be found, or an option is not valid.
    pub fn build(self) -> Result<Files, InvalidFiles> {
        let unusable = |path: PathBuf| |error| InvalidFiles::Root { path, error };
        if !fs::metadata(&self.root).map_err(unusable(self.root.clone()))?.is_dir() {
            return Err(InvalidFiles::RootIsNoFolder { path: self.root });
        }
        let root = RootFolder::open(&self.root, self.follow_links);
        let root = root.map_err(unusable(self.root.clone()))?;
        if let Some(name) = self.index_names.iter().find(|name| !is_file_name(name)) {
            return Err(InvalidFiles::IndexName { name: name.clone() });
        }
        let cache_control = self.cache_control.map(|value| {
            header_value(&value).ok_or_else(|| InvalidFiles::CacheControl { value: value.clone() })
        });
        let mut media_types = MediaTypes::default();
        for (extension, media_type) in self.media_types {
            if !is_extension(&extension) {
                return Err(InvalidFiles::Extension { extension });
            }
            let Some(value) = header_value(&media_type).filter(|_| media_type.contains('/')) else {
                return Err(InvalidFiles::MediaType { extension, media_type });
            };
            media_types.add(&extension, value);
        }
        let settings = FilesSettings {
            root,
            index_names: self.index_names,
            hidden_files: self.hidden_files,
            precompressed: self.precompressed,
            cache_control: cache_control.transpose()?,
            max_ranges: self.max_ranges,
            media_types,
        };
        Ok(Files { settings: Arc::new(settings) })
    }
}

/// The reason why [`Files`] could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidFiles {
    /// The root does not exist, or may not be entered.
    #[error("the folder {path:?} cannot be served: {error}")]
    Root {
        /// The path as it was given.
        path: PathBuf,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The root is not a folder.
    #[error("{path:?} cannot be served: it is not a folder")]
    RootIsNoFolder {
        /// The path as it was given.
        path: PathBuf,
    },
    /// An index name is a path, or no name at all.
    #[error("the index file {name:?} is not the name of a file in a folder")]
    IndexName {
        /// The name.
        name: String,
    },
    /// The value of `Cache-Control` cannot be sent.
    #[error("Cache-Control {value:?} is empty, or holds more than visible ASCII characters")]
    CacheControl {
        /// The value.
        value: String,
    },
    /// No file can have such an extension.
    #[error(
        "the extension {extension:?} is not one of 1 to {MAX_EXTENSION_LEN} bytes without dots and slashes"
    )]
    Extension {
        /// The extension.
        extension: String,
    },
    /// A media type is not valid.
    #[error("{media_type:?} is not a media type, for the extension {extension:?}")]
    MediaType {
        /// The extension.
        extension: String,
        /// The media type.
        media_type: String,
    },
}

impl From<InvalidFiles> for Error {
    fn from(error: InvalidFiles) -> Self {
        Error::new(error)
    }
}

fn is_file_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

fn is_extension(extension: &str) -> bool {
    (1..=MAX_EXTENSION_LEN).contains(&extension.len()) && !extension.contains(['.', '/', '\0'])
}

/// Returns the value of a header: visible characters and spaces of ASCII.
fn header_value(text: &str) -> Option<HeaderValue> {
    let is_visible = |byte| matches!(byte, b' '..=b'~');
    let is_valid = !text.trim_ascii().is_empty() && text.bytes().all(is_visible);
    HeaderValue::from_str(text.trim_ascii()).ok().filter(|_| is_valid)
}
