//! Networks: IP addresses that share a prefix.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

/// A range of IP addresses with a common prefix, written as in `10.0.0.0/8` (CIDR).
///
/// An IPv4-mapped IPv6 address (`::ffff:192.0.2.1`) is treated as the IPv4 address in it, because a socket for both
/// versions reports IPv4 peers that way: `192.0.2.0/24` contains it, and `::/0`, which means every IPv6 address, does
/// not. A network within `::ffff:0:0/96` is the IPv4 network in it.
///
/// ```
/// use std::net::IpAddr;
/// use waterwheel_channel::Network;
///
/// let network: Network = "10.0.0.0/8".parse()?;
/// assert!(network.contains("10.1.2.3".parse::<IpAddr>()?));
/// assert!(network.contains("::ffff:10.1.2.3".parse::<IpAddr>()?));
/// assert!(!network.contains("11.0.0.0".parse::<IpAddr>()?));
/// assert_eq!("2001:db8::7".parse::<Network>()?.to_string(), "2001:db8::7/128", "a single address");
/// assert_eq!(
///     "10.1.0.0/8".parse::<Network>().unwrap_err().to_string(),
///     "10.1.0.0/8 has address bits after its prefix: the network is 10.0.0.0/8",
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    /// The first address of the range; never IPv4-mapped.
    first: IpAddr,
    prefix: u8,
}

/// The bits before the IPv4 address in an IPv4-mapped IPv6 address.
const MAPPED_PREFIX: u8 = 96;

impl Network {
    /// All IPv4 addresses.
    pub const ALL_V4: Network = Network { first: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix: 0 };
    /// All IPv6 addresses, except for the IPv4-mapped ones.
    pub const ALL_V6: Network = Network { first: IpAddr::V6(Ipv6Addr::UNSPECIFIED), prefix: 0 };

    /// Creates the network that begins at this address, with a prefix of this many bits.
    ///
    /// # Errors
    /// The prefix is longer than an address, or the address has bits after the prefix.
    pub fn new(first: IpAddr, prefix: u8) -> Result<Self, InvalidNetwork> {
        let network = Self::containing(first, prefix)?;
        if network.first != first.to_canonical() {
            return Err(InvalidNetwork::HostBits { first, prefix, network });
        }
        Ok(network)
    }

    /// Creates the network of this prefix length that contains the address.
    ///
    /// # Errors
    /// The prefix is longer than an address.
    pub fn containing(address: IpAddr, prefix: u8) -> Result<Self, InvalidNetwork> {
        let max = address_bits(address);
        if prefix > max {
            return Err(InvalidNetwork::PrefixTooLong { prefix, address, max });
        }
        let (address, prefix) = match address.to_canonical() {
            v4 @ IpAddr::V4(_) if address.is_ipv6() => match prefix.checked_sub(MAPPED_PREFIX) {
                Some(prefix) => (v4, prefix),
                None => (address, prefix), // A wider range of IPv6, which contains the mapped addresses.
            },
            address => (address, prefix),
        };
        Ok(Self { first: mask(address, prefix), prefix })
    }

    /// Returns the first address of the network.
    #[must_use]
    pub fn first_address(&self) -> IpAddr {
        self.first
    }

    /// Returns the last address of the network.
    #[must_use]
    pub fn last_address(&self) -> IpAddr {
        match self.first {
            IpAddr::V4(first) => {
                Ipv4Addr::from_bits(first.to_bits() | !v4_mask(self.prefix)).into()
            }
            IpAddr::V6(first) => {
                Ipv6Addr::from_bits(first.to_bits() | !v6_mask(self.prefix)).into()
            }
        }
    }

    /// Returns the number of bits that all addresses of the network share.
    #[must_use]
    pub fn prefix_len(&self) -> u8 {
        self.prefix
    }

    /// True if the address is in this network.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && mask(address, self.prefix) == self.first
    }
}

/// Text or numbers that name no network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidNetwork {
    /// The text before the slash is not an IP address.
    #[error("{text:?} is not a network: {address:?} is not an IP address")]
    Address {
        /// The whole text.
        text: String,
        /// The part that should be an address.
        address: String,
    },
    /// The text after the slash is not a number of bits.
    #[error("{text:?} is not a network: {prefix:?} is not a prefix length (a number of bits)")]
    Prefix {
        /// The whole text.
        text: String,
        /// The part that should be a number.
        prefix: String,
    },
    /// The prefix is longer than an address.
    #[error("a prefix of {prefix} bits is too long for {address}, which has {max}")]
    PrefixTooLong {
        /// The prefix length.
        prefix: u8,
        /// The address.
        address: IpAddr,
        /// The number of bits of an address of this version.
        max: u8,
    },
    /// The address is not the first one of the network: probably a mistake in one of the two numbers.
    #[error("{first}/{prefix} has address bits after its prefix: the network is {network}")]
    HostBits {
        /// The address.
        first: IpAddr,
        /// The prefix length.
        prefix: u8,
        /// The network that contains the address.
        network: Network,
    },
}

impl From<InvalidNetwork> for waterwheel_executor::Error {
    fn from(error: InvalidNetwork) -> Self {
        waterwheel_executor::Error::new(error)
    }
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    /// Parses `address/prefix`, or a single address.
    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().map_err(|_| {
            let (text, address) = (text.to_owned(), address.to_owned());
            InvalidNetwork::Address { text, address }
        })?;
        let prefix = match prefix {
            None => address_bits(first),
            Some(prefix) => parse_prefix(prefix).ok_or_else(|| {
                let (text, prefix) = (text.to_owned(), prefix.to_owned());
                InvalidNetwork::Prefix { text, prefix }
            })?,
        };
        Self::new(first, prefix)
    }
}

