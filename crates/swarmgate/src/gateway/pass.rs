//! The pass: a signed cookie that a player takes along when the gate sends it back to itself. It says who has
//! waited for which service, for a short time, also after the gate has restarted or the player's address has
//! changed. It proves nothing else.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// How long a pass lets its player in. It only has to last from one connection to the next.
const LIFETIME: Duration = Duration::from_secs(60);
const TAG: usize = 32;
/// What it was made for, so that nothing else that is signed with the key is taken for one.
const PURPOSE: &[u8] = b"swarmgate pass 1\0";

/// By what name the client keeps it.
pub const COOKIE: &str = "swarmgate:pass";

pub struct Passes {
    /// Begun with the key.
    mac: Hmac<Sha256>,
}

impl fmt::Debug for Passes {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passes")
    }
}

impl Passes {
    pub fn new(key: &[u8; 32]) -> Self {
        let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
        block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
        Self { mac: Hmac::new(&block) }
    }

    /// Says that `player` has waited for `service`.
    pub fn issue(&self, service: &str, player: &str, now: SystemTime) -> Vec<u8> {
        let until = seconds(now).saturating_add(LIFETIME.as_secs());
        let tag = self.signed(until, service, player).finalize().into_bytes();
        [&tag[..], &until.to_be_bytes(), service.as_bytes()].concat()
    }

    /// The service that `player` has waited for; `None` if the pass is not of this gate, not this player's or
    /// no longer valid.
    pub fn check<'a>(&self, pass: &'a [u8], player: &str, now: SystemTime) -> Option<&'a str> {
        let (tag, rest) = pass.split_at_checked(TAG)?;
        let (until, service) = rest.split_first_chunk()?;
        let until = u64::from_be_bytes(*until);
        let service = std::str::from_utf8(service).ok()?;
        self.signed(until, service, player).verify_slice(tag).ok()?;
        // One from the future was made by a clock that has been set back since.
        let left = until.checked_sub(seconds(now))?;
        (left > 0 && left <= LIFETIME.as_secs()).then_some(service)
    }

    fn signed(&self, until: u64, service: &str, player: &str) -> Hmac<Sha256> {
        let mut mac = self.mac.clone();
        let player = player.to_lowercase();
        for part in [PURPOSE, &until.to_be_bytes(), service.as_bytes(), b"\0", player.as_bytes()] {
            mac.update(part);
        }
        mac
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    #[test]
    fn a_pass_is_for_one_player_one_service_and_a_minute() {
        let passes = Passes::new(&[7; 32]);
        let pass = passes.issue("process/mc", "Ann", at(0));
        for (player, now, service) in [
            ("Ann", at(0), Some("process/mc")),
            ("aNN", at(59), Some("process/mc")),
            ("Ann", at(60), None),
            ("Ann", UNIX_EPOCH, None),
            ("Bo", at(0), None),
        ] {
            assert_eq!(passes.check(&pass, player, now), service, "{player}");
        }
    }

    #[test]
    fn whatever_is_changed_in_it_makes_it_worthless() {
        let passes = Passes::new(&[7; 32]);
        let pass = passes.issue("process/mc", "Ann", at(0));
        for at_byte in 0..pass.len() {
            let mut forged = pass.clone();
            forged[at_byte] ^= 1;
            assert_eq!(passes.check(&forged, "Ann", at(0)), None, "{at_byte}");
            assert_eq!(passes.check(&pass[..at_byte], "Ann", at(0)), None, "{at_byte}");
        }
        assert_eq!(passes.check(&[&pass[..], b"x"].concat(), "Ann", at(0)), None);
        // What one part loses, the next must not gain.
        assert_eq!(passes.check(&passes.issue("process/m", "cAnn", at(0)), "Ann", at(0)), None);
        assert_eq!(Passes::new(&[8; 32]).check(&pass, "Ann", at(0)), None);
    }
}
