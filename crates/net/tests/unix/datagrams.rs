//! Unix datagram channels (C13).

use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;

use waterwheel_channel::driver::SocketOption;
use waterwheel_channel::{
    Address, AncillaryMessage, Bootstrap, Channel, ChannelOptions, Datagram, ReceiveSizes,
    UnixAddress,
};
use waterwheel_net::{UnixDatagrams, wrap_descriptor};

use crate::ancillary_messages::{ForwardsReads, Pipe, ReceivedMessages, receive, send};
use crate::loop_rig::{LoopRig, TIME_LIMIT, get, on_every_loop};
use crate::probe::{group, wait_until};
use crate::support::SocketDirectory;

fn datagrams(rig: &LoopRig) -> (Bootstrap, ReceivedMessages) {
    let (show, shown) = ForwardsReads::pair();
    let bootstrap = Bootstrap::new(&group(rig), UnixDatagrams).initialiser(move |edit| {
        edit.add_last("shows", ForwardsReads::to(show.clone()))?;
        Ok(())
    });
    (bootstrap, shown)
}

fn peer(directory: &SocketDirectory, name: &str) -> (UnixDatagram, UnixAddress) {
    let socket = UnixDatagram::bind(directory.path(name)).unwrap();
    socket.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    socket.set_write_timeout(Some(TIME_LIMIT)).unwrap();
    (socket, UnixAddress::path(directory.path(name)))
}

fn received(socket: &UnixDatagram) -> Vec<u8> {
    let mut room = vec![0; 1000];
    let n = socket.recv(&mut room).unwrap();
    room.truncate(n);
    room
}

fn write(channel: &Channel, datagram: Datagram) {
    get(channel.write_and_flush(datagram));
}

#[test]
fn c13_unix_datagrams_go_to_a_path_and_are_answered() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let (bootstrap, shown) = datagrams(rig);
        let here = UnixAddress::path(directory.path("here"));
        let channel = get(bootstrap.bind(here.clone()));
        assert_eq!(channel.local_address(), Some(here.into()));
        let (there, address) = peer(&directory, "there");
        there.send_to(b"question", directory.path("here")).unwrap();
        let question = shown.next();
        assert_eq!(question.peer, Some(address.clone().into()));
        write(&channel, Datagram::to(address, "answer"));
        assert_eq!(received(&there), b"answer");
        UnixDatagram::unbound().unwrap().send_to(b"", directory.path("here")).unwrap();
        let nameless = shown.next();
        assert_eq!((nameless.bytes.len(), nameless.peer), (0, None), "no address to answer to");
        rig.assert_not_spinning();
        get(channel.close());
        assert!(!directory.path("here").exists());
    });
}

#[test]
fn c13_a_connected_unix_channel_needs_no_addresses() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let (there, address) = peer(&directory, "there");
        let (bootstrap, shown) = datagrams(rig);
        let plain = get(bootstrap.connect(address.clone()));
        assert_eq!(
            (plain.local_address(), plain.peer_address()),
            (None, Some(address.clone().into()))
        );
        write(&plain, Datagram::new("nameless"));
        assert_eq!(received(&there), b"nameless");
        let named = get(bootstrap.local_address(UnixAddress::Unnamed).connect(address));
        let Some(Address::Unix(UnixAddress::Abstract(_))) = named.local_address() else {
            panic!("no name: {:?}", named.local_address());
        };
        write(&named, Datagram::new("question"));
        let mut room = [0; 100];
        let (n, from) = there.recv_from(&mut room).unwrap();
        assert_eq!(&room[..n], b"question");
        there.send_to_addr(b"answer", &from).unwrap();
        assert_eq!(shown.next().bytes, "answer");
    });
}

#[test]
fn c13_a_unix_datagram_to_an_unbound_path_fails_only_its_own_write() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let (there, address) = peer(&directory, "there");
        let (bootstrap, _) = datagrams(rig);
        let channel = get(bootstrap.bind(UnixAddress::Unnamed));
        let unbound = UnixAddress::path(directory.path("unbound"));
        let lost = channel.write(Datagram::to(unbound, "lost"));
        let strange = channel.write(Datagram::to(Address::local("x"), "lost"));
        let found = channel.write_and_flush(Datagram::to(address, "found"));
        let error = lost.join().unwrap_err().to_string();
        assert!(error.contains("No such file"), "{error}");
        let error = strange.join().unwrap_err().to_string();
        assert!(error.contains("local:x"), "{error}");
        get(found);
        assert_eq!(received(&there), b"found");
        let (bootstrap, _) = datagrams(rig);
        let unbound = UnixAddress::path(directory.path("unbound"));
        let error = bootstrap.connect(unbound).join().unwrap_err().to_string();
        assert!(error.contains("unbound"), "{error}");
    });
}

#[test]
fn c13_a_write_of_an_unconnected_unix_channel_to_a_full_peer_fails() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let (there, address) = peer(&directory, "there");
        let (bootstrap, _) = datagrams(rig);
        let channel = get(bootstrap.bind(UnixAddress::Unnamed));
        let mut sent = 0;
        let error = loop {
            match channel.write_and_flush(Datagram::to(address.clone(), "x")).join() {
                Ok(()) => sent += 1,
                Err(error) => break error.to_string(),
            }
        };
        assert!(sent > 0 && error.contains("is full (EAGAIN)"), "{error}");
        rig.assert_not_spinning();
        let message = AncillaryMessage::to(address.clone(), "x", Vec::new());
        let error = channel.write_and_flush(message).join().unwrap_err().to_string();
        assert!(error.contains("is full (EAGAIN)"), "{error}");
        (0..sent).for_each(|_| assert_eq!(received(&there), b"x"));
        write(&channel, Datagram::to(address, "again"));
        assert_eq!(received(&there), b"again");
    });
}

