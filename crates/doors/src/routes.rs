//! Where an agent on another node is reached: by configuration, or by its own name.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{PoisonError, RwLock};

use chancery_value_context::agent_id::AgentUri;
use url::Url;

/// The addresses of remote agents.
pub(crate) struct Routes(RwLock<BTreeMap<String, String>>);

impl Routes {
    pub(crate) fn new(addresses: BTreeMap<String, String>) -> Self {
        Self(RwLock::new(addresses))
    }

    /// Goes by these addresses from here on.
    pub(crate) fn set(&self, addresses: BTreeMap<String, String>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    /// Where an agent is reached; none when there is no address, or none that may be used.
    pub(crate) fn address_of(&self, agent: &str) -> Option<Url> {
        let addresses = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let address = match addresses.get(agent) {
            Some(address) => address.clone(),
            None => AgentUri::parse(agent).ok()?.default_address(),
        };
        Url::parse(&address).ok().filter(may_be_used)
    }
}

/// TLS to anywhere; without it to this machine alone (VX-HTTP-5, VX-WS-8).
pub(crate) fn may_be_used(url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return false;
    };
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    let is_loopback = || {
        host == "localhost"
            || bare
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    };
    match url.scheme() {
        "https" | "wss" => true,
        "http" | "ws" => is_loopback(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // VX-HTTP-5, VX-WS-8
    #[test]
    fn without_tls_only_this_machine_is_reached() {
        let used = |url: &str| Url::parse(url).is_ok_and(|url| may_be_used(&url));
        for url in [
            "https://a.example/x",
            "wss://a.example/vcp/ws",
            "http://127.0.0.1:1/x",
            "ws://127.9.0.1:1/vcp/ws",
            "http://[::1]:1/x",
            "ws://localhost/x",
        ] {
            assert!(used(url), "{url}");
        }
        for url in [
            "http://a.example/x",
            "ws://a.example/x",
            "http://10.0.0.1/x",
            "ws://10.0.0.1/x",
            "ftp://127.0.0.1/x",
            "http://localhost.evil/x",
        ] {
            assert!(!used(url), "{url}");
        }
    }

    // VX-AGT-5
    #[test]
    fn an_agent_without_an_address_is_reached_by_its_name() {
        let known = BTreeMap::from([("opaque".to_owned(), "https://a.example/in".to_owned())]);
        let routes = Routes::new(known);
        let address = |agent| routes.address_of(agent).map(String::from);
        assert_eq!(address("opaque").as_deref(), Some("https://a.example/in"));
        let named = "https://home.example:8443/.well-known/vcp/messages";
        assert_eq!(
            address("agent://home.example:8443/kitchen").as_deref(),
            Some(named)
        );
        assert_eq!(address("another"), None);
    }
}
