//! Where the node is and which token is used: a flag beats the environment, the environment beats the configuration.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use reqwest::Url;
use reqwest::header::HeaderValue;
use zeroize::Zeroizing;

use super::NodeClient;
use crate::config::{Config, Flags, Sources};
use crate::exit::Failure;
use crate::secret_file;

/// The variable that holds a token.
const TOKEN: &str = "CHANCERY_TOKEN";

/// Which node is spoken to.
#[derive(Debug, clap::Args)]
pub(crate) struct NodeArgs {
    /// The node [default: CHANCERY_URL, else as configured]
    #[arg(long, value_name = "URL", env = "CHANCERY_URL", hide_env = true)]
    url: Option<String>,
    /// File that holds a token [default: the token in CHANCERY_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl NodeArgs {
    /// A node that is named otherwise than by the usual flags.
    pub(crate) const fn at(url: String, token_file: Option<PathBuf>) -> Self {
        Self {
            url: Some(url),
            token_file,
        }
    }

    /// Whether a node was named, or is to be found by the configuration.
    pub(crate) const fn is_named(&self) -> bool {
        self.url.is_some()
    }

    /// A client of the node that is meant.
    pub(crate) fn client(&self, sources: &dyn Fn(Flags) -> Sources) -> Result<NodeClient, Failure> {
        let (base, authorization) = self.place(sources)?;
        NodeClient::new(base, authorization)
    }

    /// Where that node is, and what lets us in.
    pub(crate) fn place(
        &self,
        sources: &dyn Fn(Flags) -> Sources,
    ) -> Result<(Url, Option<HeaderValue>), Failure> {
        let base = match &self.url {
            Some(url) => parse(url)?,
            None => configured(&Config::load(&sources(Flags::default()))?)?,
        };
        let token = self.token()?;
        if token.is_some() && !is_private(&base) {
            return Err(Failure::usage(format!(
                "{base} is not on this machine and has no TLS: the token would cross the network in the open"
            ))
            .next("use https://"));
        }
        let authorization = token.map(|token| bearer(&token)).transpose()?;
        Ok((base, authorization))
    }

    fn token(&self) -> Result<Option<Zeroizing<String>>, Failure> {
        if let Some(path) = &self.token_file {
            let text = secret_file::read_secret(path, "a token")?;
            return Ok(Some(Zeroizing::new(text.trim().to_owned())));
        }
        let token = std::env::var(TOKEN).ok().map(Zeroizing::new);
        Ok(token.filter(|token| !token.is_empty()))
    }
}

fn bearer(token: &str) -> Result<HeaderValue, Failure> {
    let text = Zeroizing::new(format!("Bearer {token}"));
    let mut value = HeaderValue::from_str(&text)
        .ok()
        .filter(|_| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()))
        .ok_or_else(|| {
            Failure::usage("the token is none: it has to be one word of ASCII characters")
                .next("put the token alone into the file, as chancery init or chancery token new showed it")
        })?;
    value.set_sensitive(true);
    Ok(value)
}

/// The address of a node.
pub(super) fn parse(text: &str) -> Result<Url, Failure> {
    let url = Url::parse(text).ok();
    url.filter(|url| {
        matches!(url.scheme(), "http" | "https") && url.has_host() && url.password().is_none()
    })
    .ok_or_else(|| no_address(text))
}

/// A text that is no address of a node.
pub(super) fn no_address(text: &str) -> Failure {
    Failure::usage(format!("{text} is no address of a node"))
        .next("an address is like http://127.0.0.1:8700 or https://agents.example")
}

/// The node that a configuration describes: this machine directly where it can be reached so.
fn configured(config: &Config) -> Result<Url, Failure> {
    let mut listen = config.listen;
    let is_direct = listen.ip().is_loopback() && config.tls.is_none();
    match &config.public_url {
        Some(url) if !is_direct => return parse(url),
        _ => {}
    }
    if listen.port() == 0 {
        return Err(Failure::usage(
            "the configuration lets the node pick its port, so it is not known here",
        )
        .next("name the node with --url or CHANCERY_URL; its start line tells the port"));
    }
    if listen.ip().is_unspecified() {
        listen.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    let scheme = if config.tls.is_some() {
        "https"
    } else {
        "http"
    };
    parse(&format!("{scheme}://{listen}"))
}

/// Whether what is sent there is seen by nobody between.
fn is_private(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_here = host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    url.scheme() == "https" || is_here
}

#[cfg(test)]
mod tests {
    use super::*;

    // CH-ID-3
    #[test]
    fn a_token_goes_encrypted_or_to_this_machine() {
        for private in [
            "https://a.example",
            "http://127.0.0.1:1",
            "http://[::1]:1",
            "http://localhost:1",
        ] {
            assert!(is_private(&parse(private).unwrap()), "{private}");
        }
        for open in [
            "http://a.example",
            "http://10.0.0.1:8700",
            "http://localhost.example",
        ] {
            assert!(!is_private(&parse(open).unwrap()), "{open}");
        }
    }

    #[test]
    fn a_token_is_one_word_and_is_not_shown() {
        let value = bearer("cht_1.x").unwrap();
        assert!(value.is_sensitive());
        for wrong in ["", "two words", "line\nend", "µ"] {
            assert!(bearer(wrong).is_err(), "{wrong:?}");
        }
    }

    fn found(listen: &str, public_url: &str) -> Result<String, Failure> {
        let environment = [
            ("CHANCERY_LISTEN", listen),
            ("CHANCERY_PUBLIC_URL", public_url),
            ("CHANCERY_TLS_TERMINATED_UPSTREAM", "true"),
        ];
        let sources = Sources {
            environment: environment
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..Sources::default()
        };
        configured(&Config::load(&sources)?).map(String::from)
    }

    #[test]
    fn the_configuration_leads_to_the_node() {
        let public = "https://agents.example/";
        // On this machine there is no way around it.
        assert_eq!(
            found("127.0.0.1:8700", public).unwrap(),
            "http://127.0.0.1:8700/"
        );
        assert_eq!(found("0.0.0.0:8700", public).unwrap(), public);
        assert_eq!(found("0.0.0.0:8700", "").unwrap(), "http://127.0.0.1:8700/");
        assert!(
            found("127.0.0.1:0", "")
                .unwrap_err()
                .to_string()
                .contains("--url")
        );
    }

    #[test]
    fn an_address_has_a_scheme_and_a_host() {
        for wrong in ["", "127.0.0.1:8700", "ftp://a", "http://", "http://u:p@a"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
