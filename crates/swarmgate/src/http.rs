//! Clients for other people's web services: with limits on everything, and with the certificates and the cryptography
//! inside the binary, so that it runs from an empty image.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

const CONNECT_WITHIN: Duration = Duration::from_secs(10);
const USER_AGENT: &str = concat!("swarmgate/", env!("CARGO_PKG_VERSION"));

/// Why there is no client. None of it depends on the network.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    #[error("the HTTP client cannot be set up")]
    Client(#[from] reqwest::Error),
}

/// A client whose calls end within `limit`, the body included. It follows no redirects, because a call that carries
/// a secret has one address. Proxies are taken from the environment (`HTTPS_PROXY`, `NO_PROXY`).
///
/// # Errors
/// When TLS or the client cannot be set up.
pub fn client(limit: Duration) -> Result<reqwest::Client, HttpError> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT_WITHIN.min(limit))
        .timeout(limit)
        .redirect(reqwest::redirect::Policy::none())
        .build()?;
    Ok(client)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_server_that_says_nothing_is_given_up_on() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = silent.local_addr().unwrap();
        let client = client(Duration::from_millis(50)).unwrap();
        for scheme in ["http", "https"] {
            let error = client.get(format!("{scheme}://{address}/")).send().await.unwrap_err();
            assert!(error.is_timeout(), "{scheme}: {error:?}");
        }
    }
}
