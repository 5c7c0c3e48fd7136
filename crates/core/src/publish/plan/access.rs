//! The Access application of one hostname.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

use super::judge::{Go, contended};
use super::{Input, Standing};
use crate::name::HostPattern;
use crate::publish::actual::{Access, App, AppPolicy, Policy, Step};
use crate::publish::marks::Marks;
use crate::publish::memory::Whose;
use crate::publish::wanted::Host;

/// Stands for the audience of an application that this very plan creates.
const OF_A_NEW_APPLICATION: &str = "(of the new application)";
/// What Cloudflare says of an application and takes from nobody, and what `destinations` has replaced.
const READ_ONLY: [&str; 6] = ["id", "uid", "aud", "created_at", "updated_at", "self_hosted_domains"];

/// What protects it as asked for; with it, what the connector is to ask tokens for, if there is to be an application.
///
/// `shared` is a foreign rule of the same hostname, which a new application would protect, too.
pub fn publish(
    input: &Input<'_>,
    host: &HostPattern,
    want: &Host,
    shared: Option<&str>,
    go: &mut Go,
) -> Result<Option<String>, Standing> {
    if want.access.is_empty() {
        go.after.extend(remove(input, host));
        return Ok(None);
    }
    let access = input.actual.access.as_ref().map_err(|why| {
        Standing::Failed(format!(
            "Access cannot be read, so it cannot be protected: {why}; give the token Access: Apps and Policies: Edit"
        ))
    })?;
    let policies = policies(access, want)?;
    go.notes.extend(
        policies
            .iter()
            .filter(|policy| policy.decision == "bypass")
            .map(|policy| format!("the policy {} lets everybody in", policy.name)),
    );
    let mut ids: Vec<&str> = Vec::new();
    for policy in &policies {
        if !ids.contains(&policy.id.as_str()) {
            ids.push(&policy.id);
        }
    }
    let name = host.to_string();
    let tag = &input.terms.marks.tag;
    let of_it = || access.apps.iter().filter(|app| protects(app, &name));
    let ours = || of_it().filter(|app| is_ours(input, app));
    // One that is in the way of ours, or else any.
    match of_it().find(|app| !is_ours(input, app)).or_else(|| ours().next()) {
        None => {
            if let Some(rule) = shared.filter(|_| !want.adopt) {
                return Err(Standing::Conflict(format!(
                    "an Access application for it would stand before a rule that somebody else made, too: {rule}; remove that, or adopt it"
                )));
            }
            if input.memory.is_contended(host) {
                return Err(contended("its Access application"));
            }
            go.access.extend(missing_tag(access, tag));
            let body = new(&name, &ids, tag);
            go.access.push(Step::CreateApp { host: name.clone(), body, policies: names(&policies) });
            Ok(Some(OF_A_NEW_APPLICATION.to_owned()))
        }
        Some(app) if input.memory.had_app(host) && another_gate(input, app).is_some() => {
            let other = another_gate(input, app).map(String::as_str).unwrap_or_default();
            Err(Standing::Conflict(format!(
                "another gate (tag {other}) has taken its Access application over from this one; let one of the two publish it"
            )))
        }
        Some(app) if is_sole(app) && (is_ours(input, app) || (want.adopt && of_it().count() == 1)) => {
            if !is_right(app, &ids, tag) {
                if input.memory.is_contended(host) {
                    return Err(contended("its Access application"));
                }
                go.access.extend(missing_tag(access, tag));
                let body = changed(app, &name, &ids, tag)?;
                let (host, id) = (name.clone(), app.id.clone());
                go.access.push(Step::UpdateApp { host, id, body, policies: names(&policies) });
            }
            let others = ours().filter(|other| other.id != app.id);
            go.after.extend(others.map(|other| Step::DeleteApp { host: name.clone(), id: other.id.clone() }));
            match (&input.terms.team, &app.aud) {
                (Some(_), None) => {
                    let why = "Cloudflare does not say what tokens its application issues; without `team` that is not needed";
                    Err(Standing::Failed(why.to_owned()))
                }
                (Some(_), aud) => Ok(aud.clone()),
                (None, _) => Ok(None),
            }
        }
        Some(app) => {
            let name = if app.name.is_empty() { &app.id } else { &app.name };
            Err(Standing::Conflict(match is_sole(app) {
                true => format!(
                    "somebody else made its Access application, {name}; remove that, or adopt it, or take the policies off the service"
                ),
                false => format!(
                    "the Access application {name} is for more than this hostname, so it is left as it is; take the hostname out of it, or take the policies off the service"
                ),
            }))
        }
    }
}

