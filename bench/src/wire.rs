//! The bytes that a Minecraft client says first, protocol 767 (1.21.1). Source: minecraft.wiki, Java Edition protocol.

pub const ROUTES: u32 = 1000;
/// Whatever a login opening says, the backend answers with as much.
pub const REPLY: [u8; 64] = [b'r'; 64];
/// A hostname that every peer with a status of its own answers for.
pub const ASLEEP: &str = "asleep.bench";
/// Its answer, without the frame.
pub const STATUS: &str = concat!(
    r#"{"version":{"name":"1.21.1","protocol":767},"players":{"max":20,"online":0},"#,
    r#""description":{"text":"This server is asleep. Join to wake it up!"}}"#
);

/// All hostnames are equally long, so that a backend knows how long an opening is.
pub fn host(index: u32) -> String {
    format!("s{:04}.bench", index % ROUTES)
}

/// A handshake with a login start.
pub fn login(host: &str) -> Vec<u8> {
    let mut login = vec![0];
    string(&mut login, "bench");
    login.extend([7; 16]);
    [handshake(host, 2), frame(&login)].concat()
}

/// A handshake with a status request.
pub fn status(host: &str) -> Vec<u8> {
    [handshake(host, 1), frame(&[0])].concat()
}

pub fn ping(payload: u64) -> Vec<u8> {
    let mut ping = vec![1];
    ping.extend(payload.to_be_bytes());
    frame(&ping)
}

fn handshake(host: &str, intent: u8) -> Vec<u8> {
    let mut body = vec![0, 0xff, 0x05];
    string(&mut body, host);
    body.extend([0x63, 0xdd, intent]);
    frame(&body)
}

fn frame(body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    varint(&mut frame, body.len());
    frame.extend(body);
    frame
}

fn string(out: &mut Vec<u8>, text: &str) {
    varint(out, text.len());
    out.extend(text.as_bytes());
}

fn varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// How long the first frame is, its length included, once that much of it is known.
pub fn frame_length(bytes: &[u8]) -> Option<usize> {
    let mut length = 0;
    for (index, byte) in bytes.iter().take(3).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some(index + 1 + length);
        }
    }
    None
}
