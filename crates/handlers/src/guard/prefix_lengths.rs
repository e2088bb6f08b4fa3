//! The prefix by which guards tell peers apart.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use waterwheel_channel::Network;

use super::error::InvalidGuard;

/// How many leading bits of a peer's address a guard looks at: peers with the same bits are counted together.
///
/// Default: 32 bits of an IPv4 address, which is all of it, and 64 of an IPv6 address, because a single host usually has
/// a whole /64 network to choose addresses from. Many providers give a site a /56 or a /48. With 0 bits all addresses of
/// that version are counted together.
///
/// ```
/// use waterwheel_handlers::PrefixLengths;
///
/// let sites = PrefixLengths::new(24, 48)?;
/// assert_eq!(sites.network_of("192.0.2.7".parse()?).to_string(), "192.0.2.0/24");
/// assert_eq!(sites.network_of("::ffff:192.0.2.7".parse()?).to_string(), "192.0.2.0/24");
/// let default = PrefixLengths::default();
/// assert_eq!(default.network_of("2001:db8::a:b".parse()?).to_string(), "2001:db8::/64");
/// assert_eq!(
///     PrefixLengths::new(33, 64).unwrap_err().to_string(),
///     "a prefix of 33 bits is too long for IPv4 addresses, which have 32",
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixLengths {
    v4: u8,
    v6: u8,
}

impl Default for PrefixLengths {
    fn default() -> Self {
        Self { v4: 32, v6: 64 }
    }
}

impl PrefixLengths {
    /// Creates the lengths for IPv4 and for IPv6.
    ///
    /// # Errors
    /// A prefix is longer than an address: 32 and 128 bits.
    pub fn new(v4: u8, v6: u8) -> Result<Self, InvalidGuard> {
        let limits = [("IPv4", v4, Ipv4Addr::BITS as u8), ("IPv6", v6, Ipv6Addr::BITS as u8)];
        for (version, prefix, max) in limits {
            if prefix > max {
                return Err(InvalidGuard::PrefixTooLong { version, prefix, max });
            }
        }
        Ok(Self { v4, v6 })
    }

    /// Returns the network whose addresses are counted together with this one.
    #[must_use]
    pub fn network_of(&self, address: IpAddr) -> Network {
        let address = address.to_canonical();
        let prefix = if address.is_ipv4() { self.v4 } else { self.v6 };
        // The lengths were checked, so there always is such a network.
        Network::containing(address, prefix).unwrap_or_else(|_| address.into())
    }
}
