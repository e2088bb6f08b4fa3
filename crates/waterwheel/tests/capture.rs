//! Captures of real sockets, read with tcpdump and tshark.

use std::io::{BufRead, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use rustix::net::sockopt::{set_socket_linger, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketType, bind, socket};
use rustix::process::{Pid, Signal, kill_process};
use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Bootstrap, Channel, Ctx, Datagram, EventLoopGroup, HandlerResult, In, InboundHandler,
    ServerBootstrap,
};
use waterwheel::handlers::{Capture, CaptureFile};
use waterwheel::net::{Auto, Tcp, Udp, Unix};

#[path = "../../../support/packet_tools.rs"]
mod packet_tools;
#[path = "support/program.rs"]
mod program;

use packet_tools::{follow_stream, tcpdump, tshark, tshark_complaints};
use program::{Program, WAIT_LIMIT, connect};

/// A file that is removed at the end.
struct TempPath(PathBuf);

impl TempPath {
    fn new(name: &str) -> Self {
        let name = format!("waterwheel-capture-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for TempPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + seed + i / 256) as u8).collect()
}

#[test]
fn k06_the_capture_example_writes_what_its_clients_sent_and_received() {
    const CLIENTS: usize = 4;
    let path = TempPath::new("example.pcap");
    let mut server = Program::start("capture", &[&"--threads", &2, &path.0.display(), &0]);
    let mut expected = Vec::new();
    for client in 0..CLIENTS {
        let mut stream = server.connect();
        let mut sent = Vec::new();
        for len in [1, 1000, 100_000] {
            let part = bytes(client, len);
            stream.write_all(&part).unwrap();
            let mut answer = vec![0; len];
            stream.read_exact(&mut answer).unwrap();
            assert!(answer == part);
            sent.extend(part);
        }
        expected.push((stream.local_addr().unwrap(), sent));
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
    }
    kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
    let mut line = String::new();
    server.stdout.read_line(&mut line).unwrap();
    assert!(server.child.wait().unwrap().success());
    assert!(line.trim_end().ends_with("; 0 dropped"), "{line}");

    assert_eq!(tshark_complaints(&path.0), "");
    let text = tcpdump(&path.0, &["-vv"]);
    assert!(!text.contains("incorrect") && !text.contains("bad "), "{text}");
    let syns = tshark(
        &path.0,
        &["-Y", "tcp.flags.syn == 1 && tcp.flags.ack == 0", "-T", "fields", "-e", "tcp.srcport"],
    );
    let ports: Vec<u16> = syns.lines().map(|port| port.parse().unwrap()).collect();
    assert_eq!(ports.len(), CLIENTS);
    for (client, sent) in expected {
        let stream =
            ports.iter().position(|port| *port == client.port()).expect("the client's SYN");
        let followed = follow_stream(&path.0, stream);
        assert!(followed.from_initiator == sent, "sent by {client}");
        assert!(followed.from_acceptor == sent, "received by {client}");
    }
    let fins = tshark(&path.0, &["-Y", "tcp.flags.fin == 1"]);
    assert_eq!(fins.lines().count(), 2 * CLIENTS, "{fins}");
}

/// Sends bytes back, and says when its channel has ended and the capture before it has recorded that.
#[derive(Clone)]
struct Echo(Sender<()>);

impl InboundHandler for Echo {
    type In = Bytes;

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let _ = self.0.send(());
        ctx.fire_inactive();
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, bytes: Bytes) -> HandlerResult {
        ctx.write_and_flush(bytes);
        Ok(())
    }
}

struct EchoDatagrams;

impl InboundHandler for EchoDatagrams {
    type In = Datagram;