#[test]
fn c13_a_connected_unix_channel_waits_until_its_peer_has_room() {
    const COUNT: usize = 1000;
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let (there, address) = peer(&directory, "there");
        let (bootstrap, _) = datagrams(rig);
        let channel = get(bootstrap.connect(address));
        let writes: Vec<_> =
            (0..COUNT).map(|n| channel.write_and_flush(Datagram::new(n.to_string()))).collect();
        rig.assert_not_spinning();
        assert!(!writes[COUNT - 1].is_done());
        for n in 0..COUNT {
            assert_eq!(received(&there), n.to_string().as_bytes());
        }
        writes.into_iter().for_each(|write| get(write));
    });
}

#[test]
fn c13_writes_of_a_connected_unix_channel_fail_after_its_peer_closes() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let (there, address) = peer(&directory, "there");
        let (bootstrap, _) = datagrams(rig);
        let channel = get(bootstrap.connect(address));
        drop(there);
        let error = channel.write_and_flush(Datagram::new("lost")).join().unwrap_err().to_string();
        assert!(error.contains("refused"), "{error}");
        rig.assert_not_spinning();
        assert!(channel.is_active());
    });
}

#[test]
fn c13_unix_datagrams_carry_descriptors_and_credentials() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let (there, address) = peer(&directory, "there");
        let (bootstrap, shown) = datagrams(rig);
        let bootstrap = bootstrap.socket_option(SocketOption::ReceivePassed(true));
        let channel = get(bootstrap.bind(UnixAddress::path(directory.path("here"))));
        there.connect(directory.path("here")).unwrap();

        let pipe = Pipe::new();
        send(&there, b"", &[pipe.writer.as_fd()]);
        let mut message = shown.next();
        assert_eq!((message.bytes.len(), message.passed.len()), (0, 1), "no bytes are needed");
        assert_eq!(message.peer, Some(address.clone().into()));
        let back = AncillaryMessage { bytes: "back".into(), ..std::mem::take(&mut message) };
        get(channel.write_and_flush(back));
        let (bytes, mut passed_back) = receive(&there);
        assert_eq!((bytes.as_slice(), passed_back.len()), (&b"back"[..], 1));
        pipe.assert_other_end_is(passed_back.remove(0));

        // In order with plain datagrams.
        let pipe = Pipe::new();
        let end = wrap_descriptor(pipe.writer.try_clone().unwrap());
        let writes = [
            channel.write(Datagram::to(address.clone(), "1")),
            channel.write(AncillaryMessage::to(address.clone(), "2", vec![end])),
            channel.write_and_flush(Datagram::to(address, "3")),
        ];
        writes.into_iter().for_each(get);
        let got: Vec<_> = (0..3).map(|_| receive(&there)).map(|(b, p)| (b[0], p.len())).collect();
        assert_eq!(got, [(b'1', 0), (b'2', 1), (b'3', 0)]);
        pipe.assert_writers_closed();

        get(channel.set_option(SocketOption::ReceiveCredentials(true)));
        there.send(b"who").unwrap();
        let who = shown.next().credentials.unwrap();
        assert_eq!(who.process, Some(std::process::id()));
        get(channel.set_option(SocketOption::ReceiveCredentials(false)));
        get(channel.set_option(SocketOption::ReceivePassed(false)));
        let pipe = Pipe::new();
        send(&there, b"unasked", &[pipe.writer.as_fd()]);
        assert!(shown.until("unasked").is_empty());
        pipe.assert_writers_closed();
    });
}

#[test]
fn c13_an_ancillary_message_larger_than_the_read_size_is_marked_truncated() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let (there, _) = peer(&directory, "there");
        let (bootstrap, shown) = datagrams(rig);
        let sizes = ReceiveSizes::new(64, 64, 64).unwrap();
        let options = ChannelOptions { receive_sizes: sizes, ..Default::default() };
        let bootstrap = bootstrap.options(options).socket_option(SocketOption::ReceivePassed(true));
        let channel = get(bootstrap.bind(UnixAddress::path(directory.path("here"))));
        there.connect(directory.path("here")).unwrap();
        let pipe = Pipe::new();
        send(&there, &[1; 100], &[pipe.writer.as_fd()]);
        let message = shown.next();
        assert_eq!((message.bytes.len(), message.passed.len(), message.truncated), (64, 1, true));
        send(&there, &[1; 100], &[]);
        let plain = shown.next();
        assert_eq!((plain.bytes.len(), plain.truncated), (64, true));
        assert!(channel.is_active());
    });
}

#[test]
fn c13_unix_datagrams_that_arrive_while_deregistered_are_read_after_registration() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let (there, address) = peer(&directory, "there");
        let (bootstrap, shown) = datagrams(rig);
        let channel = get(bootstrap.bind(UnixAddress::path(directory.path("here"))));
        get(channel.deregister());
        there.send_to(b"meanwhile", directory.path("here")).unwrap();
        wait_until("deregistered", || !channel.is_registered());
        get(channel.register());
        assert_eq!(shown.next().bytes, "meanwhile");
        write(&channel, Datagram::to(address, "back"));
        assert_eq!(received(&there), b"back");
    });
}
