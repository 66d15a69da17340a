//! The HTTP client: TLS by rustls with ring, the system's roots, no redirects (they would carry the key to
//! another host).

use std::sync::Arc;

use reqwest::redirect::Policy;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

use super::{AnthropicConfig, Endpoint, headers};
use crate::provider::ProviderError;

/// A client for this endpoint.
pub(super) fn http_client(
    endpoint: &Endpoint,
    config: &AnthropicConfig,
) -> Result<reqwest::Client, ProviderError> {
    let builder = reqwest::Client::builder();
    let builder = if endpoint.is_loopback() {
        builder.no_proxy()
    } else {
        builder
    };
    builder
        .tls_backend_preconfigured(tls(endpoint)?)
        .default_headers(headers(&config.credential)?)
        .user_agent(concat!("agent-cli/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .connect_timeout(config.connect_timeout)
        .build()
        .map_err(|error| ProviderError::Setup {
            detail: super::transport_detail(&error),
        })
}

/// Made by hand, so that no process-wide default provider has to be installed.
fn tls(endpoint: &Endpoint) -> Result<ClientConfig, ProviderError> {
    let setup = |error: rustls::Error| ProviderError::Setup {
        detail: format!(
            "TLS: {error}; install the system's CA certificates (package ca-certificates)"
        ),
    };
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(setup)?;
    // A plain http gateway needs no roots, and a host without any must still reach it.
    if !endpoint.is_tls() {
        return Ok(builder
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth());
    }
    let verifier: Arc<dyn ServerCertVerifier> = Arc::new(Verifier::new(provider).map_err(setup)?);
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}
