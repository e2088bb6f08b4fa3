//! A directory for the sockets of a test, and a server in it.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};

use waterwheel_channel::{Bootstrap, Channel, ServerBootstrap, UnixAddress};
use waterwheel_net::Unix;

use crate::loop_rig::{LONG, Rig, get};
use crate::probe::{Echo, Notes, Probe, group};

/// A directory that is removed with all that is in it.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("waterwheel-unix-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server at a path, whose connections note what they are told.
pub(crate) struct House {
    pub(crate) server: Channel,
    pub(crate) path: PathBuf,
    children: Receiver<(Channel, Notes)>,
    _directory: Directory,
}

impl House {
    pub(crate) fn open(rig: &Rig, how: impl FnOnce(ServerBootstrap) -> ServerBootstrap) -> Self {
        let directory = Directory::new();
        let path = directory.path("door");
        let (tell, children) = channel();
        let server = server(rig).child_initialiser(move |edit| {
            edit.add_last("probe", Probe::showing(tell.clone()))?;
            Ok(())
        });
        let server = get(how(server).bind(UnixAddress::path(&path)));
        Self { server, path, children, _directory: directory }
    }

    /// A connection: its channel, its peer, and what its handler is told from now on.
    #[track_caller]
    pub(crate) fn connect(&self) -> (Channel, UnixStream, Notes) {
        let peer = dial(&self.path);
        let (channel, notes) = self.accepted();
        (channel, peer, notes)
    }

    #[track_caller]
    pub(crate) fn accepted(&self) -> (Channel, Notes) {
        self.children.recv_timeout(LONG).expect("it is accepted")
    }
}

/// A peer of the standard library that does not wait for ever.
pub(crate) fn dial(path: &Path) -> UnixStream {
    let peer = UnixStream::connect(path).unwrap();
    peer.set_read_timeout(Some(LONG)).unwrap();
    peer.set_write_timeout(Some(LONG)).unwrap();
    peer
}

pub(crate) fn server(rig: &Rig) -> ServerBootstrap {
    ServerBootstrap::new(&group(rig), Unix)
}

pub(crate) fn client(rig: &Rig) -> Bootstrap {
    Bootstrap::new(&group(rig), Unix)
}

/// A server that echoes.
pub(crate) fn echo(rig: &Rig) -> ServerBootstrap {
    server(rig).child_initialiser(|edit| {
        edit.add_last("echo", Echo)?;
        Ok(())
    })
}
