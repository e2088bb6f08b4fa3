//! Authenticates clients.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};

use waterwheel::channel::{AcceptGuard, AcceptedConnection, Address};
use waterwheel::executor::{Fault, Nanos, Report, Reporter};
use waterwheel::handlers::AcceptRate;

use super::config::{AccessConfig, AccessConfigError, Exposure, FailureLimit, MIN_ADMIN_KEY_BYTES};
use super::grants::Grants;
use super::identity::{ClientIdentity, Permissions};
use super::keys::key_set::{KeySet, read_secret_file};
use super::secret::Secret;
use super::token::claims::{Claims, MAX_LEEWAY_SECONDS};
use super::token::error::TokenError;
use super::token::verifier::TokenVerifier;
use crate::error_code::{ErrorCode, GatewayError};
use crate::topic::filter::TopicFilter;
use crate::topic::limits::TopicLimits;

/// The time of an attempt: on the clock of the loops for rates, and in seconds since 1970 for tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessTime {
    /// The time on the clock of the loops.
    pub monotonic: Nanos,
    /// The seconds since 1970.
    pub unix: u64,
}

/// Authenticates clients by their tokens or by the admin key.
///
/// Any thread may call the methods: sessions and HTTP on their loops, and the operator who reloads. The lock is held to
/// copy or to exchange one pointer; keys are read and signatures verified outside of it.
pub struct AccessControl {
    policy: RwLock<Arc<AccessPolicy>>,
    exposure: Exposure,
    failures: AcceptRate,
    reporter: Arc<dyn Reporter>,
}

/// The rules of one configuration; exchanged as a whole.
struct AccessPolicy {
    verifier: TokenVerifier,
    admin_key: Option<Secret>,
    token_subscribe: Grants,
    token_publish: Grants,
    /// The identity of clients without a credential; `None`: refused.
    anonymous: Option<ClientIdentity>,
}

impl AccessControl {
    /// Reads the keys. Refused credentials are reported, with the reason.
    ///
    /// # Errors
    /// The gateway would be open to the network, or the configuration or a key is not usable.
    pub fn new(
        config: &AccessConfig,
        exposure: Exposure,
        reporter: &Arc<dyn Reporter>,
    ) -> Result<Self, AccessConfigError> {
        let FailureLimit { burst, count, period, max_addresses } = config.failures;
        let failures =
            AcceptRate::builder(count, period).burst(burst).max_addresses(max_addresses).build()?;
        let policy = RwLock::new(Arc::new(AccessPolicy::load(config, exposure)?));
        Ok(Self { policy, exposure, failures, reporter: reporter.clone() })
    }

    /// Reads the configuration and the keys again. Clients keep the permissions that they have; the limit of failures
    /// stays as it was at the start.
    ///
    /// # Errors
    /// As for [`new`](Self::new); everything stays as it was.
    pub fn reload(&self, config: &AccessConfig) -> Result<(), AccessConfigError> {
        let policy = Arc::new(AccessPolicy::load(config, self.exposure)?);
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
        Ok(())
    }

    /// Returns the identity of a client without a credential.
    ///
    /// # Errors
    /// `token_required`.
    pub fn anonymous(&self) -> Result<ClientIdentity, GatewayError> {
        self.policy().anonymous.clone().ok_or_else(|| {
            GatewayError::new(ErrorCode::TokenRequired, "this gateway requires a token")
        })
    }

    /// Returns the identity that a token or the admin key proves. `peer` is the address of the client; clients on loopback
    /// are not slowed down when they guess.
    ///
    /// # Errors
    /// `token_invalid`, `token_expired`; `rate_exceeded` for an address that sent too many invalid credentials.
    pub fn authenticate(
        &self,
        credential: &str,
        peer: Option<IpAddr>,
        now: AccessTime,
    ) -> Result<ClientIdentity, GatewayError> {
        let peer = peer.map(|peer| peer.to_canonical());
        let limited = peer.filter(|peer| !peer.is_loopback());
        if limited.is_some_and(|peer| !self.failures.may_admit(peer, now.monotonic)) {
            return Err(GatewayError::new(
                ErrorCode::RateExceeded,
                "too many invalid tokens from this address; try again in a minute",
            ));
        }
        let error = match self.policy().identify(credential, now.unix) {
            Ok(identity) => return Ok(identity),
            Err(error) => error,
        };
        // Tokens of our own that have expired are no guesses.
        if !matches!(error, TokenError::Expired { .. }) {
            if let Some(peer) = limited {
                let failure = Address::Ip(SocketAddr::new(peer, 0));
                self.failures.check(&AcceptedConnection::new(Some(failure), None, now.monotonic));
            }
            self.report(&error, peer);
        }
        Err(error.for_client())
    }

    /// True if tokens say who users are: then clients without one choose no names, which others would take for users.
    #[must_use]
    pub fn has_users(&self) -> bool {
        !self.policy().verifier.keys().is_empty()
    }

