//! The files of Unix sockets (C13).

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;

use waterwheel_channel::{Channel, UnixAddress};

use crate::loop_rig::{LoopRig, TIME_LIMIT, get, on_every_loop};
use crate::support::{ProbedServer, SocketDirectory, client, dial, echo};

fn bind(rig: &LoopRig, path: &Path) -> Channel {
    get(echo(rig).bind(UnixAddress::path(path)))
}

#[track_caller]
fn refused(rig: &LoopRig, path: &Path) -> String {
    let error = echo(rig).bind(UnixAddress::path(path)).join().unwrap_err().to_string();
    let start = format!("cannot listen at unix:{}: ", path.display());
    assert!(error.starts_with(&start), "{error}");
    error
}

#[test]
fn c13_closing_a_unix_server_removes_its_file() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, |server| server);
        let (child, peer, _) = server.connect();
        // Permissions are often changed after the bind.
        fs::set_permissions(&server.path, Permissions::from_mode(0o600)).unwrap();
        drop(peer);
        child.closed().wait_timeout(TIME_LIMIT).unwrap();
        assert!(server.path.exists(), "the file belongs to the server, not to a connection");
        get(server.listener.close());
        assert!(!server.path.exists());
    });
}

#[test]
fn c13_shutting_the_loop_down_removes_the_file_of_a_unix_server() {
    let directory = SocketDirectory::new();
    let path = directory.path("door");
    on_every_loop(|rig| {
        bind(rig, &path);
    });
    assert!(!path.exists());
}

#[test]
fn c13_a_file_that_has_replaced_the_socket_file_is_not_removed() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let path = directory.path("door");
        let first = bind(rig, &path);
        fs::remove_file(&path).unwrap();
        let second = bind(rig, &path);
        get(first.close());
        assert!(path.exists(), "the file of the second server");
        drop(dial(&path));
        fs::rename(&path, directory.path("moved")).unwrap();
        File::create(&path).unwrap();
        get(second.close());
        assert!(path.exists(), "the file is not a socket");
    });
}

#[test]
fn c13_a_stale_socket_file_is_replaced() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let path = directory.path("door");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "the file is left behind");
        let server = bind(rig, &path);
        drop(dial(&path));
        get(server.close());
        drop(UnixDatagram::bind(&path).unwrap());
        bind(rig, &path);
        drop(dial(&path));
    });
}

#[test]
fn c13_a_path_in_use_is_named_and_its_server_is_not_disturbed() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let path = directory.path("door");
        let listener = UnixListener::bind(&path).unwrap();
        assert!(refused(rig, &path).contains("in use"));
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "the check makes no connection");
        drop(dial(&path));

        let datagrams = directory.path("datagrams");
        let _socket = UnixDatagram::bind(&datagrams).unwrap();
        assert!(refused(rig, &datagrams).contains("in use"));

        // Bound, but not listening yet.
        let early = directory.path("early");
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None);
        let socket = socket.unwrap();
        socket.bind(&socket2::SockAddr::unix(&early).unwrap()).unwrap();
        assert!(refused(rig, &early).contains("in use"));
        assert!(path.exists() && datagrams.exists() && early.exists());

        let ours = directory.path("ours");
        let server = bind(rig, &ours);
        assert!(refused(rig, &ours).contains("in use"));
        get(server.close());
        bind(rig, &ours);
    });
}

#[test]
fn c13_a_file_that_is_not_a_socket_is_never_removed() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let (file, link) = (directory.path("file"), directory.path("link"));
        fs::write(&file, "precious").unwrap();
        assert!(refused(rig, &file).contains("a file that is not a socket"));
        assert_eq!(fs::read(&file).unwrap(), b"precious");
        let old = directory.path("old");
        drop(UnixListener::bind(&old).unwrap());
        symlink(&old, &link).unwrap();
        assert!(refused(rig, &link).contains("a file that is not a socket"));
        assert!(old.exists());
        assert!(refused(rig, &directory.path("no/such/directory")).contains("No such file"));
    });
}

#[test]
fn c13_a_path_that_is_too_long_is_refused_with_its_limit() {
    on_every_loop(|rig| {
        let long = Path::new("/tmp").join("x".repeat(108));
        assert!(
            refused(rig, &long)
                .contains("is too long: a path of a Unix socket has at most 108 bytes")
        );
        let address = UnixAddress::path(&long);
        let error = client(rig).connect(address).join().unwrap_err().to_string();
        assert!(error.contains("is too long"), "{error}");
        let name = UnixAddress::abstract_name("x".repeat(108));
        let error = echo(rig).bind(name).join().unwrap_err().to_string();
        assert!(error.contains("is too long"), "{error}");
    });
}
