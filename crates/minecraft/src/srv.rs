//! The DNS records by which the game finds a server behind a bare name: `_minecraft._tcp.NAME`, type SRV
//! (RFC 1035 for the messages, RFC 2782 for the record).

use crate::Malformed;
use crate::field::Reader;

/// Where a name's server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// With its root dot, as the game sends it on in the handshake.
    pub host: String,
    pub port: u16,
}

const SRV: u16 = 33;
const INTERNET: u16 = 1;
const RECURSION_DESIRED: u16 = 0x0100;
const IS_ANSWER: u16 = 0x8000;
const OUTCOME: u16 = 0x000f;
const LONGEST_LABEL: usize = 63;
const LONGEST_NAME: usize = 255;

/// The question for `name`, a plain ASCII hostname. `None` for a name that DNS cannot hold.
pub fn question(id: u16, name: &str) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    for word in [id, RECURSION_DESIRED, 1, 0, 0, 0] {
        message.extend(word.to_be_bytes());
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    for label in ["_minecraft", "_tcp"].into_iter().chain(name.split('.')) {
        let length = u8::try_from(label.len()).ok().filter(|length| usize::from(*length) <= LONGEST_LABEL)?;
        if length == 0 {
            return None;
        }
        message.push(length);
        message.extend(label.as_bytes());
    }
    message.push(0);
    message.extend([SRV, INTERNET].iter().flat_map(|word| word.to_be_bytes()));
    (message.len() <= 12 + LONGEST_NAME + 4).then_some(message)
}

/// Reads the answer to the question with this id: its first record, as the game does, or `None` where there is
/// no such record. An answer to something else is malformed.
pub fn answer(id: u16, message: &[u8]) -> Result<Option<Target>, Malformed> {
    let mut fields = Reader::new(message);
    let [answers_to, flags, questions, answers] =
        [fields.u16()?, fields.u16()?, fields.u16()?, fields.u16()?];
    fields.bytes(4)?;
    if answers_to != id || flags & IS_ANSWER == 0 {
        return Err(Malformed::BadPacketId(answers_to.into()));
    }
    if flags & OUTCOME != 0 {
        return Ok(None);
    }
    for _ in 0..questions {
        name(message, &mut fields)?;
        fields.bytes(4)?;
    }
    for _ in 0..answers {
        name(message, &mut fields)?;
        let kind = fields.u16()?;
        fields.bytes(6)?;
        let size = fields.u16()?;
        let mut data = Reader::new(fields.bytes(size.into())?);
        if kind == SRV {
            data.bytes(4)?;
            let port = data.u16()?;
            let host = name(message, &mut data)?;
            // The root alone says that there is no such service.
            return Ok((host != ".").then_some(Target { host, port }));
        }
    }
    Ok(None)
}

/// Reads a name, which may go on at an earlier place of the message.
fn name<'a>(message: &'a [u8], fields: &mut Reader<'a>) -> Result<String, Malformed> {
    let mut elsewhere: Option<Reader<'a>> = None;
    let mut name = String::new();
    // Every step adds a label or is one of few jumps, so a name that goes in circles ends here.
    for _ in 0..LONGEST_NAME {
        let here = elsewhere.as_mut().unwrap_or(&mut *fields);
        match usize::from(here.u8()?) {
            0 if name.is_empty() => return Ok(".".to_owned()),
            0 => return Ok(name),
            length @ 1..=LONGEST_LABEL => {
                let label = std::str::from_utf8(here.bytes(length)?).map_err(|_| Malformed::NotUnicode)?;
                name.push_str(label);
                name.push('.');
                if name.len() > LONGEST_NAME {
                    return Err(Malformed::LongText { limit: LONGEST_NAME });
                }
            }
            high => {
                let place = (high & LONGEST_LABEL) << 8 | usize::from(here.u8()?);
                elsewhere = Some(Reader::new(message.get(place..).ok_or(Malformed::Truncated)?));
            }
        }
    }
    Err(Malformed::LongText { limit: LONGEST_NAME })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const QUESTION: &[u8] =
        b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x0a_minecraft\x04_tcp\x07example\x03com\0\0\x21\0\x01";

    /// An answer to [`QUESTION`] with these records; a name may point at `example.com`, which is at 28.
    fn answered(flags: u16, records: &[&[u8]]) -> Vec<u8> {
        let mut message = QUESTION.to_vec();
        message.splice(2..4, flags.to_be_bytes());
        message.splice(6..8, u16::try_from(records.len()).unwrap().to_be_bytes());
        message.extend(records.concat());
        message
    }

    #[test]
    fn questions() {
        assert_eq!(question(0x1234, "example.com").as_deref(), Some(QUESTION));
        assert_eq!(question(0x1234, "example.com.").as_deref(), Some(QUESTION));
        for bad in ["", "a..b", &"a".repeat(64), &"a.".repeat(130)] {
            assert_eq!(question(0, bad), None, "{bad}");
        }
    }

    #[test]
    fn answers() {
        let mc = b"\xc0\x0c\0\x21\0\x01\0\0\0\x3c\0\x0b\0\0\0\x05\x63\xde\x02mc\xc0\x1c";
        let other = b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x02\xc0\x1c";
        let none = b"\xc0\x0c\0\x21\0\x01\0\0\0\x3c\0\x07\0\0\0\0\0\0\0";
        let circle = b"\xc0\x0c\0\x21\0\x01\0\0\0\x3c\0\x08\0\0\0\0\0\0\xc0\x3f";
        let found = Some(Target { host: "mc.example.com.".to_owned(), port: 25566 });
        for (message, expected) in [
            (answered(0x8180, &[mc]), Ok(found.clone())),
            (answered(0x8180, &[other, mc, none]), Ok(found)),
            (answered(0x8180, &[other]), Ok(None)),
            (answered(0x8180, &[none]), Ok(None)),
            (answered(0x8183, &[]), Ok(None)),
            (answered(0x0100, &[mc]), Err(Malformed::BadPacketId(0x1234))),
            (answered(0x8180, &[circle]), Err(Malformed::LongText { limit: 255 })),
            (answered(0x8180, &[&mc[..20]]), Err(Malformed::Truncated)),
        ] {
            assert_eq!(answer(0x1234, &message), expected, "{message:02x?}");
        }
        assert!(answer(0x4321, &answered(0x8180, &[mc])).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(mut bytes: Vec<u8>, whole: bool) {
            if whole {
                bytes = answered(0x8180, &[&bytes]);
            }
            let _ = answer(0x1234, &bytes);
        }
    }
}
