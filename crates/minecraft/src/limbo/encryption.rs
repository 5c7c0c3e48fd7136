//! The proof of an account, between the login start and the login's success (minecraft.wiki, Java Edition protocol,
//! Encryption): both sides agree on a secret, the client reports a hash of it to the session server, and whoever
//! speaks for the server asks there whether the player has. Asking is not done here.

use std::fmt;

use aes::Aes128;
use cfb8::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use rsa::pkcs8::{DecodePublicKey, EncodePublicKey};
use rsa::rand_core::TryCryptoRng;
use rsa::sha2::Sha256;
use rsa::{Pkcs1v15Encrypt, PrivateKey, PublicKey};
use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;

use crate::field::{Reader, write_text};
use crate::{Malformed, frame, varint};

pub use rsa::rand_core;

/// The gate's key, to be made anew with each start.
pub struct Key {
    private: PrivateKey,
    public: Vec<u8>,
}

/// What one client is asked with. It makes the answer good for this connection alone: an answer that somebody has
/// recorded elsewhere would tell the session server of another hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// The name of the server, as far as clients are concerned: the game's own servers have none, and clients put into
    /// the hash whatever they are sent, up to 20 characters.
    server: String,
    token: [u8; 4],
}

/// What both sides have agreed on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; 16]);

/// Hides all that follows the client's answer, in both directions.
pub struct Cipher {
    seal: cfb8::Encryptor<Aes128>,
    open: cfb8::Decryptor<Aes128>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncryptionError {
    #[error("no key can be made")]
    NoKey,
    #[error("the client's answer cannot be read: {0}")]
    Malformed(#[from] Malformed),
    #[error("the secret is not encrypted with our key")]
    BadSecret,
    #[error("the client does not give back what it was sent")]
    BadToken,
    /// 1.19 to 1.19.2.
    #[error("the client does not sign with the key that it has shown")]
    BadSignature,
}

impl Key {
    /// Takes a moment: tens of milliseconds.
    pub fn generate(random: &mut impl TryCryptoRng) -> Result<Self, EncryptionError> {
        let private = PrivateKey::new(random, BITS).map_err(|_| EncryptionError::NoKey)?;
        let public = private.as_public_key().to_public_key_der().map_err(|_| EncryptionError::NoKey)?;
        Ok(Self { private, public: public.into_vec() })
    }

    /// The frame that asks for encryption and, since 1.20.5, for a report to the session server; older clients
    /// report always.
    pub fn request(&self, protocol: i32, challenge: &Challenge) -> Vec<u8> {
        let mut body = vec![1];
        write_text(&challenge.server, &mut body);
        for bytes in [&self.public[..], &challenge.token] {
            if protocol <= SHORT_LENGTHS {
                body.extend(u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes());
            } else {
                varint::write(i32::try_from(bytes.len()).unwrap_or(i32::MAX), &mut body);
            }
            body.extend(bytes);
        }
        if protocol >= 766 {
            body.push(1);
        }
        frame::encode(&body)
    }

    /// Reads the body of the client's answer. What comes behind it is encrypted. `signer` is the key of the login
    /// start: clients that have one sign the token with it and do not encrypt it.
    pub fn open(
        &self,
        body: &[u8],
        protocol: i32,
        challenge: &Challenge,
        signer: Option<&[u8]>,
        random: &mut impl TryCryptoRng,
    ) -> Result<Secret, EncryptionError> {
        let mut fields = Reader::new(body);
        match fields.varint()? {
            1 => {}
            other => return Err(Malformed::BadPacketId(other).into()),
        }
        let secret = counted(&mut fields, protocol)?;
        let mut decrypt = |bytes: &[u8]| self.private.decrypt_blinded(random, Pkcs1v15Encrypt, bytes);
        if matches!(protocol, 759..=760) && !fields.bool()? {
            signed(&mut fields, &challenge.token, signer)?;
        } else {
            let returned = counted(&mut fields, protocol)?;
            let returned = decrypt(returned).map_err(|_| EncryptionError::BadToken)?;
            if !bool::from(returned.ct_eq(&challenge.token)) {
                return Err(EncryptionError::BadToken);
            }
        }
        fields.end()?;
        let secret = decrypt(secret).map_err(|_| EncryptionError::BadSecret)?;
        secret.try_into().map(Secret).map_err(|_| EncryptionError::BadSecret)
    }

    /// What the client reports to the session server, which knows the player by it.
    pub fn hash(&self, challenge: &Challenge, secret: &Secret) -> String {
        let hash =
            Sha1::new().chain_update(&challenge.server).chain_update(secret.0).chain_update(&self.public);
        signed_hex(hash.finalize().into())
    }
}

impl Challenge {
    /// From random bytes, which must be new for each client.
    pub fn new(random: [u8; 12]) -> Self {
        let [a, b, c, d, server @ ..] = random;
        Self { server: server.iter().map(|byte| format!("{byte:02x}")).collect(), token: [a, b, c, d] }
    }
}

impl Secret {
    pub fn cipher(&self) -> Cipher {
        let key = &self.0.into();
        Cipher { seal: cfb8::Encryptor::new(key, key), open: cfb8::Decryptor::new(key, key) }
    }
}

impl Cipher {
    /// Encrypts what is to be sent, all of it and in order.
    pub fn seal(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            let mut block = [*byte].into();
            self.seal.encrypt_block(&mut block);
            [*byte] = block.into();
        }
    }

    /// Decrypts what has come, all of it and in order.
    pub fn open(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            let mut block = [*byte].into();
            self.open.decrypt_block(&mut block);
            [*byte] = block.into();
        }
    }
}

