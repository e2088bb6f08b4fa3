//! The roots that the operating system trusts.

use std::env;
use std::path::Path;

use rustls::RootCertStore;

use super::error::TlsConfigError;
use super::pem::PemText;

/// The environment variable that names a file of roots for OpenSSL and programs that follow it.
const VARIABLE: &str = "SSL_CERT_FILE";

/// The file with all roots, in the distributions of Linux.
const BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt", // Debian, Arch, Gentoo
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, RHEL
    "/etc/pki/tls/certs/ca-bundle.crt",   // older Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",             // openSUSE
    "/etc/pki/tls/cacert.pem",            // OpenELEC
    "/etc/ssl/cert.pem",                  // Alpine
];

/// Adds the roots of the operating system to `store`.
pub(crate) fn add_system_roots(store: &mut RootCertStore) -> Result<(), TlsConfigError> {
    add_first_bundle(&BUNDLES, store)
}

/// Adds the roots of the file that SSL_CERT_FILE names, or those of the operating system if it names none.
pub(crate) fn add_environment_roots(store: &mut RootCertStore) -> Result<(), TlsConfigError> {
    match env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        Some(value) => PemText::read(Path::new(&value))?.add_roots(store),
        None => add_system_roots(store),
    }
}

/// Adds the roots of the first of these files that exists. Certificates that cannot be a root are left out: the list is
/// not the program's own, and one of hundreds must not keep it from starting.
fn add_first_bundle(paths: &[&str], store: &mut RootCertStore) -> Result<(), TlsConfigError> {
    let Some(path) = paths.iter().map(Path::new).find(|path| path.exists()) else {
        return Err(TlsConfigError::NoSystemRoots { tried: paths.join(", ") });
    };
    let text = PemText::read(path)?;
    match store.add_parsable_certificates(text.certificates()?) {
        (0, _) => Err(TlsConfigError::Missing { file: text.source, wanted: "usable root" }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn t07_the_first_bundle_that_exists_is_taken_and_a_missing_one_is_reported_with_the_paths() {
        let at = env::temp_dir().join(format!("waterwheel-roots-{}", std::process::id()));
        let made = rcgen::generate_simple_self_signed(["root.example".into()]).unwrap();
        // A certificate that cannot be a root is left out.
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        fs::write(&at, made.cert.pem() + broken).unwrap();
        let path = at.to_str().unwrap();
        let mut store = RootCertStore::empty();
        add_first_bundle(&["/no/such", path, "/not/asked"], &mut store).unwrap();
        assert_eq!(store.len(), 1);
        fs::write(&at, broken).unwrap();
        let error = add_first_bundle(&[path], &mut store).unwrap_err();
        assert_eq!(error.to_string(), format!("`{path}` contains no usable root"));
        fs::remove_file(&at).unwrap();
        let error = add_first_bundle(&["/no/such", path], &mut store).unwrap_err();
        let expected = format!("the system has no file of trusted roots: tried /no/such, {path}");
        assert_eq!(error.to_string(), expected);
    }
}
