//! Who may ask what: how often, how much at once, and with which token. The control socket needs none; over TCP
//! everything needs one that is not open to all, wherever it listens.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use swarmgate_core::config::{Config, Scope};
use swarmgate_core::forwarded::Real;
use swarmgate_core::throttle::{Rate, Source, Throttle};
use tokio::sync::watch;

use super::caller::{self, Caller};
use super::error::{Code, Refused};
use super::tokens::{Known, Tokens};
use crate::clock::Clock;
use crate::gateway::quiet::Quiet;

/// The largest body that any endpoint reads.
pub const LARGEST_BODY: usize = 64 * 1024;
const SOURCES_REMEMBERED: usize = 65_536;
/// What is longer is no token, and no work.
const LONGEST_TOKEN: usize = 8 * 1024;

#[derive(Debug)]
pub struct Guard {
    configs: watch::Receiver<Arc<Config>>,
    tokens: watch::Receiver<Arc<Tokens>>,
    clock: Clock,
    requests: Mutex<Throttle>,
    failures: Mutex<Throttle>,
    quiet: Quiet,
}

/// Who asks, as far as an endpoint has to know.
#[derive(Debug, Clone)]
pub struct Asker {
    /// Of the token, for the log.
    pub name: Arc<str>,
    pub scope: Scope,
    /// `None` on the control socket.
    pub token: Option<Known>,
}

/// Whom the limits count, unless it is trusted.
#[derive(Debug, Clone, Copy)]
struct Peer {
    address: IpAddr,
    is_counted: bool,
}

