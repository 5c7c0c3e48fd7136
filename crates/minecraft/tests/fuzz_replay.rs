//! Replays the fuzz corpus with the stable toolchain.
#![allow(clippy::disallowed_methods, reason = "the corpus is in files")]

#[cfg(test)]
#[path = "../../../fuzz/src/lib.rs"]
mod targets;

use std::path::Path;

type Target = fn(&[u8]);

#[test]
fn the_corpus_holds() {
    let targets: [(&str, Target); 8] = [
        ("address", targets::address),
        ("client", targets::client),
        ("knock", targets::knock),
        ("legacy", targets::legacy),
        ("limbo", targets::limbo),
        ("proxy_header", targets::proxy_header),
        ("status_response", targets::status_response),
        ("text_template", targets::text_template),
    ];
    for (name, target) in targets {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
        let files: Vec<_> = corpus.read_dir().unwrap().map(|file| file.unwrap().path()).collect();
        assert!(files.len() >= 5, "{} is all but empty", corpus.display());
        for file in files {
            let data = std::fs::read(&file).unwrap();
            let outcome = std::panic::catch_unwind(|| target(&data));
            assert!(outcome.is_ok(), "{} breaks the target {name}", file.display());
        }
    }
}
