//! Parses the message of a ClientHello (RFC 8446, 4.1.2; RFC 6066, 3; RFC 7301).

use bytes::Bytes;
use rustls::pki_types::ServerName;
use rustls::{CipherSuite, ProtocolVersion, SignatureScheme};

use super::ClientHello;
use super::error::ClientHelloError;

// The types of extensions that are looked into.
const SERVER_NAME: u16 = 0;
const SIGNATURE_ALGORITHMS: u16 = 13;
const ALPN: u16 = 16;
const PRE_SHARED_KEY: u16 = 41;
const SUPPORTED_VERSIONS: u16 = 43;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

/// The type of a server name that is a host's.
const HOST_NAME: u8 = 0;

const HEADER: usize = 4;
const RANDOM: usize = 32;
const MAX_SESSION_ID: usize = 32;

/// Parses a whole message, with its header; `records` is kept beside what was found.
pub(super) fn parse(message: &[u8], records: &Bytes) -> Result<ClientHello, ClientHelloError> {
    let mut fields = Fields { at: HEADER, rest: message.get(HEADER..).unwrap_or_default() };
    let version = fields.u16()?;
    fields.take(RANDOM)?;
    if fields.list_u8()?.rest.len() > MAX_SESSION_ID {
        return Err(fields.malformed("the session id is longer than 32 bytes"));
    }
    let cipher_suites = fields.list_u16()?.numbers("the list of cipher suites is empty")?;
    if fields.list_u8()?.rest.is_empty() {
        return Err(fields.malformed("the list of compression methods is empty"));
    }
    let mut hello = ClientHello {
        records: records.clone(),
        server_name: None,
        alpn: Vec::new(),
        versions: Vec::new(),
        cipher_suites: cipher_suites.into_iter().map(CipherSuite::from).collect(),
        signature_schemes: Vec::new(),
        has_encrypted_hello: false,
    };
    // The list may be absent.
    if !fields.rest.is_empty() {
        parse_extensions(fields.list_u16()?, &mut hello)?;
        fields.expect_end()?;
    }
    if hello.versions.is_empty() {
        hello.versions.push(ProtocolVersion::from(version));
    }
    Ok(hello)
}

fn parse_extensions(
    mut fields: Fields<'_>,
    hello: &mut ClientHello,
) -> Result<(), ClientHelloError> {
    let mut kinds = Vec::new();
    while !fields.rest.is_empty() {
        let kind = fields.u16()?;
        let body = fields.list_u16()?;
        match kind {
            SERVER_NAME => hello.server_name = parse_server_name(body)?,
            SIGNATURE_ALGORITHMS => {
                let schemes = body.numbers_of_list("the list of signature schemes is empty")?;
                hello.signature_schemes = schemes.into_iter().map(SignatureScheme::from).collect();
            }
            ALPN => hello.alpn = parse_alpn(body)?,
            SUPPORTED_VERSIONS => hello.versions = parse_versions(body)?,
            ENCRYPTED_CLIENT_HELLO => hello.has_encrypted_hello = true,
            PRE_SHARED_KEY if !fields.rest.is_empty() => {
                return Err(fields.malformed("pre_shared_key is not the last extension"));
            }
            _ => {}
        }
        kinds.push(kind);
    }
    let count = kinds.len();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.len() < count {
        return Err(fields.malformed("an extension appears twice"));
    }
    Ok(())
}

fn parse_server_name(mut body: Fields<'_>) -> Result<Option<String>, ClientHelloError> {
    let mut names = body.list_u16()?;
    body.expect_end()?;
    names.expect_some("the list of server names is empty")?;
    let mut found = None;
    while !names.rest.is_empty() {
        if names.u8()? != HOST_NAME {
            break; // The length of a name of another type is unknown.
        }
        let name = names.list_u16()?;
        name.expect_some("the server name is empty")?;
        if found.replace(name.rest).is_some() {
            return Err(names.malformed("there is more than one server name"));
        }
    }
    match found.map(ServerName::try_from) {
        Some(Ok(ServerName::DnsName(name))) => Ok(Some(name.as_ref().to_ascii_lowercase())),
        Some(Ok(ServerName::IpAddress(_))) => Ok(None),
        _ => Err(ClientHelloError::InvalidServerName),
    }
}

fn parse_alpn(mut body: Fields<'_>) -> Result<Vec<Vec<u8>>, ClientHelloError> {
    let mut list = body.list_u16()?;
    body.expect_end()?;
    list.expect_some("the list of application protocols is empty")?;
    let mut names = Vec::new();
    while !list.rest.is_empty() {
        let name = list.list_u8()?;
        name.expect_some("the name of an application protocol is empty")?;
        names.push(name.rest.to_vec());
    }
    Ok(names)
}

fn parse_versions(mut body: Fields<'_>) -> Result<Vec<ProtocolVersion>, ClientHelloError> {
    let versions = body.list_u8()?.numbers("the list of versions is empty")?;
    body.expect_end()?;
    Ok(versions.into_iter().map(ProtocolVersion::from).collect())
}

/// The fields that are left of a part of the message.
struct Fields<'a> {
    /// The position in the message.
    at: usize,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], ClientHelloError> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else {
            return Err(self.malformed("a length goes beyond the end"));
        };
        (self.at, self.rest) = (self.at + len, rest);
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, ClientHelloError> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Result<u16, ClientHelloError> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Takes a part whose length is in one byte before it.
    fn list_u8(&mut self) -> Result<Self, ClientHelloError> {
        let len = self.u8()?;
        self.part(usize::from(len))
    }

    /// Takes a part whose length is in two bytes before it.
    fn list_u16(&mut self) -> Result<Self, ClientHelloError> {
        let len = self.u16()?;
        self.part(usize::from(len))
    }

    fn part(&mut self, len: usize) -> Result<Self, ClientHelloError> {
        let at = self.at;
        Ok(Self { at, rest: self.take(len)? })
    }

    /// Takes everything as numbers of two bytes.
    fn numbers(mut self, if_empty: &'static str) -> Result<Vec<u16>, ClientHelloError> {
        self.expect_some(if_empty)?;
        let mut numbers = Vec::with_capacity(self.rest.len() / 2);
        while !self.rest.is_empty() {
            numbers.push(self.u16()?);
        }
        Ok(numbers)
    }

    /// Takes everything as a list of numbers of two bytes, with the list's length before it.
    fn numbers_of_list(mut self, if_empty: &'static str) -> Result<Vec<u16>, ClientHelloError> {
        let numbers = self.list_u16()?.numbers(if_empty)?;
        self.expect_end()?;
        Ok(numbers)
    }

    fn expect_some(&self, if_empty: &'static str) -> Result<(), ClientHelloError> {
        if self.rest.is_empty() { Err(self.malformed(if_empty)) } else { Ok(()) }
    }

    fn expect_end(&self) -> Result<(), ClientHelloError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(self.malformed("bytes follow the last field"))
    }

    fn malformed(&self, reason: &'static str) -> ClientHelloError {
        ClientHelloError::Malformed { at: self.at, reason }
    }
}
