//! Fuzzes the reading of ClientHellos: the answer does not depend on how the bytes are cut, no more than the limit is
//! held, and what rustls accepts is read as rustls reads it.
#![no_main]

use std::io::Read;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use waterwheel_fuzz::Input;
use waterwheel_tls::rustls::server::Acceptor;
use waterwheel_tls::{ClientHello, ClientHelloError, ClientHelloReader};

/// The hello and the number of bytes behind it; `None` if it is not complete.
type Answer = Result<Option<(ClientHello, usize)>, ClientHelloError>;

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let limit = match input.byte() {
        0 => ClientHelloReader::DEFAULT_LIMIT,
        few => 8 * usize::from(few),
    };
    let step = 1 + input.below(64);
    let Input(stream) = input;
    let whole = read(limit, stream, stream.len().max(1));
    assert_eq!(whole, read(limit, stream, step), "in pieces of {step}");
    assert_eq!(whole, read(limit, stream, 1), "byte by byte");
    if let Ok(Some((hello, left))) = &whole {
        assert_eq!(hello.records(), &stream[..stream.len() - left]);
    }
    if let Some((name, alpn)) = accept(stream) {
        match whole {
            Ok(Some((hello, _))) => {
                assert_eq!(hello.server_name(), name.as_deref());
                assert!(hello.alpn().eq(alpn));
            }
            Err(ClientHelloError::TooLong { .. }) => assert!(stream.len() > limit),
            other => panic!("rustls accepts what is {other:?}"),
        }
    }
});

fn read(limit: usize, stream: &[u8], step: usize) -> Answer {
    let mut reader = ClientHelloReader::with_limit(limit);
    let mut left = stream.len();
    for piece in stream.chunks(step) {
        left -= piece.len();
        let mut piece = Bytes::copy_from_slice(piece);
        if let Some(hello) = reader.feed(&mut piece)? {
            assert!(hello.records().len() <= limit);
            return Ok(Some((hello, left + piece.len())));
        }
        assert!(piece.is_empty());
    }
    assert!(reader.into_bytes().len() <= limit);
    Ok(None)
}

/// The name and the application protocols as rustls reads them; `None` if it needs more bytes, or refuses.
fn accept(mut stream: &[u8]) -> Option<(Option<String>, Vec<Vec<u8>>)> {
    let mut acceptor = Acceptor::default();
    loop {
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                let hello = accepted.client_hello();
                let alpn = hello.alpn().map(|names| names.map(<[u8]>::to_vec).collect());
                return Some((hello.server_name().map(str::to_owned), alpn.unwrap_or_default()));
            }
            Ok(None) if stream.is_empty() => return None,
            Ok(None) => drop(acceptor.read_tls(&mut stream.by_ref()).ok()?),
            Err(_) => return None,
        }
    }
}
