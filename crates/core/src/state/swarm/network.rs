//! On which of a task's networks to dial it: always the task's own address, never the service's virtual one,
//! so that scaling down cuts no stream.

use super::api::ServiceSpec;
use super::{Attachment, Instance};
use crate::service::Endpoint;
use crate::state::{OwnNetwork, names};

/// What decides between several networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Choice<'a> {
    /// The network a label asks for: its id, its name with or without the stack's prefix, or an alias of the
    /// service on it.
    pub asked: Option<&'a str>,
    /// The networks that the gate is on; `None` if it cannot tell.
    pub own: Option<&'a [OwnNetwork]>,
}

/// Addresses to dial, in order of preference, or why there are none (a sentence with the fix).
pub fn endpoints(
    instance: &Instance,
    spec: &ServiceSpec,
    choice: Choice<'_>,
    port: u16,
) -> Result<Vec<Endpoint>, String> {
    let fits = |a: &&Attachment| {
        let asked = choice.asked.is_none_or(|asked| goes_by(a, asked, spec));
        let shared = choice.own.is_none_or(|own| own.iter().any(|own| own.id == a.network));
        asked && shared && !a.ingress
    };
    let addresses = instance.attachments.iter().filter(fits).flat_map(|a| &a.addresses);
    let endpoints: Vec<Endpoint> =
        addresses.map(|address| Endpoint { host: address.as_str().into(), port }).collect();
    if endpoints.is_empty() { Err(none(instance, spec, choice)) } else { Ok(endpoints) }
}

fn goes_by(attachment: &Attachment, asked: &str, spec: &ServiceSpec) -> bool {
    let in_its_stack = || {
        let stack = spec.labels.get("com.docker.stack.namespace")?;
        Some(attachment.name.strip_prefix(stack.as_str())?.strip_prefix('_')? == asked)
    };
    let aliased = || {
        let target = spec.task_template.networks.iter().find(|n| n.target == attachment.network);
        target.is_some_and(|target| target.aliases.iter().any(|alias| alias == asked))
    };
    attachment.network == asked || attachment.name == asked || in_its_stack() == Some(true) || aliased()
}

fn none(instance: &Instance, spec: &ServiceSpec, choice: Choice<'_>) -> String {
    let on = names(instance.attachments.iter().map(|a| a.name.as_str()));
    let exists = |asked| instance.attachments.iter().any(|a| goes_by(a, asked, spec));
    match (choice.asked, choice.own) {
        (Some(asked), _) if !exists(asked) => {
            format!("it is not on the network {asked:?} that is asked for; it is on: {on}")
        }
        (Some(asked), Some(own)) => {
            let own = names(own.iter().map(|own| own.name.as_str()));
            format!(
                "the gate is not on the network {asked:?} that is asked for, but on: {own}; attach the gate to it"
            )
        }
        (None, Some(own)) => {
            let own = names(own.iter().map(|own| own.name.as_str()));
            format!(
                "the gate is on none of its networks ({on}), but on: {own}; attach both to one overlay network"
            )
        }
        (_, None) => {
            format!("its task has no address to dial (it is on: {on}): attach it to an overlay network")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn attachment(network: &str, name: &str, addresses: &[&str]) -> Attachment {
        Attachment {
            network: network.into(),
            name: name.into(),
            ingress: name == "ingress",
            addresses: addresses.iter().map(|&address| address.into()).collect(),
        }
    }

    fn instance() -> Instance {
        Instance {
            task: "t".into(),
            node: "n".into(),
            attachments: vec![
                attachment("i0", "ingress", &["10.0.0.9"]),
                attachment("z1", "prod_zone", &["10.1.0.9"]),
                attachment("m2", "mc", &["10.2.0.9", "fd00::9"]),
                attachment("h3", "host", &[]),
            ],
        }
    }

    fn spec() -> ServiceSpec {
        serde_json::from_value(json!({
            "Labels": {"com.docker.stack.namespace": "prod"},
            "TaskTemplate": {"Networks": [{"Target": "z1", "Aliases": ["lobby"]}, {"Target": "m2"}]},
        }))
        .unwrap()
    }

    fn dial(asked: Option<&str>, own: Option<&[&str]>) -> Result<String, String> {
        let named = |&id: &&str| OwnNetwork { id: id.into(), name: format!("{id}-net") };
        let own: Option<Vec<OwnNetwork>> = own.map(|ids| ids.iter().map(named).collect());
        let found = endpoints(&instance(), &spec(), Choice { asked, own: own.as_deref() }, 25565)?;
        Ok(found.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_network_goes_by_many_names() {
        for (asked, address) in [
            ("z1", "10.1.0.9:25565"),
            ("prod_zone", "10.1.0.9:25565"),
            ("zone", "10.1.0.9:25565"),
            ("lobby", "10.1.0.9:25565"),
            ("mc", "10.2.0.9:25565 [fd00::9]:25565"),
        ] {
            assert_eq!(dial(Some(asked), None), Ok(address.into()), "{asked}");
        }
    }

    #[test]
    fn without_a_label_every_shared_network_in_the_order_of_the_spec() {
        assert_eq!(dial(None, Some(&["m2", "x"])), Ok("10.2.0.9:25565 [fd00::9]:25565".into()));
        let all = "10.1.0.9:25565 10.2.0.9:25565 [fd00::9]:25565";
        assert_eq!(dial(None, Some(&["m2", "z1", "i0"])), Ok(all.into()), "never the ingress network");
        assert_eq!(dial(None, None), Ok(all.into()));
    }

    #[test]
    fn nowhere_to_dial_says_why() {
        let cases: [(_, Option<&[&str]>, _); 6] = [
            (Some("other"), None, "it is on: ingress, prod_zone, mc, host"),
            (Some("mc"), Some(&["z1"]), "not on the network \"mc\" that is asked for, but on: z1-net"),
            (Some("host"), None, "no address to dial"),
            (Some("ingress"), None, "no address to dial"),
            (
                None,
                Some(&["x", "y"]),
                "none of its networks (ingress, prod_zone, mc, host), but on: x-net, y-net",
            ),
            (None, Some(&[]), "but on: no network"),
        ];
        for (asked, shared, why) in cases {
            let error = dial(asked, shared).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
