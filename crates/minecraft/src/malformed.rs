use crate::proxy_header;

/// Why bytes are not what the protocol asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("a VarInt does not fit in 32 bits")]
    BadVarInt,
    #[error("the frame's length takes more than 3 bytes: it is negative or above 2 MiB")]
    BadLength,
    #[error("the frame is empty")]
    EmptyFrame,
    #[error("{claimed} bytes are announced where at most {limit} may come")]
    Oversized { claimed: usize, limit: usize },
    #[error("the packet ends in the middle of a field")]
    Truncated,
    #[error("{0} bytes follow the packet's last field")]
    Trailing(usize),
    #[error("a field announces a negative length")]
    NegativeLength,
    #[error("a text is longer than the {limit} characters it may have")]
    LongText { limit: usize },
    #[error("a text is not valid Unicode")]
    NotUnicode,
    #[error("the packet's id is {0}, which has no place here")]
    BadPacketId(i32),
    #[error("{0} is not an intent (1 status, 2 login, 3 transfer)")]
    BadIntent(i32),
    #[error("the player has no name")]
    EmptyName,
    #[error("a compressed packet does not unfold to what it announces")]
    BadCompression,
    #[error("a text in NBT cannot be read")]
    BadNbt,
    #[error("a text is not the JSON it should be")]
    BadJson,
    #[error("a text is no IP address")]
    BadAddress,
    #[error("this is TLS, not the game")]
    Tls,
    #[error("this is HTTP, not the game")]
    Http,
    #[error("this is SSH, not the game")]
    Ssh,
    #[error("this is a remote desktop (RDP), not the game")]
    Rdp,
    #[error("a PROXY header came where none is expected")]
    ProxyHeader,
}

impl Malformed {
    /// A bounded name for metric labels.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::BadVarInt => "bad_varint",
            Self::BadLength => "bad_length",
            Self::EmptyFrame => "empty_frame",
            Self::Oversized { .. } => "oversized",
            Self::Truncated => "truncated",
            Self::Trailing(_) => "trailing",
            Self::NegativeLength => "negative_length",
            Self::LongText { .. } => "long_text",
            Self::NotUnicode => "not_unicode",
            Self::BadPacketId(_) => "bad_packet_id",
            Self::BadIntent(_) => "bad_intent",
            Self::EmptyName => "empty_name",
            Self::BadCompression => "bad_compression",
            Self::BadNbt => "bad_nbt",
            Self::BadJson => "bad_json",
            Self::BadAddress => "bad_address",
            Self::Tls => "tls",
            Self::Http => "http",
            Self::Ssh => "ssh",
            Self::Rdp => "rdp",
            Self::ProxyHeader => "proxy_header",
        }
    }
}

/// What other protocols' clients say first. None of these begins a valid game connection.
pub(crate) const STRANGERS: &[(&[u8], Malformed)] = &[
    (&[0x16, 0x03], Malformed::Tls),
    (b"GET ", Malformed::Http),
    (b"HEAD ", Malformed::Http),
    (b"POST ", Malformed::Http),
    (b"PUT ", Malformed::Http),
    (b"DELETE ", Malformed::Http),
    (b"OPTIONS ", Malformed::Http),
    (b"CONNECT ", Malformed::Http),
    (b"PRI * HTTP/2", Malformed::Http),
    (b"SSH-", Malformed::Ssh),
    (&[0x03, 0x00, 0x00], Malformed::Rdp),
    (proxy_header::V1_PREFIX, Malformed::ProxyHeader),
    (proxy_header::V2_SIGNATURE, Malformed::ProxyHeader),
];
