//! The configuration of access, and the permissions of clients without a credential.
//!
//! | keys | `allow_anonymous` | clients without a credential | addresses |
//! |---|---|---|---|
//! | none | no | may do everything, and are admins | loopback; others are refused at the start |
//! | none | yes | may subscribe and publish; are admins on loopback | any |
//! | tokens or an admin key | no | are refused: `token_required` | any |
//! | tokens or an admin key | yes | may do what is granted to them | any |

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use waterwheel::handlers::InvalidGuard;

use super::grants::InvalidGrant;
use super::keys::key_set::{KeyError, KeySource};
use super::secret::Secret;
use super::token::claims::{ClaimRules, MAX_LEEWAY_SECONDS};
use super::token::verifier::DEFAULT_MAX_TOKEN_BYTES;

/// Minimum length of the admin key in bytes.
pub const MIN_ADMIN_KEY_BYTES: usize = 16;

/// The configuration of access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessConfig {
    /// The keys of tokens; without any, no token is accepted.
    pub token_keys: Vec<KeySource>,
    /// The rules that tokens must satisfy.
    pub claims: ClaimRules,
    /// Maximum length of a token in bytes.
    pub max_token_bytes: usize,
    /// The filters of tokens that have no claim `subscribe`. `{user}` stands for the user.
    pub token_subscribe: Vec<String>,
    /// The filters of tokens that have no claim `publish`. `{user}` stands for the user.
    pub token_publish: Vec<String>,
    /// The key that permits everything.
    pub admin_key: Option<Secret>,
    /// A file with that key, in place of [`admin_key`](Self::admin_key). A line end at the end does not belong to it.
    pub admin_key_file: Option<PathBuf>,
    /// True if clients without a credential are accepted although there are keys, or addresses other than loopback.
    pub allow_anonymous: bool,
    /// The filters that clients without a credential may subscribe to; `None`: all without keys of tokens, otherwise none.
    pub anonymous_subscribe: Option<Vec<String>>,
    /// The filters that clients without a credential may publish to; `None`: all without keys of tokens, otherwise none.
    pub anonymous_publish: Option<Vec<String>>,
    /// The limit of failed attempts per address.
    pub failures: FailureLimit,
}

impl Default for AccessConfig {
    fn default() -> Self {
        Self {
            token_keys: Vec::new(),
            claims: ClaimRules::default(),
            max_token_bytes: DEFAULT_MAX_TOKEN_BYTES,
            token_subscribe: Vec::new(),
            token_publish: Vec::new(),
            admin_key: None,
            admin_key_file: None,
            allow_anonymous: false,
            anonymous_subscribe: None,
            anonymous_publish: None,
            failures: FailureLimit::default(),
        }
    }
}

/// How many invalid credentials an address may send before the gateway no longer looks at what it sends. Addresses of
/// IPv6 count by their networks of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureLimit {
    /// The number at once.
    pub burst: u32,
    /// The number in each period.
    pub count: u32,
    /// The period.
    pub period: Duration,
    /// The number of addresses that are counted.
    pub max_addresses: usize,
}

impl Default for FailureLimit {
    fn default() -> Self {
        // Ten a minute guess 5 million keys a year. 16,384 addresses take 2.5 MB at most.
        Self { burst: 20, count: 10, period: Duration::from_secs(60), max_addresses: 1 << 14 }
    }
}

/// The networks from which the gateway can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Programs of this machine: every address is a loopback address.
    Loopback,
    /// Others too.
    Network,
}

impl Exposure {
    /// Returns the exposure of a gateway that listens on these addresses. Sockets without an IP address (Unix) do not
    /// count.
    #[must_use]
    pub fn of(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let is_local = |address: IpAddr| address.to_canonical().is_loopback();
        match addresses.into_iter().all(is_local) {
            true => Self::Loopback,
            false => Self::Network,
        }
    }
}

/// Why a configuration of access is refused.
#[derive(Debug, Error)]
pub enum AccessConfigError {
    /// The gateway would be open to the network.
    #[error(
        "without keys, anyone who reaches the gateway may subscribe and publish, and it listens on an address other than \
         loopback, or behind a trusted proxy: configure keys of tokens or an admin key, or set open"
    )]
    OpenToNetwork,
    /// Keys cannot be used.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The admin key can be guessed, or cannot be sent.
    #[error(
        "an admin key has at least {MIN_ADMIN_KEY_BYTES} characters, all visible ASCII; `openssl rand -hex 32` makes one"
    )]
    AdminKey,
    /// A configured filter is malformed.
    #[error("{setting}: {cause}")]
    Filter {
        /// The name of the setting.
        setting: &'static str,
        /// The filter, and what is wrong with it.
        #[source]
        cause: InvalidGrant,
    },
    /// The leeway is too long.
    #[error("the leeway of tokens is {0} seconds; the limit is {MAX_LEEWAY_SECONDS}")]
    Leeway(u64),
    /// The limit of failures is malformed.
    #[error("the limit of failed attempts is malformed: {0}")]
    Failures(#[from] InvalidGuard),
}
