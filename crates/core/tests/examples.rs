//! Every file in `examples/` can be run as it is.

use swarmgate_core::config;

#[test]
fn every_example_is_valid_and_has_no_warnings() {
    for (name, text, servers) in [
        ("image.toml", include_str!("../../../examples/image.toml"), 0),
        ("minimal.toml", include_str!("../../../examples/minimal.toml"), 1),
        ("swarmgate.toml", include_str!("../../../examples/swarmgate.toml"), 2),
    ] {
        let checked = config::parse(text, &[]).unwrap_or_else(|problems| panic!("{name}: {problems:#?}"));
        assert_eq!(checked.warnings, [], "{name}");
        assert_eq!(checked.config.servers.len(), servers, "{name}");
    }
}
