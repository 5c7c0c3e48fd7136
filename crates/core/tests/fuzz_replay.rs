//! Replays the fuzz corpus with the stable toolchain.
#![allow(clippy::disallowed_methods, reason = "the corpus is in files")]

#[cfg(test)]
#[path = "../../../fuzz/src/lib.rs"]
mod targets;

use std::collections::BTreeSet;
use std::path::Path;

type Target = fn(&[u8]);

#[test]
fn the_corpus_holds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let targets: [(&str, Target); 17] = [
        ("address", targets::address),
        ("client", targets::client),
        ("encryption", targets::encryption),
        ("engine", targets::engine),
        ("forwarded", targets::forwarded),
        ("forwarding", targets::forwarding),
        ("hostname", targets::hostname),
        ("image", targets::image),
        ("knock", targets::knock),
        ("legacy", targets::legacy),
        ("limbo", targets::limbo),
        ("output", targets::output),
        ("proxy_header", targets::proxy_header),
        ("publication", targets::publication),
        ("settings", targets::settings),
        ("status_response", targets::status_response),
        ("text_template", targets::text_template),
    ];
    let names = |directory: &str| -> BTreeSet<String> {
        let entries = root.join(directory).read_dir().unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
    };
    let replayed: BTreeSet<String> = targets.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names("fuzz_targets"), replayed, "a target that is not replayed, or the reverse");
    assert_eq!(names("corpus"), replayed, "a corpus without a target, or the reverse");
    for (name, target) in targets {
        let corpus = root.join("corpus").join(name);
        let files: Vec<_> = corpus.read_dir().unwrap().map(|file| file.unwrap().path()).collect();
        assert!(files.len() >= 5, "{} is all but empty", corpus.display());
        for file in files {
            let data = std::fs::read(&file).unwrap();
            let outcome = std::panic::catch_unwind(|| target(&data));
            assert!(outcome.is_ok(), "{} breaks the target {name}", file.display());
        }
    }
}
