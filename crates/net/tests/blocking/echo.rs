//! The bootstraps and handlers of other drivers work over the blocking driver (L13).

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread::ThreadId;

use bytes::Bytes;
use waterwheel_channel::{Ctx, EventLoopGroup, Handler, HandlerResult, Msg, ServerBootstrap};
use waterwheel_net::{Blocking, Epoll, Poll, Tcp};

use crate::support::{Bench, Echo, assert_echoes, connect, get, ip};

#[test]
fn l13_an_echo_server_has_a_loop_and_a_thread_per_connection() {
    static THREADS: Mutex<Vec<(ThreadId, String)>> = Mutex::new(Vec::new());
    struct Here;
    impl Handler for Here {
        fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or_default().to_owned();
            THREADS.lock().unwrap().push((thread.id(), name));
            ctx.fire_active();
            Ok(())
        }
    }
    let bench = Bench::new();
    let server = ServerBootstrap::new(&bench.group, Tcp).child_initialiser(|edit| {
        edit.add_last("here", Here)?;
        edit.add_last("echo", Echo)?;
        Ok(())
    });
    let server = get(server.bind("127.0.0.1:0"));
    let address = ip(server.local_address());
    let mut peers: Vec<_> = (0..20).map(|_| connect(address)).collect();
    for _ in 0..3 {
        peers.iter_mut().for_each(assert_echoes);
    }
    assert_eq!(bench.loops(), 21, "one loop is the listener's");
    assert!(bench.group.children().all(|it| it.driver_name() == "blocking"));
    assert!(bench.group.children().all(|it| it.metrics().channels == 1));
    let names: HashSet<_> = bench.group.children().map(|it| it.name().to_owned()).collect();
    assert_eq!(names, (0..21).map(|n| format!("each-{n}")).collect());
    let threads = std::mem::take(&mut *THREADS.lock().unwrap());
    assert_eq!(threads.iter().map(|(id, _)| id).collect::<HashSet<_>>().len(), 20);
    let names: HashSet<_> = threads.iter().map(|(_, name)| name).collect();
    assert_eq!(names.len(), 20);
    assert!(names.iter().all(|name| name.starts_with("each-")), "{names:?}");
    bench.end();
}

#[test]
fn l13_clients_and_servers_of_the_blocking_driver_talk_to_each_other() {
    struct SendsReads(std::sync::mpsc::Sender<Bytes>);
    impl Handler for SendsReads {
        fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
            let _ = self.0.send(msg.take().expect("bytes"));
            Ok(())
        }
    }
    let bench = Bench::new();
    let (_server, address) = bench.server(|| Echo);
    let (sender, events) = channel();
    let client = bench.client().initialiser(move |edit| {
        edit.add_last("tells", SendsReads(sender.clone()))?;
        Ok(())
    });
    let channels: Vec<_> =
        (0..5).map(|_| get(client.connect(("localhost", address.port())))).collect();
    for channel in &channels {
        get(channel.write_and_flush(Bytes::from("hello")));
        assert_eq!(events.recv_timeout(crate::support::TIME_LIMIT).unwrap(), "hello");
    }
    bench.until_channels(11);
    assert_eq!(bench.loops(), 11);
    for channel in channels {
        get(channel.close());
    }
    bench.until_channels(1);
    assert_eq!(bench.loops(), 11, "idle loops are kept");
}

#[test]
fn l13_an_acceptor_group_of_any_driver_accepts_for_blocking_workers() {
    let bosses = [
        EventLoopGroup::builder(Epoll).threads(1).build().unwrap(),
        EventLoopGroup::builder(Blocking).threads(1).build().unwrap(),
        EventLoopGroup::per_channel(Blocking).max_channels(1).build().unwrap(),
    ];
    for boss in bosses {
        let bench = Bench::new();
        let server =
            ServerBootstrap::new(&bench.group, Tcp).boss(&boss).child_initialiser(|edit| {
                edit.add_last("echo", Echo)?;
                Ok(())
            });
        let server = get(server.bind("127.0.0.1:0"));
        let mut peers = [0; 3].map(|_| connect(ip(server.local_address())));
        peers.iter_mut().for_each(assert_echoes);
        assert_eq!((bench.loops(), bench.channels()), (3, 3));
        assert_eq!(boss.children().len(), 1);
    }
}

#[test]
fn l13_any_driver_supports_a_loop_per_channel() {
    fn serve(bench: &Bench) {
        let (_server, address) = bench.server(|| Echo);
        let mut peers = [0; 3].map(|_| connect(address));
        peers.iter_mut().for_each(assert_echoes);
        assert_eq!((bench.loops(), bench.channels()), (4, 4));
    }
    serve(&Bench::with(Epoll, |builder| builder));
    serve(&Bench::with(Poll, |builder| builder));
}

#[test]
fn l13_a_second_socket_on_the_loop_of_a_channel_is_refused() {
    let bench = Bench::new();
    let (server, address) = bench.server(|| Echo);
    let new = || waterwheel_channel::NewChannel::new(waterwheel_channel::Stream::new(Tcp));
    let channel = get(server.event_loop().register(new()));
    let error = crate::support::failure(channel.connect(address)).to_string();
    assert!(error.contains("one socket at a time"), "{error}");
    get(channel.close());
    // Code may use an idle loop directly; the group then gives the loop to no other channel.
    let mut peer = connect(address);
    assert_echoes(&mut peer);
    drop(peer);
    bench.until_channels(1);
    let idle = bench.group.children().find(|it| *it != server.event_loop()).unwrap();
    let channel = get(idle.register(new()));
    get(channel.connect(address));
    assert_eq!(channel.event_loop(), idle);
    bench.until_channels(3);
    let mut others = [0; 2].map(|_| connect(address));
    others.iter_mut().for_each(assert_echoes);
    bench.until_channels(5);
    assert_eq!(get(idle.registered_channels()), [channel]);
}
