//! The record of one hostname.

use super::judge::Go;
use super::{Input, Standing};
use crate::name::{HostName, HostPattern};
use crate::publish::actual::{NewRecord, Record, Step, Zone};
use crate::publish::memory::Whose;
use crate::publish::wanted::Host;

/// Only these take part in answering for a hostname.
const KINDS: [&str; 3] = ["A", "AAAA", "CNAME"];

/// What makes its record what it should be.
pub fn publish(input: &Input<'_>, host: &HostPattern, want: &Host, go: &mut Go) -> Result<(), Standing> {
    let zone = zone(input, host, want)?;
    go.notes.extend(doubts(zone, host));
    let records = match input.actual.records.get(&zone.id) {
        Some(Ok(records)) => records,
        Some(Err(why)) => {
            return Err(Standing::Failed(format!("the records of {} cannot be read: {why}", zone.name)));
        }
        None => return Err(Standing::Failed(format!("the records of {} have not been read", zone.name))),
    };
    let name = host.to_string();
    let answers = |record: &&Record| KINDS.contains(&record.kind.as_str()) && is_of(record, &name);
    let there: Vec<&Record> = records.iter().filter(answers).collect();
    let record = new(input, host, &input.terms.marks.comment);
    match there.as_slice() {
        [] => go.records.push(Step::CreateRecord { zone: zone.id.clone(), record }),
        [one] if one.kind == "CNAME" => match claim(input, one, host, want) {
            Claim::Right => {}
            Claim::Ours => {
                go.records.push(Step::UpdateRecord { zone: zone.id.clone(), id: one.id.clone(), record });
            }
            Claim::Foreign(Ok(note)) => go.notes.push(note),
            Claim::Foreign(Err(why)) => return Err(Standing::Conflict(why)),
        },
        [first, ..] => {
            return Err(Standing::Conflict(format!(
                "there is an {} record to {} for it; remove that, and any other for this name",
                first.kind, first.content
            )));
        }
    }
    Ok(())
}

/// What ends the gate's part in its record: it goes, or stays as somebody's who made it by hand.
pub fn withdraw(input: &Input<'_>, host: &HostPattern, delete: bool) -> Vec<Step> {
    let name = host.to_string();
    let ours = records(input).filter(|(_, record)| is_of(record, &name) && is_ours(input, record));
    ours.map(|(zone, record)| {
        let (zone, id) = (zone.to_owned(), record.id.clone());
        if delete {
            Step::DeleteRecord { zone, id, name: record.name.clone() }
        } else {
            let released = NewRecord {
                content: record.content.clone(),
                proxied: record.proxied,
                ttl: record.ttl.max(1),
                ..new(input, host, &input.terms.marks.released)
            };
            Step::UpdateRecord { zone, id, record: released }
        }
    })
    .collect()
}

/// Whose its record is.
pub fn whose(input: &Input<'_>, host: &HostPattern) -> Whose<()> {
    let name = host.to_string();
    let there: Vec<&Record> =
        records(input).map(|(_, record)| record).filter(|record| is_of(record, &name)).collect();
    let bears_another = |record: &&Record| {
        input.terms.marks.of_another(record.comment.as_deref().unwrap_or_default()).is_some()
    };
    let zone = zone_of(&input.actual.zones, host);
    if there.iter().any(|record| is_ours(input, record)) {
        Whose::Ours(())
    } else if there.iter().any(bears_another) {
        Whose::AnotherGates
    } else if zone.is_some_and(|zone| matches!(input.actual.records.get(&zone.id), Some(Ok(_)))) {
        Whose::Nobodys
    } else {
        Whose::Unknown
    }
}

/// The hostnames whose record is the gate's.
pub fn owned<'a>(input: &'a Input<'_>) -> impl Iterator<Item = HostPattern> + 'a {
    let ours = records(input).filter(|(_, record)| is_ours(input, record));
    ours.filter_map(|(_, record)| HostPattern::parse(&record.name).ok())
}

/// The zone of `host` among those that the token sees.
pub fn zone_of<'z>(zones: &'z [Zone], host: &HostPattern) -> Option<&'z Zone> {
    let (HostPattern::Exact(name) | HostPattern::Below(name)) = host;
    let fitting = zones.iter().filter(|zone| holds(&zone.name, name));
    fitting.max_by_key(|zone| (zone.name.len(), zone.status.as_deref() == Some("active")))
}

enum Claim {
    /// Ours, and as it should be.
    Right,
    /// Ours to change.
    Ours,
    /// Somebody else's: it leads here all the same, or it is in the way.
    Foreign(Result<String, String>),
}