/// Parses one to three digits. `u8::from_str` would take a sign too.
fn parse_prefix(text: &str) -> Option<u8> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

impl From<IpAddr> for Network {
    /// Creates the network of a single address.
    fn from(address: IpAddr) -> Self {
        let first = address.to_canonical();
        Self { first, prefix: address_bits(first) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

fn address_bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => Ipv4Addr::BITS as u8,
        IpAddr::V6(_) => Ipv6Addr::BITS as u8,
    }
}

/// Clears the bits after the prefix.
fn mask(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & v4_mask(prefix)).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & v6_mask(prefix)).into(),
    }
}

/// Returns the mask of a prefix. A shift by all bits would overflow, so a prefix of zero is a case of its own.
fn v4_mask(prefix: u8) -> u32 {
    u32::MAX.checked_shl(Ipv4Addr::BITS - u32::from(prefix)).unwrap_or(0)
}

fn v6_mask(prefix: u8) -> u128 {
    u128::MAX.checked_shl(Ipv6Addr::BITS - u32::from(prefix)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn k10_networks_are_parsed_and_shown_as_address_and_prefix() {
        for (text, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("192.0.2.1", "192.0.2.1/32"),
            ("192.0.2.1/32", "192.0.2.1/32"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("::1", "::1/128"),
            ("::/0", "::/0"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::ffff:192.0.2.1", "192.0.2.1/32"),
        ] {
            assert_eq!(network(text).to_string(), shown, "{text}");
            assert_eq!(network(shown), network(text), "{text}");
        }
        assert_eq!(network("0.0.0.0/0"), Network::ALL_V4);
        assert_eq!(network("::/0"), Network::ALL_V6);
        assert_eq!(Network::from(ip("::ffff:192.0.2.1")), network("192.0.2.1"));
    }

    #[test]
    fn k10_an_invalid_network_is_an_error_that_names_the_wrong_part() {
        let no_address = |text: &str, address: &str| {
            format!("{text:?} is not a network: {address:?} is not an IP address")
        };
        let no_prefix = |text: &str, prefix: &str| {
            format!(
                "{text:?} is not a network: {prefix:?} is not a prefix length (a number of bits)"
            )
        };
        for (text, error) in [
            ("", no_address("", "")),
            ("/8", no_address("/8", "")),
            ("10/8", no_address("10/8", "10")),
            ("10.0.0.0.0/8", no_address("10.0.0.0.0/8", "10.0.0.0.0")),
            (" 10.0.0.0/8", no_address(" 10.0.0.0/8", " 10.0.0.0")),
            ("fe80::1%eth0/64", no_address("fe80::1%eth0/64", "fe80::1%eth0")),
            ("10.0.0.0/", no_prefix("10.0.0.0/", "")),
            ("10.0.0.0/+8", no_prefix("10.0.0.0/+8", "+8")),
            ("10.0.0.0/256", no_prefix("10.0.0.0/256", "256")),
            ("10.0.0.0/8/8", no_prefix("10.0.0.0/8/8", "8/8")),
            ("10.0.0.0/255.0.0.0", no_prefix("10.0.0.0/255.0.0.0", "255.0.0.0")),
            ("10.0.0.0/33", "a prefix of 33 bits is too long for 10.0.0.0, which has 32".into()),
            ("::/129", "a prefix of 129 bits is too long for ::, which has 128".into()),
            (
                "10.1.0.0/15",
                "10.1.0.0/15 has address bits after its prefix: the network is 10.0.0.0/15".into(),
            ),
            ("::1/127", "::1/127 has address bits after its prefix: the network is ::/127".into()),
        ] {
            assert_eq!(text.parse::<Network>().unwrap_err().to_string(), error, "{text}");
        }
    }

    #[test]
    fn k10_a_network_contains_the_addresses_from_its_first_to_its_last() {
        for (text, first, last, before, after) in [
            ("10.0.0.0/8", "10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"),
            ("192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.0", "192.0.2.2"),
            ("0.0.0.0/0", "0.0.0.0", "255.255.255.255", "::", "::1"),
            ("2001:db8::/127", "2001:db8::", "2001:db8::1", "2001:db7::", "2001:db8::2"),
            ("fe80::/10", "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fe00::", "fec0::"),
        ] {
            let network = network(text);
            assert_eq!((network.first_address(), network.last_address()), (ip(first), ip(last)));
            assert!(network.contains(ip(first)) && network.contains(ip(last)), "{text}");
            assert!(!network.contains(ip(before)) && !network.contains(ip(after)), "{text}");
        }
        assert!(!network("::/0").contains(ip("::ffff:192.0.2.1")), "an IPv4 address");
        assert!(network("192.0.2.0/24").contains(ip("::ffff:192.0.2.1")));
        assert!(!network("0.0.0.0/0").contains(ip("::192.0.2.1")), "compatible, not mapped");
    }

    #[test]
    fn k10_an_address_is_in_the_network_of_each_of_its_prefixes() {
        for (address, max) in [(ip("203.0.113.85"), 32), (ip("2001:db8:a:b:c:d:e:f"), 128)] {
            for prefix in 0..=max {
                let network = Network::containing(address, prefix).unwrap();
                assert!(network.contains(address), "{network}");
                assert_eq!(network.prefix_len(), prefix);
                assert_eq!(Network::new(network.first_address(), prefix), Ok(network));
            }
            assert!(Network::containing(address, max + 1).is_err());
        }
    }
}
