//! Values by DNS name, with wildcards.

use std::borrow::Cow;
use std::collections::HashMap;

use rustls::pki_types::DnsName;

/// Values by the DNS name of a server, as a client gives it (SNI) and as certificates have it.
///
/// - An exact name is preferred to a wildcard.
/// - A wildcard is `*` as the first label of a name, and stands for exactly one label: `*.example.org` matches
///   `a.example.org`, not `example.org` or `a.b.example.org`. A `*` elsewhere is refused.
/// - Upper and lower case are the same, and so are a name with and without the dot of the root at its end.
/// - International names are in their ASCII form (`xn--…`), as TLS sends them. Others are refused, and so are IP
///   addresses, which clients do not send as names.
///
/// ```
/// use waterwheel_tls::ServerNameMap;
///
/// let mut ports = ServerNameMap::new();
/// ports.insert("example.org", 1)?;
/// ports.insert("*.example.org", 2)?;
/// assert_eq!(ports.get("Example.ORG."), Some(&1));
/// assert_eq!(ports.get("www.example.org"), Some(&2));
/// assert_eq!(ports.get("a.b.example.org"), None);
/// # Ok::<(), waterwheel_tls::InvalidServerName>(())
/// ```
#[derive(Clone, Debug)]
pub struct ServerNameMap<T> {
    exact: HashMap<Box<str>, T>,
    /// The values of wildcards, by the name behind `*.`.
    wildcards: HashMap<Box<str>, T>,
}

impl<T> ServerNameMap<T> {
    /// Returns an empty map.
    pub fn new() -> Self {
        Self { exact: HashMap::new(), wildcards: HashMap::new() }
    }

    /// Sets the value of a name or wildcard. Returns the value that it had.
    ///
    /// # Errors
    /// [`InvalidServerName`]: the name is neither a DNS name nor a wildcard.
    pub fn insert(&mut self, name: &str, value: T) -> Result<Option<T>, InvalidServerName> {
        let name = NamePattern::parse(name)?;
        Ok(match name.is_wildcard {
            true => self.wildcards.insert(name.domain, value),
            false => self.exact.insert(name.domain, value),
        })
    }

    /// Returns the value for the name that a client has given.
    pub fn get(&self, name: &str) -> Option<&T> {
        let name = normalized(name);
        if let Some(value) = self.exact.get(&*name) {
            return Some(value);
        }
        let (label, domain) = name.split_once('.')?;
        if label.is_empty() { None } else { self.wildcards.get(domain) }
    }

    /// Returns the value of exactly this name or wildcard, adding it if there is none.
    pub(crate) fn entry(&mut self, name: NamePattern) -> &mut T
    where
        T: Default,
    {
        let map = if name.is_wildcard { &mut self.wildcards } else { &mut self.exact };
        map.entry(name.domain).or_default()
    }

    /// Returns the names and wildcards, in lower case and in no order.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        let wildcards = self.wildcards.keys().map(|domain| format!("*.{domain}"));
        self.exact.keys().map(|name| name.to_string()).chain(wildcards)
    }

    /// Returns the number of names and wildcards.
    pub fn len(&self) -> usize {
        self.exact.len() + self.wildcards.len()
    }

    /// True if the map has no name.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Default for ServerNameMap<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A name or wildcard in lower case, without a dot at its end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NamePattern {
    is_wildcard: bool,
    /// The name, or what follows `*.`.
    domain: Box<str>,
}

impl NamePattern {
    pub(crate) fn parse(name: &str) -> Result<Self, InvalidServerName> {
        let invalid = |reason| InvalidServerName { name: name.into(), reason };
        if !name.is_ascii() {
            return Err(invalid("write international names in their ASCII form, `xn--…`"));
        }
        let (is_wildcard, domain) = match name.strip_prefix("*.") {
            Some(domain) => (true, domain),
            None => (false, name),
        };
        if domain.contains('*') {
            return Err(invalid("a wildcard is `*` as the whole first label"));
        }
        if domain.parse::<std::net::IpAddr>().is_ok() {
            return Err(invalid("clients do not send IP addresses as names"));
        }
        DnsName::try_from_str(domain).map_err(|_| invalid("not a DNS name"))?;
        Ok(Self { is_wildcard, domain: normalized(domain).into() })
    }
}

impl std::fmt::Display for NamePattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", if self.is_wildcard { "*." } else { "" }, self.domain)
    }
}

/// Returns the name in lower case, without the dot of the root.
fn normalized(name: &str) -> Cow<'_, str> {
    let name = name.strip_suffix('.').unwrap_or(name);
    match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => name.to_ascii_lowercase().into(),
        false => name.into(),
    }
}

/// Why a name of a server is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a name of a server: {reason}")]
pub struct InvalidServerName {
    name: String,
    reason: &'static str,
}

impl From<InvalidServerName> for waterwheel_executor::Error {
    fn from(error: InvalidServerName) -> Self {
        Self::new(error)
    }
}
