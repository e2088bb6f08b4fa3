//! The client through a proxy: tunnels for https, whole URLs for http.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use waterwheel::http::Proxy;

use crate::certificates::Authority;
use crate::support::nginx::Nginx;
use crate::support::scripted_server::{ScriptedConnection, ScriptedServer};
use crate::support::{start_proxy, text, with_client};

/// Connects both directions to the host and port that the client names. Counts tunnels.
fn open_tunnel(client: &mut ScriptedConnection, tunnels: &AtomicUsize) {
    let head = client.read_head().unwrap();
    let target = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next());
    let Some(target) = target else {
        return client.send("HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n");
    };
    if !head.contains("proxy-authorization: Basic eA==\r\n") {
        let refusal = "HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        return client.send(refusal);
    }
    tunnels.fetch_add(1, Ordering::SeqCst);
    let server = TcpStream::connect(target).unwrap();
    client.send("HTTP/1.1 200 Connection established\r\n\r\n");
    let (mut to_client, mut from_server) = (client.stream().try_clone().unwrap(), &server);
    std::thread::scope(|scope| {
        // Either end may be reset at the end of a test.
        scope.spawn(move || {
            let _ = io::copy(&mut from_server, &mut to_client);
            let _ = to_client.shutdown(Shutdown::Write);
        });
        let _ = io::copy(client, &mut &server);
        let _ = server.shutdown(Shutdown::Write);
    });
}

#[test]
fn h11_https_of_nginx_through_a_tunnel() {
    let authority = Authority::new("http_connect");
    let identity = authority.identity("server", &rcgen::PKCS_ECDSA_P256_SHA256, &["127.0.0.1"]);
    let server = "location / { return 200 \"$connection $scheme\"; }";
    let Some(nginx) = Nginx::start_tls(server, &identity) else { return };
    let tunnels = Arc::new(AtomicUsize::new(0));
    let counted = tunnels.clone();
    let proxy = ScriptedServer::start(move |client| open_tunnel(client, &counted));
    let url = format!("https://{}/", nginx.address);
    let by_proxy = Proxy::http(&format!("http://{}", proxy.address)).unwrap();
    for is_known in [false, true] {
        let by_proxy = match is_known {
            true => by_proxy.clone().authorization("Basic eA==".parse().unwrap()),
            false => by_proxy.clone(),
        };
        let (tls, url) = (authority.trusting_client().build().unwrap(), url.clone());
        let pages = with_client(
            |builder| builder.tls(tls).proxy(by_proxy),
            |client| async move {
                let mut pages = Vec::new();
                for _ in 0..5 {
                    pages.push(match client.get(&*url).await {
                        Ok(page) => text(page).await,
                        Err(error) => error.to_string(),
                    });
                }
                pages
            },
        );
        let is_expected = |page: &String| match is_known {
            true => *page == pages[0] && page.ends_with(" https"),
            false => page.contains(" refused a tunnel to ") && page.contains(" status 407 "),
        };
        assert!(pages.iter().all(is_expected), "{pages:?}");
    }
    assert_eq!(tunnels.load(Ordering::SeqCst), 1, "one tunnel carries all requests");
}

/// A reverse proxy takes whole URLs, too, and goes to its upstream whatever host they name.
#[test]
fn h11_http_goes_to_a_proxy_as_a_whole_url() {
    let Some(nginx) = Nginx::start("location / { return 200 \"$host $http_via\"; }") else {
        return;
    };
    let proxy = start_proxy(nginx.address, &[]);
    let by_proxy = Proxy::http(&format!("http://{}", proxy.address())).unwrap();
    let page = with_client(
        |builder| builder.proxy(by_proxy),
        |client| async move { text(client.get("http://far.example/x").await.unwrap()).await },
    );
    assert_eq!(page, "far.example 1.1 waterwheel");
}
