//! The certificates of a server at one time, by name: the choice of one for a ClientHello, without files or locks.

use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use webpki::EndEntityCert;

use crate::config::error::TlsConfigError;
use crate::config::server_name_map::{NamePattern, ServerNameMap};

/// A certificate with its key, the place it came from and the names it is for.
pub(crate) struct NamedKey {
    pub(crate) key: Arc<CertifiedKey>,
    /// The file of the certificate, for errors.
    pub(crate) source: String,
    /// The names of the certificate that are used; `None` for all.
    pub(crate) names: Option<Vec<String>>,
}

/// The certificates of a server. Immutable: a reload makes another.
pub(crate) struct CertificateSet {
    by_name: ServerNameMap<KeyList>,
    /// The certificates for clients that give no name, or one that no certificate is for. Empty if they are refused.
    default: KeyList,
}

/// Certificates of one name with keys of different kinds, most preferred first, with the files they are from.
type KeyList = Vec<(Arc<CertifiedKey>, Arc<str>)>;

impl CertificateSet {
    /// Returns the set, whose default is the first certificate, and the others of its first name.
    pub(crate) fn new(keys: &[NamedKey], refuses_unknown: bool) -> Result<Self, TlsConfigError> {
        let mut by_name = ServerNameMap::<KeyList>::new();
        let mut default_name = None;
        for (at, named) in keys.iter().enumerate() {
            let source: Arc<str> = named.source.as_str().into();
            let patterns = patterns_of(named)?;
            if patterns.is_empty() && (at > 0 || refuses_unknown) {
                return Err(TlsConfigError::NoServerName { certificate: named.source.clone() });
            }
            for pattern in &patterns {
                let list = by_name.entry(pattern.clone());
                insert(list, pattern, &named.key, &source)?;
            }
            if at == 0 {
                default_name = patterns.into_iter().next();
            }
        }
        let default = match (default_name, keys.first()) {
            _ if refuses_unknown => KeyList::new(),
            (Some(name), _) => by_name.entry(name).clone(),
            (None, Some(first)) => vec![(first.key.clone(), first.source.as_str().into())],
            (None, None) => {
                let missing = "a TLS server needs a certificate and its key";
                return Err(TlsConfigError::Incomplete(missing));
            }
        };
        Ok(Self { by_name, default })
    }

    /// Returns the certificate for the name that a client has given and for the signatures that it can check. `None`
    /// refuses the client.
    pub(crate) fn choose(
        &self,
        name: Option<&str>,
        schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        let list = name.and_then(|name| self.by_name.get(name)).unwrap_or(&self.default);
        let suitable = list.iter().find(|(key, _)| key.key.choose_scheme(schemes).is_some());
        // With an unsuitable one, rustls ends the handshake with the alert that belongs to it.
        suitable.or(list.first()).map(|(key, _)| key.clone())
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.by_name.names().collect();
        names.sort_unstable();
        names
    }
}

/// Returns the names of a certificate that are used, each once.
fn patterns_of(named: &NamedKey) -> Result<Vec<NamePattern>, TlsConfigError> {
    let certificate = || named.source.clone();
    let unusable = |error: webpki::Error| {
        TlsConfigError::Invalid(format!("the certificate of `{}`: {error}", named.source))
    };
    let first = named.key.cert.first();
    let der =
        first.ok_or(TlsConfigError::Missing { file: certificate(), wanted: "certificate" })?;
    let parsed = EndEntityCert::try_from(der).map_err(unusable)?;
    // Names that are not valid are no concern of clients either: they never match.
    let own: Vec<_> = parsed.valid_dns_names().flat_map(NamePattern::parse).collect();
    let mut patterns = Vec::new();
    let Some(names) = &named.names else {
        for pattern in own {
            if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
        return Ok(patterns);
    };
    for name in names {
        let pattern = NamePattern::parse(name).map_err(TlsConfigError::InvalidServerName)?;
        let is_covered = own.contains(&pattern)
            || ServerName::try_from(name.as_str())
                .is_ok_and(|name| parsed.verify_is_valid_for_subject_name(&name).is_ok());
        if !is_covered {
            let (name, certificate) = (pattern.to_string(), certificate());
            return Err(TlsConfigError::UncoveredName { name, certificate });
        }
        if !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
    }
    Ok(patterns)
}

/// Adds a certificate to those of a name; two with keys of one kind could not be chosen between.
fn insert(
    list: &mut KeyList,
    name: &NamePattern,
    key: &Arc<CertifiedKey>,
    source: &Arc<str>,
) -> Result<(), TlsConfigError> {
    let is_same_kind = |other: &CertifiedKey| other.key.algorithm() == key.key.algorithm();
    if let Some((_, first)) = list.iter().find(|(other, _)| is_same_kind(other)) {
        return Err(TlsConfigError::DuplicateName {
            name: name.to_string(),
            first: first.to_string(),
            second: source.to_string(),
        });
    }
    list.push((key.clone(), source.clone()));
    Ok(())
}
