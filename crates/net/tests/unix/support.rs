//! A directory for the socket files of a test, and a Unix server in it.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};

use waterwheel_channel::{Bootstrap, Channel, ServerBootstrap, UnixAddress};
use waterwheel_net::Unix;

use crate::loop_rig::{LoopRig, TIME_LIMIT, get};
use crate::probe::{Echo, Probe, ProbeLog, group};

/// A temporary directory, removed with its contents.
pub(crate) struct SocketDirectory(PathBuf);

impl SocketDirectory {
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

impl Drop for SocketDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server at a path whose connections log their events.
pub(crate) struct ProbedServer {
    pub(crate) listener: Channel,
    pub(crate) path: PathBuf,
    children: Receiver<(Channel, ProbeLog)>,
    _directory: SocketDirectory,
}

impl ProbedServer {
    pub(crate) fn open(
        rig: &LoopRig,
        how: impl FnOnce(ServerBootstrap) -> ServerBootstrap,
    ) -> Self {
        let directory = SocketDirectory::new();
        let path = directory.path("door");
        let (sender, children) = channel();
        let server = server(rig).child_initialiser(move |edit| {
            edit.add_last("probe", Probe::announcing(sender.clone()))?;
            Ok(())
        });
        let server = get(how(server).bind(UnixAddress::path(&path)));
        Self { listener: server, path, children, _directory: directory }
    }

    /// Connects; returns the accepted channel, the peer and the log of its probe.
    #[track_caller]
    pub(crate) fn connect(&self) -> (Channel, UnixStream, ProbeLog) {
        let peer = dial(&self.path);
        let (channel, notes) = self.accepted();
        (channel, peer, notes)
    }

    #[track_caller]
    pub(crate) fn accepted(&self) -> (Channel, ProbeLog) {
        self.children.recv_timeout(TIME_LIMIT).expect("accepted in time")
    }
}

/// Connects a stream of the standard library with time limits.
pub(crate) fn dial(path: &Path) -> UnixStream {
    let peer = UnixStream::connect(path).unwrap();
    peer.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    peer.set_write_timeout(Some(TIME_LIMIT)).unwrap();
    peer
}

pub(crate) fn server(rig: &LoopRig) -> ServerBootstrap {
    ServerBootstrap::new(&group(rig), Unix)
}

pub(crate) fn client(rig: &LoopRig) -> Bootstrap {
    Bootstrap::new(&group(rig), Unix)
}

/// Returns the bootstrap of an echo server.
pub(crate) fn echo(rig: &LoopRig) -> ServerBootstrap {
    server(rig).child_initialiser(|edit| {
        edit.add_last("echo", Echo)?;
        Ok(())
    })
}
