//! Where requests go. Must not open connections.

use std::net::IpAddr;

use reqwest::Url;

use crate::provider::ProviderError;

const OFFICIAL: &str = "https://api.anthropic.com";

/// The address of the Messages API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    url: Url,
    official: bool,
}

impl Endpoint {
    /// Reads a base URL: trailing slashes and one `/v1` are accepted, as gateways document both.
    pub fn parse(base: Option<&str>) -> Result<Self, ProviderError> {
        let base = base.unwrap_or(OFFICIAL).trim().trim_end_matches('/');
        let base = base
            .strip_suffix("/v1")
            .unwrap_or(base)
            .trim_end_matches('/');
        let setup = |detail: String| ProviderError::Setup { detail };
        let url = Url::parse(&format!("{base}/v1/messages")).map_err(|error| {
            setup(format!(
                "ANTHROPIC_BASE_URL {base:?} is not a URL ({error}); use http(s)://HOST[/PATH]"
            ))
        })?;
        let plain = matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if !plain {
            return Err(setup(
                "ANTHROPIC_BASE_URL must be http(s)://HOST[/PATH], without user, query or fragment"
                    .to_owned(),
            ));
        }
        Ok(Self {
            official: base == OFFICIAL,
            url,
        })
    }

    /// The full URL.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.url
    }

    /// Whether this is the vendor itself, where every documented field is known.
    #[must_use]
    pub const fn is_official(&self) -> bool {
        self.official
    }

    /// Whether the connection needs TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Whether it is on this machine; a proxy must not be asked about that.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let host = self
            .url
            .host_str()
            .unwrap_or_default()
            .trim_matches(['[', ']']);
        host == "localhost"
            || host
                .parse()
                .is_ok_and(|address: IpAddr| address.is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_accepted_in_every_documented_form() {
        let cases = [
            (None, "https://api.anthropic.com/v1/messages", true),
            (
                Some("https://api.anthropic.com/"),
                "https://api.anthropic.com/v1/messages",
                true,
            ),
            (
                Some("https://api.z.ai/api/anthropic"),
                "https://api.z.ai/api/anthropic/v1/messages",
                false,
            ),
            (
                Some("https://api.z.ai/api/anthropic//"),
                "https://api.z.ai/api/anthropic/v1/messages",
                false,
            ),
            (
                Some("http://localhost:11434/v1/"),
                "http://localhost:11434/v1/messages",
                false,
            ),
            (
                Some("http://localhost:11434/v1"),
                "http://localhost:11434/v1/messages",
                false,
            ),
        ];
        for (base, expected, official) in cases {
            let endpoint = Endpoint::parse(base).unwrap();
            assert_eq!(
                (endpoint.url().as_str(), endpoint.is_official()),
                (expected, official)
            );
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for (base, expected) in [
            ("http://localhost:1", true),
            ("http://127.0.0.7", true),
            ("http://[::1]:1/x", true),
            ("http://localhost.example", false),
            ("https://10.0.0.1", false),
        ] {
            assert_eq!(
                Endpoint::parse(Some(base)).unwrap().is_loopback(),
                expected,
                "{base}"
            );
        }
    }

    #[test]
    fn what_is_no_plain_http_address_is_refused_with_the_remedy() {
        for base in [
            "",
            "localhost:1",
            "ftp://host",
            "https://u:p@host",
            "https://host/?a=b",
            "//host",
        ] {
            let error = Endpoint::parse(Some(base)).unwrap_err().to_string();
            assert!(error.contains("ANTHROPIC_BASE_URL"), "{base}: {error}");
            assert!(!error.contains(":p@"), "{error}");
        }
    }
}
