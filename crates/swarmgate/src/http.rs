//! Clients for other people's web services: with limits on everything, and with the certificates and the cryptography
//! inside the binary, so that it runs from an empty image.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

use crate::errors::chain;

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
    trusting(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }, limit)
}

/// What went wrong with a call, without its address, which may be a secret.
pub fn why(error: reqwest::Error) -> String {
    let mut why = chain(&error.without_url());
    if why.contains("UnknownIssuer") {
        why += ": its certificate is none of a public authority, and no other is trusted";
    }
    why
}

fn trusting(roots: RootCertStore, limit: Duration) -> Result<reqwest::Client, HttpError> {
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
    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use rustls::ServerConfig;
    use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

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

    /// Serves HTTPS with a certificate that nobody but itself vouches for; its address and that certificate.
    async fn stranger() -> (String, CertificateDer<'static>) {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der()).into();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let _ = stream.read(&mut [0; 1024]).await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await;
                let _ = stream.shutdown().await;
            }
        });
        (format!("https://localhost:{port}/secret"), cert.der().clone())
    }

    #[tokio::test]
    async fn only_a_server_that_an_authority_vouches_for_is_spoken_to() {
        let (url, certificate) = stranger().await;
        let refused = why(client(LIMIT).unwrap().get(&url).send().await.unwrap_err());
        assert!(refused.contains("certificate") && refused.contains("public authority"), "{refused}");
        assert!(!refused.contains("secret"), "{refused}");
        // It is the certificate alone.
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let answer = trusting(roots, LIMIT).unwrap().get(&url).send().await.unwrap();
        assert_eq!(answer.text().await.unwrap(), "hi");
    }

    /// Those behind Discord, Pushover, Cloudflare, Mojang and most servers of one's own.
    #[test]
    fn the_public_authorities_are_inside_the_binary() {
        let subjects: Vec<String> = webpki_roots::TLS_SERVER_ROOTS
            .iter()
            .map(|root| String::from_utf8_lossy(&root.subject).into_owned())
            .collect();
        for authority in ["ISRG Root X1", "GTS Root R4", "DigiCert Global Root G2", "Amazon Root CA 1"] {
            assert!(subjects.iter().any(|subject| subject.contains(authority)), "{authority}");
        }
    }
}
