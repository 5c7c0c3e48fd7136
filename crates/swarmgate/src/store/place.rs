//! Whether what is kept is kept for long: said once, when the gate starts.

use std::path::Path;

use swarmgate_core::config::Config;

use crate::engine::own;

/// Warns of what will be lost, and when.
pub fn warn(config: &Config) {
    if !config.keeps {
        return tracing::warn!(
            "data_dir is \"off\", so nothing outlives this run of the gate: pins, routes made over the API and boot times are \
             lost when it ends, what it made at Cloudflare it knows by its marks there alone, and players who wait then join \
             anew; a path keeps all of that"
        );
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let place = std::path::absolute(&config.data_dir).unwrap_or_else(|_| config.data_dir.clone());
    if let Some(is) = own::container().and_then(|_| lost_with_its_container(&mounts, &place)) {
        let path = place.display();
        tracing::warn!(
            "data_dir {path} is {is}, so what is kept is lost when the container is replaced, as by an update; mount a volume \
             with a name there, such as `gate:{path}`"
        );
    }
}

/// What a directory of a container is, if it goes with that: from `/proc/self/mountinfo` (proc(5)).
fn lost_with_its_container(mounts: &str, directory: &Path) -> Option<&'static str> {
    let mount = |line: &str| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, at) = (fields.next()?.to_owned(), unescaped(fields.next()?));
        directory.starts_with(&at).then_some((at.len(), root, filesystem.split(' ').next()?.to_owned()))
    };
    // Of several in one place the last is on top.
    let (_, root, filesystem) = mounts.lines().filter_map(mount).max_by_key(|(length, ..)| *length)?;
    match filesystem.as_str() {
        "overlay" => Some("in the container itself"),
        _ if is_anonymous(&root) => Some("a volume without a name"),
        _ => None,
    }
}

/// `/var/lib/docker/volumes/ID/_data`: such a name nobody gives.
fn is_anonymous(root: &str) -> bool {
    let name = root.rsplit_once("/volumes/").and_then(|(_, rest)| rest.split('/').next());
    name.is_some_and(|name| name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A blank in a path is written as `\040`.
fn unescaped(path: &str) -> String {
    path.replace("\\040", " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_volume_with_a_name_and_a_directory_of_the_machine_stay() {
        let id = "0f3c".repeat(16);
        let layer = "601 512 0:55 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/x".to_owned();
        let data = |root: &str| {
            format!("{layer}\n620 601 252:1 {root} /data rw,relatime master:1 - ext4 /dev/vda rw")
        };
        let anonymous = format!("/var/lib/docker/volumes/{id}/_data");
        for (mounts, directory, is) in [
            (data(&anonymous), "/data", Some("a volume without a name")),
            (data(&anonymous), "/data/gate", Some("a volume without a name")),
            (data("/var/lib/docker/volumes/minecraft_gate/_data"), "/data", None),
            (data("/srv/gate"), "/data", None),
            (data("/srv/gate"), "/database", Some("in the container itself")),
            (layer.clone(), "/data", Some("in the container itself")),
            (
                format!("{}\n{}", data(&anonymous), "630 620 252:1 /srv /data rw - ext4 /dev/vda rw"),
                "/data",
                None,
            ),
            (data("/srv").replace("/data", "/my\\040data"), "/my data", None),
            (String::new(), "/data", None),
        ] {
            assert_eq!(lost_with_its_container(&mounts, Path::new(directory)), is, "{directory} {mounts}");
        }
    }
}
