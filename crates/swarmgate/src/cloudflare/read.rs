//! What is at Cloudflare now: everything that a plan is made from, and whether it can be worked with at all.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use swarmgate_core::name::{HostName, HostPattern};
use swarmgate_core::publish::actual::{Access, Actual, Record, Tunnel};
use swarmgate_core::publish::plan::zone_of;

use super::client::Client;
use super::client::error::{ApiError, Class};

/// Why nothing can be published.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("the API says that the token is {0}; make a new one")]
    Token(String),
    #[error(
        "the API does not know the token: it was copied incompletely, or deleted or rolled since; copy it again, or make a new one with the permissions Account · Cloudflare Tunnel · Edit, Zone · Zone · Read and Zone · DNS · Edit"
    )]
    UnknownToken,
    #[error(
        "the token is not for the account {account}: the zones that it sees are of {theirs}; correct `cloudflare.account`, or make a token for that account"
    )]
    OtherAccount { account: String, theirs: String },
    #[error(
        "the account has no tunnel {0}; compare `cloudflare.tunnel` with the id that the dashboard shows among its tunnels"
    )]
    NoTunnel(String),
    #[error(
        "the tunnel {0} is configured by a file beside its connector, so what is written at Cloudflare has no effect; migrate it in the dashboard, or make another"
    )]
    Local(String),
    #[error("the tunnel {0} was deleted; make another, and write its id")]
    Deleted(String),
}

/// All that was read.
#[derive(Debug)]
pub struct Read {
    pub tunnel: Tunnel,
    pub actual: Actual,
    /// Some of it could not be read, which may go better by itself, and how long to wait for that at least.
    pub again_after: Option<Duration>,
    /// Some of it the token may not read.
    pub denied: BTreeSet<String>,
}

/// Where DNS records are looked for.
#[derive(Debug)]
pub struct Scope {
    /// All those in the zones of these,
    pub hosts: BTreeSet<HostPattern>,
    /// all those in the zones with these names,
    pub zones: BTreeSet<HostName>,
    /// and in all others those that pass this filter of the API, if there is one.
    pub elsewhere: Option<(&'static str, String)>,
}

pub async fn read(client: &Client, scope: &Scope) -> Result<Read, ReadError> {
    let tunnel = tunnel(client).await?;
    let mut lacking = Lacking::default();
    let configuration = client.configuration().await?;
    if configuration.source.as_deref() == Some("local") {
        return Err(ReadError::Local(named(&tunnel)));
    }
    let zones = client.zones().await?;
    let of_hosts = scope.hosts.iter().filter_map(|host| zone_of(&zones, host));
    let named = zones.iter().filter(|zone| scope.zones.contains(zone.name.as_str()));
    let used: BTreeSet<&str> = of_hosts.chain(named).map(|zone| zone.id.as_str()).collect();
    let mut records: BTreeMap<String, Result<Vec<Record>, String>> = BTreeMap::new();
    for zone in &zones {
        let read = match (used.contains(zone.id.as_str()), &scope.elsewhere) {
            (true, _) => client.records(&zone.id, &[]).await,
            (false, Some((key, value))) => client.records(&zone.id, &[(key, value)]).await,
            (false, None) => continue,
        };
        records.insert(zone.id.clone(), lacking.bearable(read)?);
    }
    let access = lacking.bearable(access(client).await)?;
    let Lacking { again_after, denied } = lacking;
    Ok(Read { tunnel, actual: Actual { configuration, zones, records, access }, again_after, denied })
}

/// That the token is good, the ids are right, and the tunnel is one that can be configured from here.
async fn tunnel(client: &Client) -> Result<Tunnel, ReadError> {
    let tunnel = match client.tunnel().await {
        Err(error) if error.is_not_there() => return Err(ReadError::NoTunnel(client.tunnel_id().to_owned())),
        Err(error) if error.is_unauthorized() && !error.is_malformed() => {
            return Err(refused(client).await.unwrap_or(ReadError::Api(error)));
        }
        tunnel => tunnel?,
    };
    if tunnel.deleted_at.is_some() {
        return Err(ReadError::Deleted(named(&tunnel)));
    }
    if tunnel.config_src.as_deref() == Some("local") {
        return Err(ReadError::Local(named(&tunnel)));
    }
    Ok(tunnel)
}

/// What the API does not tell apart where it refuses the first call: a token that is no good, and one of another account.
/// `None`: it lacks a right, as the refusal says.
async fn refused(client: &Client) -> Option<ReadError> {
    if !client.has_token() {
        return None;
    }
    match client.token_status().await {
        Ok(status) if status != "active" => return Some(ReadError::Token(status)),
        Err(error) if error.is_unauthorized() => return Some(ReadError::UnknownToken),
        Ok(_) | Err(_) => {}
    }
    let theirs = client.accounts().await.ok()?;
    let (account, is_other) =
        (client.account_id(), !theirs.is_empty() && !theirs.contains(client.account_id()));
    let theirs = Vec::from_iter(theirs).join(", ");
    is_other.then(|| ReadError::OtherAccount { account: account.to_owned(), theirs })
}

async fn access(client: &Client) -> Result<Access, ApiError> {
    Ok(Access { apps: client.apps().await?, policies: client.policies().await?, tags: client.tags().await? })
}

/// What could not be read.
#[derive(Debug, Default)]
struct Lacking {
    again_after: Option<Duration>,
    denied: BTreeSet<String>,
}

impl Lacking {
    /// What one zone, or Access, refuses must not keep the rest from being published.
    fn bearable<T>(&mut self, read: Result<T, ApiError>) -> Result<Result<T, String>, ApiError> {
        match read {
            Ok(read) => Ok(Ok(read)),
            Err(error @ ApiError::Limited { .. }) => Err(error),
            Err(error @ (ApiError::Refused { .. } | ApiError::NoAnswer { .. })) => {
                if error.class() != Class::Permanent {
                    self.again_after = Some(Duration::ZERO);
                }
                if error.is_unauthorized() {
                    self.denied.insert(error.to_string());
                }
                Ok(Err(error.to_string()))
            }
        }
    }
}

fn named(tunnel: &Tunnel) -> String {
    if tunnel.name.is_empty() { tunnel.id.clone() } else { tunnel.name.clone() }
}
