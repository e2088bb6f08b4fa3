//! PROXY headers sent by other programs: curl (version 1) and HAProxy (both versions).
//!
//! A test whose program is not installed prints a note and passes; `scripts/test` installs the programs.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::mpsc::channel;

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Address, Bootstrap, Channel, Ctx, Encode, EventLoopGroup, HandlerResult, In, InboundHandler,
    Msg, ServerBootstrap,
};
use waterwheel::codec::{ProxyEncoder, ProxyHeader, ProxyServer, ProxyTlv};
use waterwheel::net::{Auto, Tcp};

use crate::haproxy::HaProxy;
use crate::program::{WAIT_LIMIT, connect};

/// Answers an HTTP request with the peer's address and the other fields of the PROXY header.
struct PeerInfo {
    tlvs: Vec<ProxyTlv>,
    is_local: bool,
}

impl InboundHandler for PeerInfo {
    type In = Bytes;

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if let Some(header) = event.get::<ProxyHeader>() {
            (self.tlvs, self.is_local) = (header.tlvs.clone(), header.is_local);
        } else {
            ctx.fire_user_event(event);
        }
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, _: Bytes) -> HandlerResult {
        let peer = ctx.channel().peer_address().map(|peer| peer.to_string()).unwrap_or_default();
        let tlvs: String = self
            .tlvs
            .iter()
            .map(|tlv| format!(" {:#x}={}", tlv.kind, tlv.value.escape_ascii()))
            .collect();
        let local = if self.is_local { " local" } else { "" };
        let body = format!("{peer}{local}{tlvs}\n");
        let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        ctx.write_and_flush(Bytes::from(head + &body));
        ctx.close();
        Ok(())
    }
}

/// Binds a server that trusts PROXY headers from the loopback.
fn serve(group: &EventLoopGroup) -> (Channel, SocketAddr) {
    let trusted =
        |peer: Option<&Address>| peer.and_then(Address::ip).is_some_and(|ip| ip.is_loopback());
    let server = ServerBootstrap::new(group, Tcp)
        .child_initialiser(move |edit| {
            edit.add_last("proxy", ProxyServer::new(trusted))?;
            edit.add_last("peer info", In(PeerInfo { tlvs: Vec::new(), is_local: false }))?;
            Ok(())
        })
        .bind("127.0.0.1:0")
        .join()
        .unwrap();
    let address = server.local_address().and_then(|address| address.socket_addr()).unwrap();
    (server, address)
}

#[test]
fn k04_a_server_uses_the_client_address_sent_by_curl() {
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let (_server, address) = serve(&group);
    let mut command = Command::new("curl");
    let format = "%{local_ip}:%{local_port}";
    command.args(["-sS", "--max-time", "60", "--haproxy-protocol", "-w", format]);
    let output = match command.arg(format!("http://{address}/")).output() {
        Ok(output) => output,
        Err(error) => return println!("not tested: curl: {error}"),
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text} {:?}", output.stderr);
    let (answered, local) = text.split_once('\n').unwrap();
    assert_eq!(answered, local, "left: address in the answer, right: curl's own address");
}

#[test]
fn k04_a_server_uses_the_client_address_sent_by_haproxy() {
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let (_server, address) = serve(&group);
    for send in ["send-proxy", "send-proxy-v2", "send-proxy-v2 proxy-v2-options crc32c,unique-id"] {
        let Some(proxy) = HaProxy::start(address, send) else { return };
        // The socket listens already: the connection waits in the backlog until HAProxy accepts it.
        let mut client = connect(proxy.address);
        client.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        let answered = answer.lines().last().unwrap_or_default();
        let client = client.local_addr().unwrap().to_string();
        assert_eq!(answered.split(' ').next(), Some(client.as_str()), "{send}: {answer:?}");
    }
}

#[test]
fn k04_a_server_accepts_a_header_sent_by_a_client() {
    struct SendHeader(ProxyHeader, std::sync::mpsc::Sender<Bytes>);

    impl InboundHandler for SendHeader {
        type In = Bytes;

        fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
            ctx.write(self.0.clone());
            ctx.write_and_flush(Bytes::from_static(b"GET / HTTP/1.0\r\n\r\n"));
            ctx.fire_active();
            Ok(())
        }

        fn on_read(&mut self, _: &Ctx<'_>, answer: Bytes) -> HandlerResult {
            let _ = self.1.send(answer);
            Ok(())
        }
    }

    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let (_server, address) = serve(&group);
    let source: SocketAddr = "203.0.113.7:51000".parse().unwrap();
    let header = ProxyHeader::tcp(source, "192.0.2.1:443".parse().unwrap());
    let alpn = ProxyTlv { kind: ProxyTlv::ALPN, value: "h2".into() };
    let with_tlv = ProxyHeader { tlvs: vec![alpn], ..header.clone() };
    for (encoder, header, expected) in [
        (ProxyEncoder::V1, header, "\n203.0.113.7:51000\n"),
        (ProxyEncoder::V2, with_tlv, "\n203.0.113.7:51000 0x1=h2\n"),
        (ProxyEncoder::V2, ProxyHeader::local(), " local\n"),
    ] {
        let (sender, answers) = channel();
        Bootstrap::new(&group, Tcp)
            .initialiser(move |edit| {
                edit.add_last("proxy", Encode::new(encoder))?;
                edit.add_last("send", In(SendHeader(header.clone(), sender.clone())))?;
                Ok(())
            })
            .connect(address)
            .join()
            .unwrap();
        let answer = answers.recv_timeout(WAIT_LIMIT).unwrap();
        assert!(answer.ends_with(expected.as_bytes()), "{answer:?}");
    }
}
