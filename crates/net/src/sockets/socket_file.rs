//! The files of Unix sockets (C13).
//!
//! A Unix socket that is bound to a path makes a file there, and whoever closes the socket leaves it behind:
//! nobody can be bound to the path then, and nobody can connect to it.
//!
//! - A file that was made here is removed with its socket, unless somebody has put another in its place.
//! - One that is found where a socket is to be bound is replaced if nobody is behind it, as after a crash:
//!   it is of the socket kind, and the kernel knows no socket that is bound to it, in whichever process.
//!   Anything else is left alone, and the bind fails.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use waterwheel_channel::{Address, UnixAddress};

use crate::address::to_kernel;

/// Held from the look at a file that is in the way until a new one is in its place: two threads that find the
/// same old file would otherwise remove each other's new one. Between processes it takes a moment in which
/// both look at the same time.
static REPLACING: Mutex<()> = Mutex::new(());

/// The file of a socket that was bound here. Dropped, it is removed.
#[derive(Debug)]
pub(crate) struct SocketFile {
    /// From the root: the process may go elsewhere.
    path: PathBuf,
    identity: FileIdentity,
    /// Who made it: a copy of the process that comes to an end leaves it alone.
    process: u32,
}

/// What tells a file from another at the same path, as long as it is there: its device and number.
type FileIdentity = (u64, u64);

impl SocketFile {
    /// Binds a socket to this address. What has no path has no file.
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
            // It may be that this is not allowed: then it is for whoever binds next to replace it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes the file of a socket that is closed.
fn remove_stale(path: &Path, at: &Address) -> io::Result<()> {
    let found = match socket_metadata(path) {
        Ok(Some(found)) => found,
        Ok(None) => {
            let what = "there is a file that is no socket";
            return Err(io::Error::new(ErrorKind::AddrInUse, what));
        }
        // Its owner has removed it meanwhile.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !is_bound(at)? && socket_metadata(path)?.is_some_and(|now| is_same_file(&now, &found)) {
        return fs::remove_file(path);
    }
    Err(Errno::ADDRINUSE.into())
}

/// Whether somebody has a socket that is bound there. Asked by a socket for datagrams: one of streams would be
/// a connection for whoever listens, and would be refused by those that do not listen yet.
fn is_bound(at: &Address) -> io::Result<bool> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    let refused = rustix::net::connect(&probe, &to_kernel(at)?);
    Ok(refused != Err(Errno::CONNREFUSED))
}

/// What is known of the file at a path; `None`: it is no socket.
fn socket_metadata(path: &Path) -> io::Result<Option<Metadata>> {
    let file = fs::symlink_metadata(path)?;
    Ok(file.file_type().is_socket().then_some(file))
}

fn identity(file: &Metadata) -> FileIdentity {
    (file.dev(), file.ino())
}

/// Whether it is the same file. Its number may have been given out again, since nobody has it open.
fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    let changed = |file: &Metadata| (file.ctime(), file.ctime_nsec());
    identity(one) == identity(other) && changed(one) == changed(other)
}