/// What takes away the applications that are ours.
pub fn remove(input: &Input<'_>, host: &HostPattern) -> Vec<Step> {
    let name = host.to_string();
    let ours = apps(input).filter(|app| protects(app, &name) && is_ours(input, app));
    ours.map(|app| Step::DeleteApp { host: name.clone(), id: app.id.clone() }).collect()
}

/// Whether somebody must show who they are at it, as far as that is known.
pub fn is_protected(input: &Input<'_>, host: &HostPattern) -> bool {
    match &input.actual.access {
        Ok(access) => {
            let name = host.to_string();
            let mut apps = access.apps.iter().filter(|app| protects(app, &name)).peekable();
            apps.peek().is_some() && apps.all(|app| asks_everybody(access, app))
        }
        Err(_) => input.memory.was_protected(host),
    }
}

/// The wanted hostnames of which that is so; `None` if it could not be read.
pub fn protected(input: &Input<'_>) -> Option<BTreeSet<HostPattern>> {
    input.actual.access.as_ref().ok()?;
    Some(input.wanted.hosts.keys().filter(|host| is_protected(input, host)).cloned().collect())
}

/// Whose its application is, and with which policies.
pub fn whose(input: &Input<'_>, host: &HostPattern) -> Whose<Vec<String>> {
    if input.actual.access.is_err() {
        return Whose::Unknown;
    }
    let name = host.to_string();
    let of_it = || apps(input).filter(|app| protects(app, &name));
    match of_it().find(|app| is_ours(input, app)) {
        Some(app) => Whose::Ours(app.policies.iter().map(|policy| policy.id.clone()).collect()),
        None if of_it().any(|app| another_gate(input, app).is_some()) => Whose::AnotherGates,
        None => Whose::Nobodys,
    }
}

/// The tag of another gate, if it bears one.
fn another_gate<'a>(input: &Input<'_>, app: &'a App) -> Option<&'a String> {
    app.tags.iter().find(|tag| Marks::is_tag(tag) && **tag != input.terms.marks.tag)
}

/// The hostnames whose application is ours.
pub fn owned<'a>(input: &'a Input<'_>) -> impl Iterator<Item = HostPattern> + 'a {
    let ours = apps(input).filter(|app| is_ours(input, app));
    ours.filter_map(|app| HostPattern::parse(&domains(app).next()?).ok())
}

fn apps<'a>(input: &'a Input<'_>) -> impl Iterator<Item = &'a App> {
    input.actual.access.iter().flat_map(|access| &access.apps)
}

/// It has our tag and is for one hostname: one that somebody has made wider is not only ours any more.
fn is_ours(input: &Input<'_>, app: &App) -> bool {
    app.tags.contains(&input.terms.marks.tag) && is_sole(app)
}

/// Whether it is for one hostname and nothing else.
fn is_sole(app: &App) -> bool {
    !app.is_mixed && domains(app).next().is_some_and(|host| domains(app).all(|domain| domain == host))
}

/// A policy that lets everybody in goes before all others.
fn asks_everybody(access: &Access, app: &App) -> bool {
    let decision = |policy: &AppPolicy| {
        let known = || access.policies.iter().find(|known| known.id == policy.id);
        policy.decision.clone().or_else(|| known().map(|known| known.decision.clone()))
    };
    let asks = |policy| decision(policy).is_some_and(|decision| decision != "bypass");
    !app.policies.is_empty() && app.policies.iter().all(asks)
}

/// In lower case, without a slash at the end.
fn domains(app: &App) -> impl Iterator<Item = String> {
    let domains = app.domain.iter().chain(&app.domains);
    domains.map(|domain| domain.trim_end_matches('/').to_ascii_lowercase())
}

fn protects(app: &App, host: &str) -> bool {
    app.kind == "self_hosted" && domains(app).any(|domain| domain == host)
}