/// Holds for every request, to whatever page: so many per source, and no larger bodies than any page takes.
pub async fn limit(
    State(guard): State<Arc<Guard>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Refused> {
    match request.extensions().get::<Caller>() {
        Some(Caller::Owner) => {}
        Some(Caller::Peer(peer)) => {
            let peer = guard.admit(*peer, request.headers())?;
            request.extensions_mut().insert(peer);
        }
        None => return Err(Refused::new(Code::Internal, "it is not known who asks")),
    }
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length = length.and_then(|length| length.parse::<usize>().ok());
    if length.is_some_and(|length| length > LARGEST_BODY) {
        return Err(Refused::new(Code::TooLarge, format!("the body is larger than {LARGEST_BODY} bytes")));
    }
    Ok(next.run(request).await)
}

/// Lets through who has a token for `scope`, or comes by the control socket.
pub async fn require(
    State((guard, scope)): State<(Arc<Guard>, Scope)>,
    mut request: Request,
    next: Next,
) -> Result<Response, Refused> {
    let asker = guard.asker(&request)?;
    if asker.scope < scope {
        let message = format!(
            "the token {} is for reading; this needs one with the scope {}",
            asker.name,
            scope.word()
        );
        return Err(Refused::new(Code::NotAllowed, message));
    }
    if scope == Scope::Operate {
        let path = request.uri().path();
        tracing::info!(by = &*asker.name, method = %request.method(), path, "asked by an operator");
    }
    request.extensions_mut().insert(asker);
    Ok(next.run(request).await)
}

/// The same where a setting says whether a token is needed.
pub async fn require_for_metrics(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Result<Response, Refused> {
    if guard.configs.borrow().api.metrics_need_token {
        return require(State((guard, Scope::Read)), request, next).await;
    }
    require_name(State(guard), request, next).await
}

/// For pages without a token. A page from elsewhere, in a browser on this machine, may have given a name of its own this
/// machine's address (DNS rebinding): then it could read what is meant for the machine alone.
pub async fn require_name(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Result<Response, Refused> {
    guard.named(&request)?;
    Ok(next.run(request).await)
}

impl Guard {
    pub fn new(
        configs: watch::Receiver<Arc<Config>>,
        tokens: watch::Receiver<Arc<Tokens>>,
        clock: Clock,
    ) -> Self {
        let api = configs.borrow().api.clone();
        let throttle = |rate| Mutex::new(Throttle::new(rate, SOURCES_REMEMBERED));
        let (requests, failures) = (throttle(api.rate), throttle(api.failures));
        Self { configs, tokens, clock, requests, failures, quiet: Quiet::default() }
    }

    /// Whom the peer speaks for, if there may be one more request from there.
    fn admit(&self, peer: IpAddr, headers: &HeaderMap) -> Result<Peer, Refused> {
        let config = self.configs.borrow().clone();
        let Real { address, is_known } = caller::real(peer, headers, &config.api.trusted_proxies);
        let peer = Peer { address, is_counted: !(is_known && config.limits.trusts(address)) };
        if !peer.is_counted {
            return Ok(peer);
        }
        let taken = with(&self.requests, config.api.rate, |throttle| {
            throttle.take(Source::from(address), self.clock.now())
        });
        taken.map(|()| peer).map_err(|wait| {
            Refused::new(Code::TooManyRequests, "too many requests from this address; try again later")
                .retry_after(wait)
        })
    }

    fn named(&self, request: &Request) -> Result<(), Refused> {
        let config = self.configs.borrow();
        let is_here_only = config.http.is_some_and(|address| address.ip().is_loopback());
        let by_proxy = |peer: &IpAddr| config.api.trusted_proxies.iter().any(|proxy| proxy.contains(peer));
        let is_checked = match request.extensions().get::<Caller>() {
            Some(Caller::Peer(peer)) => is_here_only && !by_proxy(peer),
            Some(Caller::Owner) | None => false,
        };
        let Some(name) = request.headers().get(header::HOST).filter(|_| is_checked) else { return Ok(()) };
        let name = name.to_str().unwrap_or_default();
        if caller::is_here(name, &config.api.hosts) {
            return Ok(());
        }
        let message = format!(
            "this page is for its own machine, by `localhost` or an address, and not by the name {name:?}; if that is \
             meant, write it in `hosts` of `[api]`"
        );
        Err(Refused::new(Code::WrongHost, message))
    }

    fn asker(&self, request: &Request) -> Result<Asker, Refused> {
        let peer = match (request.extensions().get::<Caller>(), request.extensions().get::<Peer>()) {
            (Some(Caller::Owner), _) => {
                return Ok(Asker { name: "the control socket".into(), scope: Scope::Operate, token: None });
            }
            (Some(Caller::Peer(_)), Some(peer)) => *peer,
            (Some(Caller::Peer(_)) | None, _) => {
                return Err(Refused::new(Code::Internal, "it is not known who asks"));
            }
        };
        let tokens = self.tokens.borrow().clone();
        if tokens.is_empty() {
            let message = "this gate gives its API to nobody over TCP: it has no tokens; name a file of them by \
                           `tokens_file` in `[api]`, or ask on the control socket";
            return Err(Refused::new(Code::ApiClosed, message));
        }
        let sent = request.headers().get(header::AUTHORIZATION).ok_or_else(|| {
            Refused::new(Code::NoToken, "this needs a token, sent as `Authorization: Bearer TOKEN`")
        })?;
        self.known(&tokens, sent.to_str().unwrap_or_default(), peer)
    }

    /// Whoever has a token is let in, whatever others behind the same address have tried; only they are counted.
    fn known(&self, tokens: &Tokens, sent: &str, peer: Peer) -> Result<Asker, Refused> {
        if let Some(known) = bearer(sent).and_then(|token| tokens.find(token)) {
            return Ok(Asker {
                name: Arc::clone(&known.name),
                scope: known.scope,
                token: Some(known.clone()),
            });
        }
        let Peer { address, is_counted } = peer;
        let rate = self.configs.borrow().api.failures;
        if is_counted {
            let now = self.clock.now();
            with(&self.failures, rate, |failures| failures.take(address.into(), now)).map_err(|wait| {
                let message = "too many wrong tokens from this address; try again later";
                Refused::new(Code::TooManyFailures, message).retry_after(wait)
            })?;
        }
        if let Some(more) = self.quiet.allow_about("bad_token", address) {
            tracing::warn!(peer = %address, more, "a token that the gate does not know");
        }
        let message = "the gate does not know this token, or it is not sent as `Bearer TOKEN`";
        Err(Refused::new(Code::BadToken, message))
    }
}

/// The scheme's name is in any case (RFC 9110, 11.1).
fn bearer(sent: &str) -> Option<&str> {
    let (scheme, token) = sent.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && token.len() <= LONGEST_TOKEN).then_some(token.trim())
}

/// The rate may have changed since.
fn with<R>(throttle: &Mutex<Throttle>, rate: Rate, act: impl FnOnce(&mut Throttle) -> R) -> R {
    let mut throttle = throttle.lock().unwrap_or_else(PoisonError::into_inner);
    throttle.set_rate(rate);
    act(&mut throttle)
}
