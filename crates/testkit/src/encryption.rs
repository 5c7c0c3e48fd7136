//! The encryption of a login, a client's side of it (minecraft.wiki, Java Edition protocol, Encryption).

use std::io;

use aes::Aes128;
use cfb8::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use getrandom::SysRng;
use rsa::pkcs8::DecodePublicKey;
use rsa::{Pkcs1v15Encrypt, PublicKey};
use sha1::{Digest, Sha1};

use crate::wire::{Body, Fields, malformed};

/// What the server asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub server: String,
    /// DER.
    pub key: Vec<u8>,
    pub token: Vec<u8>,
    /// Since 1.20.5: whether the client is to tell the session server.
    pub authenticate: Option<bool>,
}

/// What both sides then know.
pub type Secret = [u8; 16];

/// Both directions of an encrypted connection.
pub struct Cipher {
    up: cfb8::Encryptor<Aes128>,
    down: cfb8::Decryptor<Aes128>,
}

impl Request {
    /// Reads a request's body, of a protocol from 47 (1.8) on.
    pub fn parse(body: &[u8], protocol: i32) -> io::Result<Self> {
        let mut fields = Fields(body);
        let (server, key, token) = (fields.string()?, fields.bytes()?.to_vec(), fields.bytes()?.to_vec());
        let authenticate = (protocol >= 766).then(|| fields.bool()).transpose()?;
        fields.finish()?;
        if server.chars().count() > 20 {
            return Err(malformed(format!("a server of the name {server:?}")));
        }
        Ok(Self { server, key, token, authenticate })
    }

    /// What the session server is told.
    pub fn hash(&self, secret: Secret) -> String {
        let sha = Sha1::new().chain_update(&self.server).chain_update(secret).chain_update(&self.key);
        signed_hex(&sha.finalize())
    }

    /// The answer, with this in place of the token.
    ///
    /// # Panics
    /// If the key is none.
    pub fn answer(&self, secret: Secret, token: &[u8], protocol: i32) -> Vec<u8> {
        let key = PublicKey::from_public_key_der(&self.key).expect("a key of the server");
        let hide = |bytes: &[u8]| key.encrypt(&mut SysRng, Pkcs1v15Encrypt, bytes).expect("short bytes");
        let mut body = Body::new().bytes(&hide(&secret));
        if matches!(protocol, 759..=760) {
            // It does not sign.
            body = body.bool(true);
        }
        body.bytes(&hide(token)).packet(1)
    }
}

impl Cipher {
    pub fn new(secret: Secret) -> Self {
        let key = &secret.into();
        Self { up: cfb8::Encryptor::new(key, key), down: cfb8::Decryptor::new(key, key) }
    }

    pub fn seal(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            let mut block = [*byte].into();
            self.up.encrypt_block(&mut block);
            *byte = block[0];
        }
    }

    pub fn open(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            let mut block = [*byte].into();
            self.down.decrypt_block(&mut block);
            *byte = block[0];
        }
    }
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cipher")
    }
}

/// As Java writes a big number of these bytes.
fn signed_hex(bytes: &[u8]) -> String {
    let (high, low) = bytes.split_at(4);
    let high = i32::from_be_bytes(high.try_into().expect("4 bytes"));
    let low = u128::from_be_bytes(low.try_into().expect("16 bytes"));
    let (sign, high, low) = match high {
        0.. => ("", high.unsigned_abs(), low),
        _ if low == 0 => ("-", high.unsigned_abs(), 0),
        _ => ("-", (high + 1).unsigned_abs(), low.wrapping_neg()),
    };
    let digits = format!("{high:08x}{low:032x}");
    format!("{sign}{}", digits.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As published for these names.
    #[test]
    fn hashes_have_a_sign() {
        for (text, hash) in [
            ("Notch", "4ed1f46bbe04bc756bcb17c0c7ce3e4632f06a48"),
            ("jeb_", "-7c9d5b0044c130109a5d7b5fb5c317c02b4e28c1"),
            ("simon", "88e16a1019277b15d58faf0541e11910eb756f6"),
        ] {
            assert_eq!(signed_hex(&Sha1::digest(text)), hash, "{text}");
        }
    }
}
