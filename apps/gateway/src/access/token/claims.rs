//! The claims of a token: what it permits, to whom, and until when.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::error::TokenError;
use crate::topic::filter::TopicFilter;
use crate::topic::limits::TopicLimits;

/// Maximum length of the claim `sub`, in bytes.
pub const MAX_USER_BYTES: usize = 128;

/// Maximum leeway: a clock that is further off is to be set.
pub const MAX_LEEWAY_SECONDS: u64 = 300;

/// The rules that the claims of a token must satisfy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRules {
    /// The value of `iss`; `None`: any, or none.
    pub issuer: Option<String>,
    /// A value that `aud` must have; `None`: a token with `aud` is refused, because it is meant for others (RFC 7519,
    /// 4.1.3).
    pub audience: Option<String>,
    /// The seconds by which clocks may differ; at most [`MAX_LEEWAY_SECONDS`].
    pub leeway: u64,
    /// True if a token must have `exp`.
    pub must_expire: bool,
    /// Maximum number of filters in each of `subscribe` and `publish`.
    pub max_filters: usize,
    /// The limits of these filters.
    pub topics: TopicLimits,
}

impl Default for ClaimRules {
    fn default() -> Self {
        Self {
            issuer: None,
            audience: None,
            leeway: 30,
            must_expire: true,
            // Each is compared at each subscription and publication.
            max_filters: 64,
            topics: TopicLimits::default(),
        }
    }
}

/// The claims of a verified token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The user (`sub`).
    pub user: Option<Arc<str>>,
    /// The filters of `subscribe`; `None` if the token does not say.
    pub subscribe: Option<Vec<TopicFilter>>,
    /// The filters of `publish`; `None` if the token does not say.
    pub publish: Option<Vec<TopicFilter>>,
    /// The claim `admin`.
    pub is_admin: bool,
    /// The second in which the token is no longer accepted: `exp` and the leeway.
    pub expires_at: Option<u64>,
}

impl Claims {
    /// Reads and checks the claims. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// A claim is missing, malformed, over a limit, or does not hold at this time.
    pub fn check(
        payload: &Map<String, Value>,
        rules: &ClaimRules,
        now: u64,
    ) -> Result<Self, TokenError> {
        check_source(payload, rules)?;
        let expires_at = check_times(payload, rules, now)?;
        let is_admin = match payload.get("admin") {
            None => false,
            Some(Value::Bool(is_admin)) => *is_admin,
            Some(_) => return Err(TokenError::Claim("admin")),
        };
        Ok(Self {
            user: read_user(payload)?,
            subscribe: read_filters(payload, "subscribe", rules)?,
            publish: read_filters(payload, "publish", rules)?,
            is_admin,
            expires_at,
        })
    }
}

fn check_source(payload: &Map<String, Value>, rules: &ClaimRules) -> Result<(), TokenError> {
    if let Some(expected) = &rules.issuer
        && payload.get("iss").and_then(Value::as_str) != Some(expected)
    {
        return Err(TokenError::OtherValue("iss"));
    }
    let is_meant = match (payload.get("aud"), &rules.audience) {
        (None, None) => true,
        (Some(Value::String(one)), Some(expected)) => one == expected,
        (Some(Value::Array(many)), Some(expected)) => many.iter().any(|one| one == expected),
        _ => false,
    };
    match is_meant {
        true => Ok(()),
        false => Err(TokenError::OtherValue("aud")),
    }
}

/// Returns the second in which the token is no longer accepted.
fn check_times(
    payload: &Map<String, Value>,
    rules: &ClaimRules,
    now: u64,
) -> Result<Option<u64>, TokenError> {
    for name in ["nbf", "iat"] {
        if let Some(time) = read_time(payload, name)?
            && time.ceil > now.saturating_add(rules.leeway)
        {
            return Err(TokenError::NotYetValid(name));
        }
    }
    match read_time(payload, "exp")? {
        None if rules.must_expire => Err(TokenError::Claim("exp")),
        None => Ok(None),
        Some(time) => {
            let end = time.floor.saturating_add(rules.leeway);
            match now < end {
                true => Ok(Some(end)),
                false => Err(TokenError::Expired { seconds: now - time.floor }),
            }
        }
    }
}

/// A time of a claim in whole seconds since 1970, rounded to both sides.
struct ClaimTime {
    floor: u64,
    ceil: u64,
}

/// Reads a time, which may have a fraction (RFC 7519, 2: NumericDate).
fn read_time(
    payload: &Map<String, Value>,
    name: &'static str,
) -> Result<Option<ClaimTime>, TokenError> {
    let Some(value) = payload.get(name) else { return Ok(None) };
    if let Some(seconds) = value.as_u64() {
        return Ok(Some(ClaimTime { floor: seconds, ceil: seconds }));
    }
    match value.as_f64() {
        // The conversion saturates; what is beyond its range is the far future.
        Some(seconds) if seconds >= 0.0 => {
            Ok(Some(ClaimTime { floor: seconds.floor() as u64, ceil: seconds.ceil() as u64 }))
        }
        _ => Err(TokenError::Claim(name)),
    }
}

/// Reads the user. White space would make two words of a name in the protocol of lines.
fn read_user(payload: &Map<String, Value>) -> Result<Option<Arc<str>>, TokenError> {
    match payload.get("sub") {
        None => Ok(None),
        Some(Value::String(user))
            if !user.is_empty()
                && user.len() <= MAX_USER_BYTES
                && !user.chars().any(|c| c.is_whitespace() || c.is_control()) =>
        {
            Ok(Some(user.as_str().into()))
        }
        Some(_) => Err(TokenError::Claim("sub")),
    }
}

fn read_filters(
    payload: &Map<String, Value>,
    name: &'static str,
    rules: &ClaimRules,
) -> Result<Option<Vec<TopicFilter>>, TokenError> {
    let refused = TokenError::Claim(name);
    let filters = match payload.get(name) {
        None => return Ok(None),
        Some(Value::Array(filters)) if filters.len() <= rules.max_filters => filters,
        Some(_) => return Err(refused),
    };
    let parse = |filter: &Value| TopicFilter::parse(filter.as_str()?, &rules.topics).ok();
    filters.iter().map(parse).collect::<Option<_>>().map(Some).ok_or(refused)
}