fn claim(input: &Input<'_>, record: &Record, host: &HostPattern, want: &Host) -> Claim {
    let marks = &input.terms.marks;
    let leads_here = leads_here(input, record) && record.proxied;
    let comment = record.comment.as_deref().unwrap_or_default();
    if leads_here && comment == marks.comment {
        return Claim::Right;
    }
    let other = marks.of_another(comment);
    if let Some(other) = other.filter(|_| input.memory.had_record(host)) {
        return Claim::Foreign(Err(format!(
            "another gate ({other}) has taken its DNS record over from this one; let one of the two publish it"
        )));
    }
    if want.adopt || is_ours(input, record) || was_ours(input, record) {
        return Claim::Ours;
    }
    if let Some(other) = other {
        return Claim::Foreign(Err(format!(
            "another gate ({other}) made its DNS record; stop publishing it there, or adopt it here"
        )));
    }
    if leads_here {
        return Claim::Foreign(Ok(
            "somebody else made its DNS record, which leads here; it is left as it is unless it is adopted"
                .to_owned(),
        ));
    }
    let to = match record.content.strip_suffix(".cfargotunnel.com") {
        Some(tunnel) if record.content != input.terms.content => format!("the tunnel {tunnel}"),
        Some(_) => "this tunnel, but past Cloudflare's proxy".to_owned(),
        None => record.content.clone(),
    };
    Claim::Foreign(Err(format!("somebody else made its DNS record, a CNAME to {to}; remove it, or adopt it")))
}

/// It leads to our tunnel and has our comment, which it keeps when somebody lets it lead elsewhere.
fn is_ours(input: &Input<'_>, record: &Record) -> bool {
    let comment = record.comment.as_deref().unwrap_or_default();
    let marks = &input.terms.marks;
    let is_marked = comment == marks.comment || (input.terms.exclusive && comment != marks.released);
    is_marked && leads_here(input, record)
}

fn was_ours(input: &Input<'_>, record: &Record) -> bool {
    record.comment.as_ref() == Some(&input.terms.marks.released) && leads_here(input, record)
}

fn leads_here(input: &Input<'_>, record: &Record) -> bool {
    record.kind == "CNAME" && record.content.eq_ignore_ascii_case(&input.terms.content)
}

fn records<'a>(input: &'a Input<'_>) -> impl Iterator<Item = (&'a str, &'a Record)> {
    let read = input.actual.records.iter().filter_map(|(zone, read)| Some((zone, read.as_ref().ok()?)));
    read.flat_map(|(zone, records)| records.iter().map(|record| (zone.as_str(), record)))
}

fn is_of(record: &Record, name: &str) -> bool {
    record.name.trim_end_matches('.').eq_ignore_ascii_case(name)
}

fn new(input: &Input<'_>, host: &HostPattern, comment: &str) -> NewRecord {
    NewRecord {
        name: host.to_string(),
        content: input.terms.content.clone(),
        proxied: true,
        ttl: 1,
        comment: comment.to_owned(),
    }
}

fn zone<'a>(input: &Input<'a>, host: &HostPattern, want: &Host) -> Result<&'a Zone, Standing> {
    let (HostPattern::Exact(name) | HostPattern::Below(name)) = host;
    let zones = &input.actual.zones;
    let seen = || match zones.iter().map(|zone| zone.name.as_str()).collect::<Vec<_>>().as_slice() {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    match &want.zone {
        Some(zone) if !holds(zone.as_str(), name) => {
            let why = format!("it cannot be in the zone {zone}; take that label off, or name the right one");
            Err(Standing::Held(why))
        }
        Some(zone) => zones.iter().find(|there| there.name == zone.as_str()).ok_or_else(|| {
            Standing::Failed(format!("the token does not see the zone {zone}; it sees {}", seen()))
        }),
        None => zone_of(zones, host).ok_or_else(|| {
            let why =
                "no zone that the token sees holds this name; give the token Zone: Read and DNS: Edit for it";
            Standing::Failed(format!("{why}, or correct the name (it sees {})", seen()))
        }),
    }
}

fn holds(zone: &str, name: &HostName) -> bool {
    name.as_str() == zone || name.above().any(|above| above == zone)
}

/// Why the name may not work although everything is as it should be.
fn doubts(zone: &Zone, host: &HostPattern) -> Vec<String> {
    let mut doubts = Vec::new();
    if let Some(status) = zone.status.as_deref().filter(|status| *status != "active") {
        doubts.push(format!("the zone {} is {status}, so Cloudflare does not answer for it yet", zone.name));
    }
    if zone.paused {
        doubts.push(format!("the zone {} is paused, so its records do not lead to a tunnel", zone.name));
    }
    if zone.kind.as_deref() == Some("partial") {
        doubts.push(format!(
            "the DNS of {} is not at Cloudflare; add a CNAME from {host} to {host}.cdn.cloudflare.net there",
            zone.name
        ));
    }
    let name = host.to_string();
    let below = name.strip_suffix(&zone.name).unwrap_or_default();
    if below.matches('.').count() > 1 {
        doubts.push(format!(
            "Universal SSL covers names one level below {}; for {host} browsers see a TLS error without an advanced certificate",
            zone.name
        ));
    }
    doubts
}
