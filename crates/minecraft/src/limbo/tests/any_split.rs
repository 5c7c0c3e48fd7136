use proptest::prelude::*;

use super::*;

/// Everything that comes of bytes in these pieces: before and after the shell's answer to the first ones.
fn story(protocol: i32, before: &[&[u8]], after: &[&[u8]]) -> (Vec<u8>, Vec<Event>, Option<Broken>) {
    let mut session = Session::new(&guest(protocol), START).unwrap();
    let mut out = session.output();
    let mut broken = None;
    for pieces in [before, after] {
        for piece in pieces {
            broken = broken.or_else(|| session.receive(piece, START).err());
            out.extend(session.output());
            assert!(session.held() < 16 * 1024, "{}", session.held());
        }
        session.enter(START);
    }
    (out, std::iter::from_fn(|| session.event()).collect(), broken)
}

fn cut<'a>(mut bytes: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for size in sizes.iter().cycle() {
        let (piece, rest) = bytes.split_at((*size).min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
        if bytes.is_empty() {
            break;
        }
    }
    pieces
}

/// Packets that a client may send, and noise.
fn parts() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
    proptest::collection::vec((0_u8..12, proptest::collection::vec(any::<u8>(), 0..40)), 0..10)
}

fn bytes_of(parts: Vec<(u8, Vec<u8>)>, releases: &[&str]) -> Vec<u8> {
    let bytes = parts.into_iter().flat_map(|(kind, noise)| match kind {
        0..=2 => acknowledged(),
        3 => brand("vanilla"),
        4..=6 => packs(&releases[..1]),
        7 => packs(&[]),
        8 => packet(noise.len().try_into().unwrap(), &noise),
        9 => packet(4, &noise[..noise.len().min(8)]),
        10 => packet(7, &noise),
        _ => noise,
    });
    bytes.collect()
}

proptest! {
    #[test]
    fn any_split_is_the_same(
        protocol in 766_i32..=777,
        arriving: bool,
        before in parts(),
        after in parts(),
        sizes in proptest::collection::vec(1_usize..30, 1..8),
    ) {
        let releases = Protocol(protocol).releases();
        let arrival = [acknowledged(), packs(&releases[..1])].concat();
        let before = [if arriving { arrival } else { vec![] }, bytes_of(before, releases)].concat();
        let after = bytes_of(after, releases);
        let whole = story(protocol, &[&before], &[&after]);
        prop_assert_eq!(whole, story(protocol, &cut(&before, &sizes), &cut(&after, &sizes)));
    }
}