    fn on_read(&mut self, ctx: &Ctx<'_>, datagram: Datagram) -> HandlerResult {
        ctx.write_and_flush(datagram);
        Ok(())
    }
}

fn group() -> EventLoopGroup {
    EventLoopGroup::builder(Auto).threads(2).build().unwrap()
}

/// Binds a TCP server that echoes and captures.
fn bind_tcp(
    group: &EventLoopGroup,
    file: &CaptureFile,
    echo: Echo,
    address: &str,
) -> (Channel, SocketAddr) {
    let capture = Capture::stream(file);
    let server = ServerBootstrap::new(group, Tcp)
        .child_initialiser(move |edit| {
            edit.add_last("capture", capture.clone())?;
            edit.add_last("echo", In(echo.clone()))?;
            Ok(())
        })
        .bind(address)
        .join()
        .unwrap();
    let address = server.local_address().unwrap().socket_addr().unwrap();
    (server, address)
}

/// Sends a message and reads it back.
fn echo(stream: &mut TcpStream, message: &[u8]) {
    stream.write_all(message).unwrap();
    let mut answer = vec![0; message.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, message);
}

#[test]
fn k06_a_connection_that_the_peer_resets_ends_with_a_reset() {
    let path = TempPath::new("reset.pcap");
    let file = CaptureFile::create(&path.0).unwrap();
    let group = group();
    let (sender, ended) = channel();
    let (_server, address) = bind_tcp(&group, &file, Echo(sender), "[::1]:0");
    let mut stream = connect(address);
    echo(&mut stream, b"hello");
    set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
    ended.recv_timeout(WAIT_LIMIT).unwrap();
    file.close().join().unwrap();
    let flags = tshark(&path.0, &["-T", "fields", "-e", "tcp.flags", "-e", "tcp.len"]);
    let expected = ["0x0002\t0", "0x0012\t0", "0x0010\t0", "0x0018\t5", "0x0018\t5", "0x0014\t0"];
    assert_eq!(flags.lines().collect::<Vec<_>>(), expected);
    assert_eq!(tshark_complaints(&path.0), "");
}

/// Two connections of the same address and port, one after the other.
#[test]
fn k06_an_ipv4_client_of_a_server_for_both_versions_is_captured_as_ipv4() {
    let path = TempPath::new("both-versions.pcap");
    let file = CaptureFile::create(&path.0).unwrap();
    let group = group();
    let (sender, ended) = channel();
    let (_server, address) = bind_tcp(&group, &file, Echo(sender), "[::]:0");
    let server = SocketAddr::from(([127, 0, 0, 1], address.port()));
    let mut port = 0;
    for message in [&b"first"[..], b"second"] {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        set_socket_reuseaddr(&socket, true).unwrap();
        bind(&socket, &SocketAddr::from(([127, 0, 0, 2], port))).unwrap();
        rustix::net::connect(&socket, &server).unwrap();
        let mut stream = TcpStream::from(socket);
        port = stream.local_addr().unwrap().port();
        echo(&mut stream, message);
        // Without a TIME_WAIT that would keep the port.
        set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        drop(stream);
        ended.recv_timeout(WAIT_LIMIT).unwrap();
    }
    file.close().join().unwrap();
    let fields = ["-T", "fields", "-e", "ip.src", "-e", "tcp.srcport", "-e", "tcp.stream"];
    let syns = tshark(
        &path.0,
        &[&["-Y", "tcp.flags.syn == 1 && tcp.flags.ack == 0"], &fields[..]].concat(),
    );
    assert_eq!(syns, format!("127.0.0.2\t{port}\t0\n127.0.0.2\t{port}\t1\n"));
    for (number, message) in [&b"first"[..], b"second"].into_iter().enumerate() {
        let followed = follow_stream(&path.0, number);
        assert_eq!((&*followed.from_initiator, &*followed.from_acceptor), (message, message));
    }
}

#[test]
fn k06_a_client_is_captured_with_its_own_syn_and_fin() {
    let path = TempPath::new("client.pcap");
    let file = CaptureFile::create(&path.0).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let capture = Capture::stream(&file);
    let (sender, ended) = channel();
    let echo = Echo(sender);
    let group = group();
    let client = Bootstrap::new(&group, Tcp)
        .initialiser(move |edit| {
            edit.add_last("capture", capture.clone())?;
            edit.add_last("echo", In(echo.clone()))?;
            Ok(())
        })
        .connect(listener.local_addr().unwrap())
        .join()
        .unwrap();
    client.write_and_flush(Bytes::from_static(b"hello")).join().unwrap();
    client.close().join().unwrap();
    let (mut peer, from) = listener.accept().unwrap();
    let mut read = String::new();
    peer.read_to_string(&mut read).unwrap();
    assert_eq!(read, "hello");
    ended.recv_timeout(WAIT_LIMIT).unwrap();
    file.close().join().unwrap();
    let fields = ["-T", "fields", "-e", "tcp.srcport", "-e", "tcp.flags"];
    let text = tshark(&path.0, &fields);
    let (here, there) = (from.port(), listener.local_addr().unwrap().port());
    let expected = [
        (here, "0x0002"),
        (there, "0x0012"),
        (here, "0x0010"),
        (here, "0x0018"),
        (here, "0x0011"),
        (there, "0x0010"),
        (there, "0x0011"),
        (here, "0x0010"),
    ];
    let expected: Vec<_> =
        expected.iter().map(|(port, flags)| format!("{port}\t{flags}")).collect();
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn k06_datagrams_and_unix_sockets_are_captured_beside_each_other() {
    let path = TempPath::new("mixed.pcap");
    let socket = TempPath::new("mixed.sock");
    let file = CaptureFile::create(&path.0).unwrap();
    let group = group();
    let capture = Capture::datagrams(&file);
    let udp = Bootstrap::new(&group, Udp)
        .initialiser(move |edit| {
            edit.add_last("capture", capture.clone())?;
            edit.add_last("echo", In(EchoDatagrams))?;
            Ok(())
        })
        .bind("127.0.0.1:0")
        .join()
        .unwrap();
    let udp = udp.local_address().unwrap().socket_addr().unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    client.send_to(b"a datagram", udp).unwrap();
    let mut answer = [0; 99];
    assert_eq!(client.recv(&mut answer).unwrap(), 10);

    let capture = Capture::stream(&file);
    let (sender, ended) = channel();
    let echo = Echo(sender);
    let _unix = ServerBootstrap::new(&group, Unix)
        .child_initialiser(move |edit| {
            edit.add_last("capture", capture.clone())?;
            edit.add_last("echo", In(echo.clone()))?;
            Ok(())
        })
        .bind(format!("unix:{}", socket.0.display()))
        .join()
        .unwrap();
    let mut stream = UnixStream::connect(&socket.0).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream.write_all(b"over a Unix socket").unwrap();
    stream.read_exact(&mut answer[..18]).unwrap();
    drop(stream);
    ended.recv_timeout(WAIT_LIMIT).unwrap();
    file.close().join().unwrap();

    let udp_text =
        tshark(&path.0, &["-Y", "udp", "-T", "fields", "-e", "udp.srcport", "-e", "udp.payload"]);
    let hex: String = b"a datagram".iter().map(|byte| format!("{byte:02x}")).collect();
    let from = [client.local_addr().unwrap().port(), udp.port()];
    assert_eq!(udp_text, from.map(|port| format!("{port}\t{hex}\n")).concat());
    let followed = follow_stream(&path.0, 0);
    assert_eq!(followed.from_initiator, b"over a Unix socket");
    assert_eq!(followed.from_acceptor, b"over a Unix socket");
    let ends = tshark(
        &path.0,
        &[
            "-Y",
            "tcp.flags.syn == 1 && tcp.flags.ack == 0",
            "-T",
            "fields",
            "-e",
            "ip.src",
            "-e",
            "ip.dst",
        ],
    );
    assert_eq!(ends, "198.19.0.0\t198.18.0.1\n");
    assert_eq!(tshark_complaints(&path.0), "");
}