/// A salt, and the signature of token and salt.
fn signed(fields: &mut Reader<'_>, token: &[u8; 4], signer: Option<&[u8]>) -> Result<(), EncryptionError> {
    let salt = fields.array::<8>()?;
    let signature = fields.counted_bytes()?;
    let key = signer.and_then(|key| PublicKey::from_public_key_der(key).ok());
    let message = [&token[..], &salt].concat();
    match key.map(|key| key.pkcs1v15_verify::<Sha256>(&message, signature)) {
        Some(Ok(())) => Ok(()),
        Some(Err(_)) | None => Err(EncryptionError::BadSignature),
    }
}

fn counted<'a>(fields: &mut Reader<'a>, protocol: i32) -> Result<&'a [u8], Malformed> {
    if protocol > SHORT_LENGTHS {
        return fields.counted_bytes();
    }
    let count = fields.u16()?;
    fields.bytes(count.into())
}

/// The hash as a number with a sign, in hexadecimal and without leading zeros: so the game writes it.
fn signed_hex(hash: [u8; 20]) -> String {
    let negative = hash.first().is_some_and(|first| *first >= 0x80);
    let mut bytes = hash;
    if negative {
        // The two's complement: all bits turned around, and one more.
        let mut carry = true;
        for byte in bytes.iter_mut().rev() {
            (*byte, carry) = (!*byte).overflowing_add(carry.into());
        }
    }
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}{}", if negative { "-" } else { "" }, digits.trim_start_matches('0'))
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(***)")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cipher(***)")
    }
}

