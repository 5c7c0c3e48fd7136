//! Text as the game shows it: a tree of parts with styles, read from what people write and from JSON, and
//! written as JSON, NBT, `§` codes or plain text (minecraft.wiki, Text component format).

mod json;
mod template;

use std::fmt;

use serde_json::{Map, Value};

pub use json::plain_of;

use crate::nbt;

/// A part of a text, and the parts that follow it and take over its style.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Component {
    pub text: String,
    pub style: Style,
    pub extra: Vec<Self>,
    /// What else a JSON component held (`translate`, `hover_event`, …), written back as it was.
    other: Map<String, Value>,
}

/// What a part says about its looks; what it leaves open comes from the part around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    pub colour: Option<Colour>,
    pub bold: Option<bool>,
    pub italic: Option<bool>,
    pub underlined: Option<bool>,
    pub strikethrough: Option<bool>,
    pub obfuscated: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    Named(Named),
    /// Since 1.16: red, green, blue.
    Rgb([u8; 3]),
}

/// One of the sixteen colours every version has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    pub name: &'static str,
    /// Its `§` code.
    pub code: char,
    pub rgb: [u8; 3],
}

/// Why a text cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    #[error("there is no tag <{tag}>{}; write \\< for the sign itself", did_you_mean(*nearest))]
    UnknownTag { tag: String, nearest: Option<&'static str> },
    #[error("there is no colour '{colour}'{}", did_you_mean(*nearest))]
    UnknownColour { colour: String, nearest: Option<&'static str> },
    #[error("</{0}> closes nothing that is open")]
    NothingToClose(String),
    #[error("tags in <> and codes with § do not mix: use one of them")]
    Mixed,
    #[error("the text begins like JSON, but is none: {0}")]
    BadJson(String),
    #[error("the JSON is no text component: {0}")]
    NotAComponent(&'static str),
}

impl Component {
    /// Reads what a person wrote, in one of three ways:
    /// - JSON, if it begins with `{"`, `{}`, `["`, `[{` or `[[`;
    /// - MiniMessage (the colours, decorations, `<reset>`, `<newline>`; of a gradient its first colour), if it
    ///   has a tag in `<>`;
    /// - otherwise plain, with `&` or `§` codes: `&c`, `&l`, `&r`, `&#rrggbb`.
    ///
    /// In the last two, `\n` is a new line, and `\<`, `\&`, `\\` are the signs themselves. Words in braces, such
    /// as `{server}`, stay as they are until [`Self::fill`].
    pub fn parse(written: &str) -> Result<Self, TextError> {
        template::parse(written)
    }

    /// Text shown as it is.
    pub fn literal(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Reads a JSON component.
    pub fn from_json(json: &Value) -> Result<Self, TextError> {
        json::read(json)
    }

    /// The words in braces, in order.
    pub fn tokens(&self) -> Vec<&str> {
        let own = pieces(&self.text).filter_map(|piece| match piece {
            Piece::Token(name, _) => Some(name),
            Piece::Plain(_) => None,
        });
        own.chain(self.extra.iter().flat_map(Self::tokens)).collect()
    }

    /// Replaces words in braces by their values; those without one stay. A value is shown as text, whatever is
    /// in it: it cannot bring codes, tags or further words in braces.
    #[must_use]
    pub fn fill(&self, value: &dyn Fn(&str) -> Option<String>) -> Self {
        let text = pieces(&self.text).map(|piece| match piece {
            Piece::Plain(text) => text.to_owned(),
            Piece::Token(name, written) => {
                value(name).map_or_else(|| written.to_owned(), |value| harmless(&value))
            }
        });
        Self {
            text: text.collect(),
            style: self.style,
            extra: self.extra.iter().map(|part| part.fill(value)).collect(),
            other: self.other.clone(),
        }
    }

    /// The same with only the sixteen named colours, for clients before 1.16.
    #[must_use]
    pub fn without_rgb(&self) -> Self {
        let colour = self.style.colour.map(|colour| Colour::Named(colour.nearest()));
        Self {
            text: self.text.clone(),
            style: Style { colour, ..self.style },
            extra: self.extra.iter().map(Self::without_rgb).collect(),
            other: self.other.clone(),
        }
    }

    /// A JSON component, always an object.
    pub fn to_json(&self) -> Value {
        json::write(self)
    }

    /// Network NBT, as in every state but the login since 1.20.3.
    pub fn to_nbt(&self) -> Vec<u8> {
        if self.style == Style::default() && self.extra.is_empty() && self.other.is_empty() {
            return nbt::network(&Value::String(self.text.clone()));
        }
        nbt::network(&self.to_json())
    }

    /// Text with `§` codes, colours downgraded to the nearest of the sixteen.
    pub fn to_legacy(&self) -> String {
        let mut out = String::new();
        let mut last = Style::default();
        self.visit(Style::default(), &mut |text, style| {
            if style != last && !text.is_empty() {
                match style.colour {
                    Some(colour) => out.extend(['§', colour.nearest().code]),
                    None if last != Style::default() => out.push_str("§r"),
                    None => {}
                }
                for (_, code) in style.decorations().filter(|(on, _)| *on == Some(true)) {
                    out.extend(['§', code]);
                }
                last = style;
            }
            out.push_str(text);
        });
        out
    }

    /// The text alone.
    pub fn to_plain(&self) -> String {
        let mut out = String::new();
        self.visit(Style::default(), &mut |text, _| out.push_str(text));
        out
    }

    fn visit(&self, around: Style, see: &mut dyn FnMut(&str, Style)) {
        let style = self.style.within(around);
        if self.text.is_empty() && !self.other.is_empty() {
            see(&json::plain_of_keys(&self.other), style);
        } else {
            see(&self.text, style);
        }
        for part in &self.extra {
            part.visit(style, see);
        }
    }
}

impl Style {
    /// This style where the one around it applies as well. Decorations that are off say nothing any more.
    fn within(self, around: Self) -> Self {
        let decoration = |own: Option<bool>, outer: Option<bool>| own.or(outer).filter(|on| *on);
        Self {
            colour: self.colour.or(around.colour),
            bold: decoration(self.bold, around.bold),
            italic: decoration(self.italic, around.italic),
            underlined: decoration(self.underlined, around.underlined),
            strikethrough: decoration(self.strikethrough, around.strikethrough),
            obfuscated: decoration(self.obfuscated, around.obfuscated),
        }
    }

    /// Each decoration with its `§` code.
    fn decorations(self) -> impl Iterator<Item = (Option<bool>, char)> {
        [
            (self.bold, 'l'),
            (self.italic, 'o'),
            (self.underlined, 'n'),
            (self.strikethrough, 'm'),
            (self.obfuscated, 'k'),
        ]
        .into_iter()
    }
}

impl Colour {
    /// The named colour that looks most like it.
    pub fn nearest(self) -> Named {
        match self {
            Self::Named(named) => named,
            Self::Rgb(rgb) => NAMED.into_iter().min_by_key(|named| distance(named.rgb, rgb)).unwrap_or(WHITE),
        }
    }

    /// A name, or `#rrggbb`.
    fn parse(text: &str) -> Result<Self, TextError> {
        if let Some(hex) = text.strip_prefix('#')
            && let Some(rgb) = rgb(hex)
        {
            return Ok(Self::Rgb(rgb));
        }
        let american = text.replace("grey", "gray");
        let named = NAMED.into_iter().find(|named| named.name == american);
        named.map(Self::Named).ok_or_else(|| TextError::UnknownColour {
            colour: text.to_owned(),
            nearest: nearest(text, NAMED.iter().map(|named| named.name)),
        })
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(named) => f.write_str(named.name),
            Self::Rgb([red, green, blue]) => write!(f, "#{red:02x}{green:02x}{blue:02x}"),
        }
    }
}

const fn named(name: &'static str, code: char, rgb: [u8; 3]) -> Named {
    Named { name, code, rgb }
}

const WHITE: Named = named("white", 'f', [255, 255, 255]);
const NAMED: [Named; 16] = [
    named("black", '0', [0, 0, 0]),
    named("dark_blue", '1', [0, 0, 170]),
    named("dark_green", '2', [0, 170, 0]),
    named("dark_aqua", '3', [0, 170, 170]),
    named("dark_red", '4', [170, 0, 0]),
    named("dark_purple", '5', [170, 0, 170]),
    named("gold", '6', [255, 170, 0]),
    named("gray", '7', [170, 170, 170]),
    named("dark_gray", '8', [85, 85, 85]),
    named("blue", '9', [85, 85, 255]),
    named("green", 'a', [85, 255, 85]),
    named("aqua", 'b', [85, 255, 255]),
    named("red", 'c', [255, 85, 85]),
    named("light_purple", 'd', [255, 85, 255]),
    named("yellow", 'e', [255, 255, 85]),
    WHITE,
];

fn distance(a: [u8; 3], b: [u8; 3]) -> u32 {
    a.into_iter().zip(b).map(|(a, b)| u32::from(a.abs_diff(b)).pow(2)).sum()
}

fn rgb(hex: &str) -> Option<[u8; 3]> {
    if hex.len() != 6 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let [_, red, green, blue] = u32::from_str_radix(hex, 16).ok()?.to_be_bytes();
    Some([red, green, blue])
}

/// Text without `§` codes, as old servers put them into any text.
pub(crate) fn without_codes(text: &str) -> String {
    let mut parts = text.split('§');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut plain, part| {
        let mut rest = part.chars();
        rest.next();
        plain.push_str(rest.as_str());
        plain
    })
}

/// A value fit to stand in a text: no codes, and nothing that is not printed.
fn harmless(value: &str) -> String {
    value.chars().filter(|c| *c != '§' && !c.is_control()).collect()
}

enum Piece<'a> {
    Plain(&'a str),
    /// A word in braces: the word, and as written.
    Token(&'a str, &'a str),
}

/// Splits a text at its words in braces (lower-case letters and `_`).
fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    text.split_inclusive('}').flat_map(|part| {
        let token = part.rfind('{').and_then(|at| part.split_at_checked(at)).and_then(|(before, written)| {
            let name = written.strip_prefix('{')?.strip_suffix('}')?;
            let word = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            word.then_some((before, name, written))
        });
        match token {
            Some((before, name, written)) => [Some(Piece::Plain(before)), Some(Piece::Token(name, written))],
            None => [Some(Piece::Plain(part)), None],
        }
        .into_iter()
        .flatten()
    })
}

