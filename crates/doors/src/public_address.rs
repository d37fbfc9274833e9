//! Which addresses others may send this program to.
//!
//! An address that somebody else's card, registry or request names is not called when it leads to this machine or its
//! network: whoever named it could make this program speak to what only it can reach.

use std::io;
use std::net::{IpAddr, SocketAddr};

use url::Url;

use crate::outgoing_tls::host_and_port;

/// Where connections may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Anywhere.
    Anywhere,
    /// Not to this machine and its network.
    PublicOnly,
}

/// The addresses of a host, all of them public: whoever connects goes by these, since the name could lead elsewhere a
/// moment later.
///
/// # Errors
/// One of them is not public, or there is none.
pub async fn public_addresses(url: &Url) -> io::Result<Vec<SocketAddr>> {
    let found: Vec<_> = tokio::net::lookup_host(host_and_port(url)?)
        .await?
        .collect();
    if found.is_empty() || found.iter().any(|address| !is_public(address.ip())) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it leads to this machine or its network",
        ));
    }
    Ok(found)
}

/// Whether an address is one that anybody may be asked to call.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            let is_shared = a == 100 && (64..128).contains(&b);
            let is_test = a == 198 && (18..20).contains(&b);
            !(v4.is_loopback()
                || v4.is_private()
                || v4.is_link_local()
                || v4.is_unspecified()
                || v4.is_broadcast()
                || v4.is_multicast()
                || a == 0
                || a >= 240
                || is_shared
                || is_test)
        }
        IpAddr::V6(v6) => {
            !(v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_multicast()
                || v6.is_unicast_link_local()
                || v6.is_unique_local())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_and_its_network_are_told_from_public_ones() {
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in [
            "93.184.216.34",
            "2606:2800:220:1::1",
            "172.32.0.1",
            "100.128.0.1",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }
}