/// As the game's own servers: the key is short, but lives no longer than the gate and protects nothing but logins.
const BITS: usize = 1024;
/// Up to 1.7.10 lengths are two bytes.
const SHORT_LENGTHS: i32 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    const TOKEN: [u8; 4] = *b"tokn";
    const SERVER: &str = "6f6e65206f6e6521";
    const SECRET: [u8; 16] = *b"sixteen bytes :)";

    fn challenge() -> Challenge {
        Challenge::new(*b"toknone one!")
    }

    /// A client's side: the key and the token it is sent, and its answer.
    fn answer(request: &[u8], protocol: i32, secret: &[u8], token: Option<&[u8]>) -> Vec<u8> {
        let frame = frame::split(request, 4096).unwrap().unwrap();
        let mut fields = Reader::new(frame.body);
        assert_eq!((fields.varint(), fields.text(20)), (Ok(1), Ok(SERVER)));
        let key = PublicKey::from_public_key_der(counted(&mut fields, protocol).unwrap()).unwrap();
        let sent = counted(&mut fields, protocol).unwrap();
        assert_eq!(fields.rest(), if protocol >= 766 { &[1][..] } else { &[] });
        let mut random = StdRng::seed_from_u64(2);
        let mut body = vec![1];
        for (bytes, is_token) in [(secret, false), (token.unwrap_or(sent), true)] {
            if is_token && matches!(protocol, 759..=760) {
                body.push(1);
            }
            let hidden = key.encrypt(&mut random, Pkcs1v15Encrypt, bytes).unwrap();
            if protocol <= 5 {
                body.extend(u16::try_from(hidden.len()).unwrap().to_be_bytes());
            } else {
                varint::write(hidden.len().try_into().unwrap(), &mut body);
            }
            body.extend(hidden);
        }
        body
    }

    #[test]
    fn both_sides_agree() {
        let mut random = StdRng::seed_from_u64(1);
        let key = Key::generate(&mut random).unwrap();
        for protocol in [5, 47, 758, 760, 765, 766, 777] {
            let request = key.request(protocol, &challenge());
            let body = answer(&request, protocol, &SECRET, None);
            assert_eq!(
                key.open(&body, protocol, &challenge(), None, &mut random),
                Ok(Secret(SECRET)),
                "{protocol}"
            );
        }
        let request = key.request(772, &challenge());
        let good = answer(&request, 772, &SECRET, None);
        let other = Key::generate(&mut random).unwrap();
        for (key, body, protocol, expected) in [
            (&key, answer(&request, 772, &SECRET, Some(b"old!")), 772, EncryptionError::BadToken),
            (&key, answer(&request, 772, &SECRET, Some(b"")), 772, EncryptionError::BadToken),
            (&key, answer(&request, 772, &SECRET[1..], None), 772, EncryptionError::BadSecret),
            (&other, good.clone(), 772, EncryptionError::BadToken),
            (&key, good[..good.len() - 1].to_vec(), 772, Malformed::Truncated.into()),
            (&key, [&good[..], b"x"].concat(), 772, Malformed::Trailing(1).into()),
            (&key, b"\x02".to_vec(), 772, Malformed::BadPacketId(2).into()),
        ] {
            assert_eq!(key.open(&body, protocol, &challenge(), None, &mut random), Err(expected));
        }
    }

    #[test]
    fn what_is_answered_to_one_is_no_answer_to_another() {
        let key = Key::generate(&mut StdRng::seed_from_u64(1)).unwrap();
        let (one, other) = (Challenge::new(*b"tokn8 bytes."), Challenge::new(*b"tokn8 bytes!"));
        assert_ne!(key.hash(&one, &Secret(SECRET)), key.hash(&other, &Secret(SECRET)));
        assert_eq!(key.hash(&one, &Secret(SECRET)), key.hash(&one, &Secret(SECRET)));
    }

    /// 1.19 to 1.19.2, with a chat key.
    #[test]
    fn the_token_may_be_signed() {
        let mut random = StdRng::seed_from_u64(3);
        let key = Key::generate(&mut random).unwrap();
        let chat = PrivateKey::new(&mut random, 1024).unwrap();
        let shown = chat.as_public_key().to_public_key_der().unwrap().into_vec();
        let hidden = key.private.as_public_key().encrypt(&mut random, Pkcs1v15Encrypt, &SECRET).unwrap();
        let salt = *b"saltsalt";
        let signed = |token: &[u8]| {
            let signature = chat.pkcs1v15_sign::<Sha256>(&[token, &salt].concat()).unwrap();
            let mut body = vec![1];
            for bytes in [&hidden[..], &signature] {
                varint::write(bytes.len().try_into().unwrap(), &mut body);
                body.extend(bytes);
                if bytes == hidden {
                    body.push(0);
                    body.extend(salt);
                }
            }
            body
        };
        for (token, signer, expected) in [
            (&TOKEN, Some(&shown[..]), Ok(Secret(SECRET))),
            (b"old!", Some(&shown), Err(EncryptionError::BadSignature)),
            (&TOKEN, Some(&key.public), Err(EncryptionError::BadSignature)),
            (&TOKEN, Some(b"no key"), Err(EncryptionError::BadSignature)),
            (&TOKEN, None, Err(EncryptionError::BadSignature)),
        ] {
            assert_eq!(key.open(&signed(token), 760, &challenge(), signer, &mut random), expected);
        }
    }

    #[test]
    fn a_stream_in_pieces() {
        let mut ours = Secret(SECRET).cipher();
        let mut theirs = Secret(SECRET).cipher();
        let mut sent = *b"one and two";
        let (first, second) = sent.split_at_mut(3);
        ours.seal(first);
        ours.seal(second);
        assert_ne!(&sent, b"one and two");
        theirs.open(&mut sent);
        assert_eq!(&sent, b"one and two");
        // As the cipher's own documentation has it, with a vector that starts apart from the key.
        let (key, start) = (&[0x42; 16].into(), &[0x24; 16].into());
        let mut cipher =
            Cipher { seal: cfb8::Encryptor::new(key, start), open: cfb8::Decryptor::new(key, start) };
        let mut text = *b"hello world!";
        cipher.seal(&mut text);
        assert_eq!(text, *b"\x33\xb3\x56\xce\x91\x84\x29\x0c\x4c\x8f\xac\xc1");
    }

    #[test]
    fn hashes_as_the_game_writes_them() {
        for (name, expected) in [
            ("Notch", "4ed1f46bbe04bc756bcb17c0c7ce3e4632f06a48"),
            ("jeb_", "-7c9d5b0044c130109a5d7b5fb5c317c02b4e28c1"),
            ("simon", "88e16a1019277b15d58faf0541e11910eb756f6"),
        ] {
            assert_eq!(signed_hex(Sha1::digest(name).into()), expected, "{name}");
        }
    }
}
