//! Streams of Unix sockets, at paths and abstract names in turn.

use std::env;
use std::fs;
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use waterwheel::channel::{
    Address, AddressSpec, Bootstrap, Channel, EventLoopGroup, ServerBootstrap, UnixAddress,
};
use waterwheel::net::Unix;

use super::std_socket::StdSocket;
use crate::cell::{Ability, ForeignPeer, TransportKind};
use crate::test_bed::WAIT_LIMIT;

pub(crate) struct UnixTransport {
    /// A socket file that a server has left behind. Dropping this value removes it.
    stale_path: PathBuf,
}

impl UnixTransport {
    pub(crate) fn new() -> Self {
        let stale_path = path(number());
        drop(UnixListener::bind(&stale_path).expect("the path is free"));
        Self { stale_path }
    }
}

impl Drop for UnixTransport {
    fn drop(&mut self) {
        // An error means that the file is already removed.
        let _ = fs::remove_file(&self.stale_path);
    }
}

/// Returns a number that is unique in this process.
fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn name(number: u64) -> String {
    format!("waterwheel-conformance-{}-{number}", process::id())
}

/// Returns an unbound address: a path or an abstract name, in turn.
pub(crate) fn free_unix_address() -> UnixAddress {
    let number = number();
    match number % 2 {
        0 => UnixAddress::path(path(number)),
        _ => UnixAddress::abstract_name(name(number)),
    }
}

fn path(number: u64) -> PathBuf {
    env::temp_dir().join(name(number))
}

impl TransportKind for UnixTransport {
    fn name(&self) -> &'static str {
        "Unix"
    }

    fn server(&self, group: &EventLoopGroup) -> ServerBootstrap {
        ServerBootstrap::new(group, Unix)
    }

    fn client(&self, group: &EventLoopGroup) -> Bootstrap {
        Bootstrap::new(group, Unix)
    }

    fn unused_address(&self) -> AddressSpec {
        free_unix_address().into()
    }

    fn refusing_address(&self) -> AddressSpec {
        match free_unix_address() {
            UnixAddress::Path(_) => UnixAddress::path(&self.stale_path).into(),
            other => other.into(),
        }
    }

    fn reason_to_skip(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::Lingering => {
                Some("a Unix socket sends no resets: with any SO_LINGER it is just closed")
            }
            Ability::IndependentDirections => {
                Some("the kernel fails writes to a peer that has shut down its input (EPIPE)")
            }
            Ability::SystemWrites
            | Ability::SmallBuffers
            | Ability::ForeignPeer
            | Ability::SlowConnect
            | Ability::SharedLoop => None,
        }
    }

    fn connect_foreign(&self, server: &Channel) -> Box<dyn ForeignPeer> {
        let address = match server.local_address() {
            Some(Address::Unix(UnixAddress::Path(path))) => SocketAddr::from_pathname(path),
            Some(Address::Unix(UnixAddress::Abstract(name))) => {
                SocketAddr::from_abstract_name(name)
            }
            _ => panic!("{server:?} has no address of this transport"),
        };
        let stream = UnixStream::connect_addr(&address.expect("a valid address"))
            .expect("the connection is made");
        stream.set_read_timeout(Some(WAIT_LIMIT)).expect("the timeout is set");
        stream.set_write_timeout(Some(WAIT_LIMIT)).expect("the timeout is set");
        Box::new(StdSocket {
            stream,
            finish: |stream| stream.shutdown(Shutdown::Write),
            arm_reset: |_| (), // A close with unread bytes is a reset already.
        })
    }
}
