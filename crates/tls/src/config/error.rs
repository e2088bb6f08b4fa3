//! Why a TLS configuration cannot be built.

use waterwheel_executor::Error;

use super::server_name_map::InvalidServerName;

/// Why a TLS configuration cannot be built. Names the file, or the name that was given to a piece of PEM text.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsConfigError {
    /// A file cannot be read.
    #[error("cannot read `{file}`: {reason}")]
    Unreadable {
        /// The file.
        file: String,
        /// The error of the operating system.
        reason: String,
    },
    /// A file cannot be written.
    #[error("cannot write `{file}`: {reason}")]
    Unwritable {
        /// The file.
        file: String,
        /// The error of the operating system.
        reason: String,
    },
    /// A file is not valid PEM.
    #[error("`{file}` is not valid PEM: {reason}")]
    InvalidPem {
        /// The file.
        file: String,
        /// The reason.
        reason: String,
    },
    /// A file has no section of the wanted kind.
    #[error("`{file}` contains no {wanted}")]
    Missing {
        /// The file.
        file: String,
        /// The kind of section, such as "certificate".
        wanted: &'static str,
    },
    /// A certificate cannot be a root of trust.
    #[error("certificate {number} of `{file}` cannot be trusted as a root: {reason}")]
    InvalidRoot {
        /// The file.
        file: String,
        /// The number of the certificate in the file, from 1.
        number: usize,
        /// The reason.
        reason: rustls::Error,
    },
    /// A revocation list cannot be used.
    #[error("revocation list {number} of `{file}` cannot be used: {reason}")]
    InvalidRevocationList {
        /// The file.
        file: String,
        /// The number of the list in the file, from 1.
        number: usize,
        /// The reason.
        reason: String,
    },
    /// The certificate and the key do not belong together, or the key is of an unsupported kind.
    #[error("the certificate of `{certificate}` and the key of `{key}` cannot be used: {reason}")]
    InvalidIdentity {
        /// The file of the certificates.
        certificate: String,
        /// The file of the key.
        key: String,
        /// The reason.
        reason: rustls::Error,
    },
    /// A name that a certificate was given for is not a name of a server.
    #[error(transparent)]
    InvalidServerName(InvalidServerName),
    /// A name has two certificates with keys of one kind.
    #[error("both `{first}` and `{second}` are for the name `{name}`, with keys of one kind")]
    DuplicateName {
        /// The name, or wildcard.
        name: String,
        /// The file of the first certificate.
        first: String,
        /// The file of the second certificate.
        second: String,
    },
    /// A certificate was given for a name that it is not valid for.
    #[error("the certificate of `{certificate}` is not valid for the name `{name}`")]
    UncoveredName {
        /// The name, or wildcard.
        name: String,
        /// The file of the certificate.
        certificate: String,
    },
    /// A certificate is for no DNS name, so that it would never be presented.
    #[error("the certificate of `{certificate}` is for no DNS name, and not the default")]
    NoServerName {
        /// The file of the certificate.
        certificate: String,
    },
    /// Something that every configuration needs was not given.
    #[error("{0}")]
    Incomplete(&'static str),
    /// A name in the list of application protocols is empty or longer than 255 bytes.
    #[error("the application protocol {name:?} has {length} bytes; 1 to 255 are allowed")]
    InvalidAlpn {
        /// The name.
        name: String,
        /// The length of the name.
        length: usize,
    },
    /// The provider of the cryptography does not have this.
    #[error("the {kind} {name} is not supported by the provider of the cryptography")]
    Unsupported {
        /// "cipher suite" or "key exchange".
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// An option is larger than allowed.
    #[error("`{option}` is {value}; at most {max} is allowed")]
    TooLarge {
        /// The option.
        option: &'static str,
        /// The value.
        value: usize,
        /// The largest value.
        max: usize,
    },
    /// The operating system keeps its trusted roots nowhere that is known.
    #[error("the system has no file of trusted roots: tried {tried}")]
    NoSystemRoots {
        /// The files.
        tried: String,
    },
    /// The parts are valid, but do not fit together.
    #[error("the TLS configuration is not valid: {0}")]
    Invalid(String),
    /// No provider of the cryptography is installed, and the features of the crate name none.
    #[error(
        "no provider of cryptography: enable the feature `aws-lc-rs` or `ring`, or install one"
    )]
    NoProvider,
}

impl TlsConfigError {
    /// Takes an error of rustls that concerns no file.
    pub(crate) fn invalid(error: impl std::fmt::Display) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl From<TlsConfigError> for Error {
    fn from(error: TlsConfigError) -> Self {
        Error::new(error)
    }
}