    /// Describes who may do what, for the operator.
    #[must_use]
    pub fn description(&self) -> String {
        let policy = self.policy();
        let keys = policy.verifier.keys();
        let mut text = match keys.len() {
            0 => String::from("no tokens"),
            count => format!("tokens of {count} keys"),
        };
        if keys.skipped() > 0 {
            let _ = write!(text, " ({} others skipped)", keys.skipped());
        }
        text.push_str(if policy.admin_key.is_some() { ", admin key" } else { ", no admin key" });
        text.push_str(match &policy.anonymous {
            None => "; clients without a credential are refused",
            Some(client) if client.permissions.is_admin => {
                "; open: any program on this machine may do everything"
            }
            Some(_) => "; clients without a credential are accepted",
        });
        text
    }

    fn policy(&self) -> Arc<AccessPolicy> {
        self.policy.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn report(&self, error: &TokenError, peer: Option<IpAddr>) {
        let peer = peer.map_or_else(|| String::from("a local socket"), |peer| peer.to_string());
        let fault = Fault::Unhandled(format!("a client at {peer} was refused: {error}"));
        self.reporter.report(&Report { executor: "gateway", fault });
    }
}

impl std::fmt::Debug for AccessControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AccessControl({})", self.description())
    }
}

impl AccessPolicy {
    fn load(config: &AccessConfig, exposure: Exposure) -> Result<Self, AccessConfigError> {
        let admin_key = match &config.admin_key_file {
            Some(path) => Some(read_secret_file(path)?),
            None => config.admin_key.clone(),
        };
        let has_keys = !config.token_keys.is_empty() || admin_key.is_some();
        if !has_keys && !config.allow_anonymous && exposure == Exposure::Network {
            return Err(AccessConfigError::OpenToNetwork);
        }
        if config.claims.leeway > MAX_LEEWAY_SECONDS {
            return Err(AccessConfigError::Leeway(config.claims.leeway));
        }
        if admin_key.as_ref().is_some_and(|key| !is_admin_key_usable(key)) {
            return Err(AccessConfigError::AdminKey);
        }
        let limits = &config.claims.topics;
        let keys = KeySet::load(&config.token_keys)?;
        let anonymous = match !has_keys || config.allow_anonymous {
            true => Some(anonymous_identity(config, exposure, has_keys)?),
            false => None,
        };
        Ok(Self {
            verifier: TokenVerifier::new(keys, config.claims.clone(), config.max_token_bytes),
            admin_key,
            token_subscribe: grants("tokens.subscribe", &config.token_subscribe, limits)?,
            token_publish: grants("tokens.publish", &config.token_publish, limits)?,
            anonymous,
        })
    }

    fn identify(&self, credential: &str, now: u64) -> Result<ClientIdentity, TokenError> {
        if self.admin_key.as_ref().is_some_and(|key| key.is_equal_to(credential.as_bytes())) {
            let everything = vec![TopicFilter::everything()];
            let permissions =
                Permissions { subscribe: everything.clone(), publish: everything, is_admin: true };
            return Ok(ClientIdentity {
                user: None,
                permissions: permissions.into(),
                expires_at: None,
            });
        }
        let claims = self.verifier.verify(credential, now)?;
        Ok(self.identity_of(claims))
    }

    fn identity_of(&self, claims: Claims) -> ClientIdentity {
        let Claims { user, subscribe, publish, is_admin, expires_at } = claims;
        let limits = &self.verifier.rules().topics;
        let granted = |grants: &Grants| grants.for_user(user.as_deref(), limits);
        let permissions = Permissions {
            subscribe: subscribe.unwrap_or_else(|| granted(&self.token_subscribe)),
            publish: publish.unwrap_or_else(|| granted(&self.token_publish)),
            is_admin,
        };
        ClientIdentity { user, permissions: permissions.into(), expires_at }
    }
}

fn anonymous_identity(
    config: &AccessConfig,
    exposure: Exposure,
    has_keys: bool,
) -> Result<ClientIdentity, AccessConfigError> {
    let limits = &config.claims.topics;
    let default = match config.token_keys.is_empty() {
        true => vec![TopicFilter::everything()],
        false => Vec::new(),
    };
    let filters = |setting, filters: &Option<Vec<String>>| match filters {
        Some(filters) => {
            grants(setting, filters, limits).map(|grants| grants.for_user(None, limits))
        }
        None => Ok(default.clone()),
    };
    let permissions = Permissions {
        subscribe: filters("anonymous.subscribe", &config.anonymous_subscribe)?,
        publish: filters("anonymous.publish", &config.anonymous_publish)?,
        is_admin: !has_keys && exposure == Exposure::Loopback,
    };
    Ok(ClientIdentity { user: None, permissions: permissions.into(), expires_at: None })
}

/// Reads the filters of a setting.
fn grants(
    setting: &'static str,
    filters: &[String],
    limits: &TopicLimits,
) -> Result<Grants, AccessConfigError> {
    Grants::parse(filters, limits).map_err(|cause| AccessConfigError::Filter { setting, cause })
}

fn is_admin_key_usable(key: &Secret) -> bool {
    let key = key.as_bytes();
    key.len() >= MIN_ADMIN_KEY_BYTES && key.iter().all(u8::is_ascii_graphic)
}
