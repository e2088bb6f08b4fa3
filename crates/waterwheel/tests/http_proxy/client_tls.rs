//! The client with TLS, against nginx and hyper.

use crate::certificates::{Authority, Identity};
use crate::program::Program;
use crate::support::nginx::Nginx;
use crate::support::{start_proxy, text, with_client};

fn identity(authority: &Authority) -> Identity {
    authority.identity("server", &rcgen::PKCS_ECDSA_P256_SHA256, &["127.0.0.1", crate::NAME])
}

#[test]
fn h11_https_of_nginx_over_one_connection() {
    let authority = Authority::new("http_client_nginx");
    let server = "location / { return 200 \"$connection $ssl_protocol $scheme\"; }";
    let Some(nginx) = Nginx::start_tls(server, &identity(&authority)) else { return };
    let tls = authority.trusting_client().build().unwrap();
    let url = format!("https://{}/", nginx.address);
    let named = format!("https://{}:{}/", crate::NAME, nginx.address.port());
    let (first, others) = with_client(
        |builder| builder.tls(tls),
        |client| async move {
            let first = text(client.get(&*url).await.unwrap()).await;
            let mut others = Vec::new();
            for _ in 0..10 {
                others.push(text(client.get(&*url).await.unwrap()).await);
            }
            let by_name = text(client.get(&*named).await.unwrap()).await;
            assert!(by_name.ends_with(" TLSv1.3 https"), "{by_name}");
            (first, others)
        },
    );
    assert!(first.ends_with(" TLSv1.3 https"), "{first}");
    assert!(others.iter().all(|other| *other == first), "{first}, {others:?}");
}

#[test]
fn h11_a_server_that_is_not_trusted_gets_no_request() {
    let (authority, other) = (Authority::new("http_untrusted"), Authority::new("http_trusted"));
    let server = "location / { return 200 no; }";
    let Some(nginx) = Nginx::start_tls(server, &identity(&authority)) else { return };
    let tls = other.trusting_client().build().unwrap();
    let url = format!("https://{}/", nginx.address);
    let error = with_client(
        |builder| builder.tls(tls),
        |client| async move { client.get(&*url).await.unwrap_err().to_string() },
    );
    assert!(error.starts_with("no TLS connection to 127.0.0.1:"), "{error}");
    assert!(error.contains("certificate"), "{error}");
}

#[test]
fn h15_https_of_hyper_chooses_http_1_1_by_alpn() {
    let authority = Authority::new("http_client_hyper");
    let Identity { chain, key } = identity(&authority);
    let files = [chain.display().to_string(), key.display().to_string()];
    let server = Program::start("axum_on_waterwheel", &[&"--tls", &files[0], &files[1], &0]);
    let tls = authority.trusting_client().build().unwrap();
    let url = format!("https://{}/", server.address());
    let page = with_client(
        |builder| builder.tls(tls),
        |client| async move { text(client.get(&*url).await.unwrap()).await },
    );
    assert_eq!(page, "axum on Waterwheel, by HTTP/1.1\n");
}

#[test]
fn h11_the_proxy_speaks_tls_to_its_upstream() {
    let authority = Authority::new("http_proxy_upstream");
    let server = "location / { return 200 \"$scheme $http_x_forwarded_proto\"; }";
    let Some(nginx) = Nginx::start_tls(server, &identity(&authority)) else { return };
    let root = authority.root.display().to_string();
    let url = format!("https://{}", nginx.address);
    let proxy = Program::start("reverse_proxy", &[&"--ca", &root, &0, &url]);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answer = crate::support::exchange(proxy.address(), request);
    assert!(answer.ends_with("\r\n\r\nhttps http"), "{answer}");
    // Without TLS, nginx says what is wrong.
    let proxy = start_proxy(nginx.address, &[]);
    let answer = crate::support::exchange(proxy.address(), request);
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
}
