//! In `dev` no token keeps a web page out that the browser on this machine has open: its `Host` or `Origin` does
//! (CH-NET-4).

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;

/// Whether a request names this machine as its host, and comes from no page of another origin.
pub(crate) fn is_at_home(request: &Parts) -> bool {
    let mut hosts = Vec::new();
    for host in request.headers.get_all(HOST) {
        match host
            .to_str()
            .ok()
            .and_then(|host| host.parse::<Authority>().ok())
        {
            Some(host) => hosts.push(host),
            None => return false,
        }
    }
    hosts.extend(request.uri.authority().cloned());
    if !hosts.iter().all(is_loopback_name) {
        return false;
    }
    request.headers.get_all(ORIGIN).iter().all(|origin| {
        let origin = origin
            .to_str()
            .ok()
            .and_then(|origin| origin.split_once("://"));
        origin.is_some_and(|(_, authority)| {
            authority
                .parse::<Authority>()
                .is_ok_and(|origin| hosts.contains(&origin))
        })
    })
}

fn is_loopback_name(authority: &Authority) -> bool {
    let host = authority.host();
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    let is_address = || {
        bare.parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
    };
    authority.as_str().find('@').is_none()
        && (host.eq_ignore_ascii_case("localhost") || is_address())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_home(headers: &[(http::HeaderName, &str)]) -> bool {
        let mut request = http::Request::builder().uri("/log");
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        is_at_home(&request.body(()).unwrap().into_parts().0)
    }

    // CH-NET-4
    #[test]
    fn a_foreign_host_or_origin_is_told_from_our_own() {
        assert!(at_home(&[]));
        for host in [
            "localhost:8700",
            "127.0.0.1:8700",
            "127.3.2.1",
            "[::1]:8700",
            "LocalHost",
        ] {
            assert!(at_home(&[(HOST, host)]), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost@evil.example",
            "10.0.0.1",
            "",
            "a b",
        ] {
            assert!(!at_home(&[(HOST, host)]), "{host}");
        }
        let ours = (HOST, "localhost:8700");
        assert!(at_home(&[ours.clone(), (ORIGIN, "http://localhost:8700")]));
        for origin in [
            "http://evil.example",
            "null",
            "http://localhost:3000",
            "http://127.0.0.1:8700",
        ] {
            assert!(!at_home(&[ours.clone(), (ORIGIN, origin)]), "{origin}");
        }
        assert!(!at_home(&[ours, (HOST, "evil.example")]));
    }
}
