//! The greeting of a server, and the answer of the engine.

use serde::{Deserialize, Serialize};
use waterwheel::bytes::Bytes;

use crate::access::secret::Secret;
use crate::engine::nats::options::NatsOptions;

/// The part of a server's INFO that the engine needs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::engine::nats) struct ServerInfo {
    pub(in crate::engine::nats) server_name: String,
    pub(in crate::engine::nats) version: String,
    pub(in crate::engine::nats) max_payload: usize,
    pub(in crate::engine::nats) headers: bool,
    pub(in crate::engine::nats) jetstream: bool,
    pub(in crate::engine::nats) tls_required: bool,
    pub(in crate::engine::nats) tls_available: bool,
    /// The addresses of all servers of the cluster.
    pub(in crate::engine::nats) connect_urls: Vec<String>,
    /// True if the server is about to end.
    #[serde(rename = "ldm")]
    pub(in crate::engine::nats) is_lame_duck: bool,
}

impl ServerInfo {
    /// Reads the JSON of INFO.
    pub(in crate::engine::nats) fn parse(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map_err(|error| format!("its INFO is not understood: {error}"))
    }
}

#[derive(Serialize)]
struct ConnectOptions<'a> {
    verbose: bool,
    pedantic: bool,
    tls_required: bool,
    name: &'static str,
    lang: &'static str,
    version: &'static str,
    protocol: u8,
    echo: bool,
    headers: bool,
    no_responders: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pass: Option<&'a str>,
}

/// Returns the JSON of CONNECT.
pub(in crate::engine::nats) fn connect_options(options: &NatsOptions, is_tls: bool) -> Bytes {
    let user = options.user.as_deref();
    let password = options.password.as_ref().map(Secret::as_bytes).map(String::from_utf8_lossy);
    let (token, password) = match user {
        Some(_) => (None, password),
        None => (password, None),
    };
    let options = ConnectOptions {
        verbose: false,
        pedantic: false,
        tls_required: is_tls,
        name: "waterwheel-gateway",
        lang: "rust",
        version: env!("CARGO_PKG_VERSION"),
        // Servers tell of changes in the cluster, and that they are about to end.
        protocol: 1,
        echo: true,
        headers: true,
        no_responders: true,
        auth_token: token.as_deref(),
        user,
        pass: password.as_deref(),
    };
    // A struct of texts and flags is always JSON.
    serde_json::to_vec(&options).unwrap_or_default().into()
}