/// Those that the service names, in its order.
fn policies<'a>(access: &'a Access, want: &Host) -> Result<Vec<&'a Policy>, Standing> {
    want.access.iter().map(|asked| policy(access, asked)).collect()
}

fn policy<'a>(access: &'a Access, asked: &str) -> Result<&'a Policy, Standing> {
    let policies = || access.policies.iter();
    if let Some(policy) = policies().find(|policy| policy.id.eq_ignore_ascii_case(asked)) {
        return Ok(policy);
    }
    let named: Vec<&Policy> = policies().filter(|policy| policy.name == asked).collect();
    match named.as_slice() {
        [policy] => Ok(policy),
        [] => {
            let names: Vec<&str> = policies().map(|policy| policy.name.as_str()).collect();
            let fix = match crate::config::value::nearest(asked, names.iter().copied()) {
                Some(near) => format!("did you mean {near:?}?"),
                None if names.is_empty() => "make one in Zero Trust, below Access, Policies".to_owned(),
                None => format!("there are {}", names.join(", ")),
            };
            Err(Standing::Failed(format!("there is no reusable policy {asked:?}; {fix}")))
        }
        [_, ..] => {
            Err(Standing::Failed(format!("{} policies have the name {asked:?}; write an id", named.len())))
        }
    }
}

fn names(policies: &[&Policy]) -> String {
    let names = policies.iter().map(|policy| if policy.name.is_empty() { &policy.id } else { &policy.name });
    names.cloned().collect::<Vec<_>>().join(", ")
}

fn is_right(app: &App, policies: &[&str], tag: &String) -> bool {
    app.tags.contains(tag)
        && !app.tags.iter().any(|other| other != tag && Marks::is_tag(other))
        && app.policies.iter().map(|policy| policy.id.as_str()).eq(policies.iter().copied())
}

fn missing_tag(access: &Access, tag: &str) -> Option<Step> {
    let there = access.tags.iter().any(|there| there.name == tag);
    (!there).then(|| Step::CreateTag { name: tag.to_owned() })
}

fn new(host: &str, policies: &[&str], tag: &str) -> String {
    json!({
        "type": "self_hosted",
        "name": host,
        "domain": host,
        "destinations": [{"type": "public", "uri": host}],
        "policies": links(policies),
        "tags": [tag],
        "session_duration": "24h",
        "app_launcher_visible": false,
    })
    .to_string()
}

fn links(policies: &[&str]) -> Value {
    let links =
        policies.iter().zip(1_u32..).map(|(id, precedence)| json!({"id": id, "precedence": precedence}));
    links.collect()
}

/// The whole application with other policies, and everything else as it was.
fn changed(app: &App, host: &str, policies: &[&str], tag: &String) -> Result<String, Standing> {
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&app.raw)
        .map_err(|error| Standing::Failed(format!("its Access application is not understood: {error}")))?;
    fields.retain(|name, value| !READ_ONLY.contains(&name.as_str()) && value.get() != "null");
    let mut tags = app.tags.clone();
    // Another gate would take it away one day.
    tags.retain(|other| other == tag || !Marks::is_tag(other));
    if !tags.contains(tag) {
        tags.push(tag.clone());
    }
    let mut set = vec![("policies", links(policies)), ("tags", json!(tags))];
    if fields
        .get("destinations")
        .is_none_or(|to| serde_json::from_str(to.get()).is_ok_and(|to: Vec<Value>| to.is_empty()))
    {
        set.push(("destinations", json!([{"type": "public", "uri": host}])));
    }
    let set: BTreeMap<&str, String> =
        set.into_iter().map(|(name, value)| (name, value.to_string())).collect();
    let kept = fields.iter().filter(|(name, _)| !set.contains_key(name.as_str()));
    let kept = kept.map(|(name, value)| (name.as_str(), value.get().to_owned()));
    let fields = kept.chain(set.iter().map(|(name, value)| (*name, value.clone())));
    let fields: Vec<String> =
        fields.map(|(name, value)| format!("{}:{value}", Value::String(name.to_owned()))).collect();
    Ok(format!("{{{}}}", fields.join(",")))
}
