//! Credentials of the peers of Unix sockets (SO_PEERCRED, SCM_CREDENTIALS; C13).

use std::io::Write;
use std::sync::mpsc::{Sender, channel};

use waterwheel_channel::driver::SocketOption;
use waterwheel_channel::{
    Bootstrap, Credentials, Ctx, Handler, HandlerResult, ServerBootstrap, UnixAddress, local,
};
use waterwheel_net::{Tcp, Unix};

use crate::ancillary_messages::ForwardsReads;
use crate::loop_rig::{TIME_LIMIT, get, on_every_loop};
use crate::probe::group;
use crate::support::{SocketDirectory, client, dial, server};

fn own() -> Credentials {
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let process = Some(std::process::id());
    Credentials { process, user: user.as_raw(), group: group.as_raw() }
}

/// Queries the credentials of its peer when it becomes active.
struct QueriesCredentials(Sender<Result<Credentials, String>>);

impl Handler for QueriesCredentials {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let peer = ctx.peer_credentials();
        let _ = self.0.send(peer.map_err(|error| error.to_string()));
        Ok(())
    }
}

#[test]
fn c13_a_handler_queries_the_credentials_of_its_unix_peer() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let (sender, events) = channel();
        let (of_child, of_client) = (sender.clone(), sender);
        let server = server(rig).child_initialiser(move |edit| {
            edit.add_last("asks", QueriesCredentials(of_child.clone()))?;
            Ok(())
        });
        get(server.bind(UnixAddress::path(directory.path("door"))));
        let _peer = dial(&directory.path("door"));
        assert_eq!(events.recv_timeout(TIME_LIMIT).unwrap(), Ok(own()));
        let client = client(rig).initialiser(move |edit| {
            edit.add_last("asks", QueriesCredentials(of_client.clone()))?;
            Ok(())
        });
        get(client.connect(UnixAddress::path(directory.path("door"))));
        for _ in 0..2 {
            assert_eq!(events.recv_timeout(TIME_LIMIT).unwrap(), Ok(own()));
        }
    });
}

#[test]
fn c13_peer_credentials_of_other_transports_are_an_error() {
    on_every_loop(|rig| {
        let (sender, events) = channel();
        let clients = |transports: Bootstrap| {
            let sender = sender.clone();
            transports.initialiser(move |edit| {
                edit.add_last("asks", QueriesCredentials(sender.clone()))?;
                Ok(())
            })
        };
        let group = group(rig);
        let tcp = get(ServerBootstrap::new(&group, Tcp).bind("127.0.0.1:0"));
        get(clients(Bootstrap::new(&group, Tcp)).connect(tcp.local_address().unwrap()));
        let error = events.recv_timeout(TIME_LIMIT).unwrap().unwrap_err();
        assert_eq!(error, "peer credentials (SO_PEERCRED) are available for Unix sockets only");
        let name = waterwheel_channel::Address::local(format!("credentials {rig:p}"));
        let _local = get(ServerBootstrap::new(&group, local::Local).bind(name.clone()));
        get(clients(Bootstrap::new(&group, local::Local)).connect(name));
        let error = events.recv_timeout(TIME_LIMIT).unwrap().unwrap_err();
        assert!(error.contains("tell who its peer is"), "{error}");
    });
}

#[test]
fn c13_reads_carry_the_senders_credentials_if_enabled() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let (show, shown) = ForwardsReads::pair();
        let server = ServerBootstrap::new(&group(rig), Unix).child_initialiser(move |edit| {
            edit.add_last("shows", ForwardsReads::to(show.clone()))?;
            Ok(())
        });
        let server = server.child_socket_option(SocketOption::ReceiveCredentials(true));
        get(server.bind(UnixAddress::path(directory.path("door"))));
        let mut peer = dial(&directory.path("door"));
        peer.write_all(b"it is me").unwrap();
        let message = shown.next();
        assert_eq!((&*message.bytes, message.credentials), (&b"it is me"[..], Some(own())));
        drop(peer);
        rig.assert_not_spinning();
    });
}
