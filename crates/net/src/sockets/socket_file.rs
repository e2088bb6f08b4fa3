//! The files of Unix sockets (C13).
//!
//! Binding a Unix socket to a path creates a file there, and closing the socket does not remove the file: the
//! path can then be neither bound nor connected to.
//!
//! - A file that was created here is removed with its socket, unless another file has taken its place.
//! - A stale file at the path of a bind, as after a crash, is replaced: the file has the socket type, and no socket
//!   of any process is bound to it. Any other file is left alone, and the bind fails (EADDRINUSE).

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use waterwheel_channel::{Address, UnixAddress};

use crate::address::to_kernel;

/// Held from the check of a stale file until the new file is in its place: otherwise two threads that find the
/// same stale file could remove each other's new file. Two processes can still do so if both check at the same
/// moment.
static REPLACING: Mutex<()> = Mutex::new(());

/// The file of a socket that was bound here. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct SocketFile {
    /// The absolute path: the process may change its working directory.
    path: PathBuf,
    identity: FileIdentity,
    /// The process that created the file: a forked child that exits does not remove the file.
    process: u32,
}

/// Device and inode number, which distinguish an existing file from another file at the same path.
type FileIdentity = (u64, u64);

impl SocketFile {
    /// Binds a socket to this address; returns its file, or `None` if the address is not a path.
    pub(crate) fn bind(
        at: &Address,
        bind: impl Fn() -> io::Result<()>,
    ) -> io::Result<Option<Self>> {
        let Address::Unix(UnixAddress::Path(path)) = at else { return bind().map(|()| None) };
        let _alone = REPLACING.lock().unwrap_or_else(PoisonError::into_inner);
        match bind() {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                remove_stale(path, at)?;
                bind()?;
            }
            bound => bound?,
        }
        let (path, process) = (std::path::absolute(path)?, std::process::id());
        Ok(socket_metadata(&path)?.map(|file| Self { path, identity: identity(&file), process }))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let found = socket_metadata(&self.path).ok().flatten();
        let ours = found.is_some_and(|found| identity(&found) == self.identity);
        if ours && std::process::id() == self.process {
            // A failure is ignored: the next bind to this path replaces the file.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes the file of a closed socket; returns an error if the path is in use.
fn remove_stale(path: &Path, at: &Address) -> io::Result<()> {
    let found = match socket_metadata(path) {
        Ok(Some(found)) => found,
        Ok(None) => {
            let what = "a file that is not a socket is at this path";
            return Err(io::Error::new(ErrorKind::AddrInUse, what));
        }
        // The owner has just removed the file.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !is_bound(at)? && socket_metadata(path)?.is_some_and(|now| is_same_file(&now, &found)) {
        return fs::remove_file(path);
    }
    Err(Errno::ADDRINUSE.into())
}

/// True if a socket is bound to this path. Probed with a datagram socket: a stream socket would appear as a
/// connection at a listener, and would be refused by a socket that does not listen yet.
fn is_bound(at: &Address) -> io::Result<bool> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    let refused = rustix::net::connect(&probe, &to_kernel(at)?);
    Ok(refused != Err(Errno::CONNREFUSED))
}

/// Returns the metadata of the socket file at a path; `None` if the file is not a socket.
fn socket_metadata(path: &Path) -> io::Result<Option<Metadata>> {
    let file = fs::symlink_metadata(path)?;
    Ok(file.file_type().is_socket().then_some(file))
}

fn identity(file: &Metadata) -> FileIdentity {
    (file.dev(), file.ino())
}

/// True if both are the same file. The inode number alone proves nothing: the number may be reused, since the file is
/// not open.
fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    let changed = |file: &Metadata| (file.ctime(), file.ctime_nsec());
    identity(one) == identity(other) && changed(one) == changed(other)
}