/// The known word a mistyped one was probably meant to be.
fn nearest(word: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    known
        .map(|known| (strsim::damerau_levenshtein(word, known), known))
        .filter(|(distance, known)| *distance <= 2 && *distance < known.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!(" (did you mean '{nearest}'?)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_cannot_format() {
        let text = Component::parse("<red>{server}</red> in {eta}, {unknown} {Not A Token} {").unwrap();
        assert_eq!(text.tokens(), ["server", "eta", "unknown"]);
        let filled = text.fill(&|name| match name {
            "server" => Some("§a<bold>&l{eta}\u{1b}\n".to_owned()),
            "eta" => Some("40 s".to_owned()),
            _ => None,
        });
        assert_eq!(filled.to_plain(), "a<bold>&l{eta} in 40 s, {unknown} {Not A Token} {");
        assert_eq!(filled.to_legacy(), "§ca<bold>&l{eta}§r in 40 s, {unknown} {Not A Token} {");
    }

    #[test]
    fn legacy_text() {
        for (written, legacy) in [
            ("plain", "plain"),
            ("<red>a<bold>b</bold>c</red>d", "§ca§c§lb§cc§rd"),
            ("<#ff5050>a<#000001>b", "§ca§0b"),
            ("<bold>a<!bold>b", "§la§rb"),
        ] {
            assert_eq!(Component::parse(written).unwrap().to_legacy(), legacy, "{written}");
        }
    }

    #[test]
    fn nbt() {
        assert_eq!(Component::literal("bye").to_nbt(), b"\x08\0\x03bye");
        let bold =
            Component { style: Style { bold: Some(true), ..Style::default() }, ..Component::literal("hi") };
        assert_eq!(bold.to_nbt(), b"\x0a\x08\0\x04text\0\x02hi\x01\0\x04bold\x01\0");
    }

    #[test]
    fn colours_downgrade() {
        let text = Component::parse("<#fefefe>a").unwrap();
        assert_eq!(text.to_json(), serde_json::json!({"text": "a", "color": "#fefefe"}));
        assert_eq!(text.without_rgb().to_json(), serde_json::json!({"text": "a", "color": "white"}));
    }

    #[test]
    fn codes_are_cut() {
        for (text, plain) in [("§aHi§r!", "Hi!"), ("no", "no"), ("x§", "x"), ("§§a§🦀b", "b")] {
            assert_eq!(without_codes(text), plain, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_can_be_written(written in "([<>/\\\\&§{}\\[\\]\"#!:a-z0-9 ]|<red>|</red>|<b>|&c|\\PC){0,30}") {
            if let Ok(text) = Component::parse(&written) {
                let json = text.to_json();
                let again = Component::from_json(&json).unwrap();
                prop_assert_eq!(again.to_json(), json.clone());
                prop_assert_eq!(again.to_legacy(), text.to_legacy());
                text.to_nbt();
                plain_of(&json);
            }
        }
    }
}
