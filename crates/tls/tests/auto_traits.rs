//! Lists every public type with its auto traits.

use waterwheel_tls::{
    AlpnError, AlpnHandler, AlpnHandlerBuilder, ChooserError, ClientCertificates, ClientHello,
    ClientHelloError, ClientHelloReader, ClientTls, ClientTlsBuilder, InvalidAlpnHandler,
    InvalidServerName, InvalidTlsOption, OnCloseNotify, ServerCertificates,
    ServerCertificatesBuilder, ServerNameMap, ServerTls, ServerTlsBuilder, StopTls, TlsConfigError,
    TlsError, TlsHandler, TlsHandshake, TlsOptions, TlsOptionsBuilder, TlsPeerClosed, TlsStopped,
};

#[path = "../../../support/auto_traits.rs"]
mod auto_traits;

use auto_traits::{AutoTraits, NotImplemented, is};

#[test]
fn public_types_cross_threads_as_listed() {
    let listed = [
        is!(AlpnError: true true true),
        is!(AlpnHandler: true true true),
        is!(AlpnHandlerBuilder: true true true),
        is!(ChooserError: true true true),
        is!(ClientCertificates: true true true),
        is!(ClientHello: true true true),
        is!(ClientHelloError: true true true),
        is!(ClientHelloReader: true true true),
        is!(ClientTls: true true true),
        is!(ClientTlsBuilder: true true true),
        is!(InvalidAlpnHandler: true true true),
        is!(InvalidServerName: true true true),
        is!(InvalidTlsOption: true true true),
        is!(OnCloseNotify: true true true),
        is!(ServerCertificates: true true true),
        is!(ServerCertificatesBuilder: true true true),
        is!(ServerNameMap<()>: true true true),
        is!(ServerTls: true true true),
        is!(ServerTlsBuilder: true true true),
        is!(StopTls: true true true),
        is!(TlsConfigError: true true true),
        is!(TlsError: true true true),
        is!(TlsHandler: false false true),
        is!(TlsHandshake: true true true),
        is!(TlsOptions: true true true),
        is!(TlsOptionsBuilder: true true true),
        is!(TlsPeerClosed: true true true),
        is!(TlsStopped: true true true),
    ];
    auto_traits::check(&listed, &[include_str!("../src/lib.rs")], &[]);
}
