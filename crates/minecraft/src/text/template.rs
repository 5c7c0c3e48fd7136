//! Text as people write it: MiniMessage tags, or `&` and `§` codes.

use std::borrow::Cow;

use super::{Colour, Component, NAMED, Style, TextError, nearest, rgb};

pub(super) fn parse(written: &str) -> Result<Component, TextError> {
    if is_json(written) {
        let json = serde_json::from_str(written).map_err(|error| TextError::BadJson(error.to_string()))?;
        return Component::from_json(&json);
    }
    if has_tag(written) { parse_tags(written) } else { Ok(parse_codes(written)) }
}

/// A word in braces, as in `{server} sleeps`, or a bracket, as in `[EU] lobby`, is not JSON yet.
fn is_json(written: &str) -> bool {
    let mut signs = written.chars().filter(|c| !c.is_whitespace());
    matches!(
        (signs.next(), signs.next()),
        (Some('{'), Some('"' | '}')) | (Some('['), Some('"' | '{' | '[' | ']'))
    )
}

fn has_tag(written: &str) -> bool {
    let mut rest = written;
    while let Some(c) = rest.chars().next() {
        if tag(rest).is_some() {
            return true;
        }
        let step = escape(rest).map_or(c.len_utf8(), |(_, size)| size);
        rest = rest.get(step..).unwrap_or_default();
    }
    false
}

/// A tag at the front: what is between `<` and `>`. `<3` and a lone `<` are text.
fn tag(rest: &str) -> Option<&str> {
    let rest = rest.strip_prefix('<')?;
    let inner = rest.get(..rest.find(['>', '<'])?)?;
    let begins = inner.starts_with(|c: char| c.is_ascii_alphabetic() || "/!#".contains(c));
    (begins && rest.get(inner.len()..)?.starts_with('>')).then_some(inner)
}

/// An escaped sign at the front, and its size as written.
fn escape(rest: &str) -> Option<(char, usize)> {
    match rest.strip_prefix('\\')?.chars().next()? {
        'n' => Some(('\n', 2)),
        sign @ ('<' | '&' | '\\') => Some((sign, 2)),
        _ => None,
    }
}

fn parse_tags(written: &str) -> Result<Component, TextError> {
    let mut text = Writer::default();
    // What is open, and the style from before it.
    let mut open: Vec<(Cow<'_, str>, Style)> = Vec::new();
    let mut rest = written;
    while let Some(c) = rest.chars().next() {
        let mut step = c.len_utf8();
        if let Some(inner) = tag(rest) {
            step = inner.len() + 2;
            match effect(inner)? {
                Effect::NewLine => text.push('\n'),
                Effect::Reset => {
                    open.clear();
                    text.style(Style::default());
                }
                Effect::Open(name, style) => {
                    open.push((name, text.style));
                    text.style(style.over(text.style));
                }
                Effect::Close(name) => {
                    let at = open.iter().rposition(|(open, _)| *open == name);
                    let closed = at.and_then(|at| open.drain(at..).next());
                    let (_, before) = closed.ok_or_else(|| TextError::NothingToClose(name.into_owned()))?;
                    text.style(before);
                }
            }
        } else if let Some((sign, size)) = escape(rest) {
            step = size;
            text.push(sign);
        } else if c == '§' {
            return Err(TextError::Mixed);
        } else {
            text.push(c);
        }
        rest = rest.get(step..).unwrap_or_default();
    }
    Ok(text.finish())
}

enum Effect<'a> {
    NewLine,
    Reset,
    Open(Cow<'a, str>, Style),
    Close(Cow<'a, str>),
}

fn effect(inner: &str) -> Result<Effect<'_>, TextError> {
    if let Some(closed) = inner.strip_prefix('/') {
        return Ok(Effect::Close(canonical(closed.split(':').next().unwrap_or(closed))));
    }
    // A tag may close itself: <newline/>.
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    let (name, arguments) = inner.split_once(':').unwrap_or((inner, ""));
    let name = canonical(name);
    let mut style = Style::default();
    match name.as_ref() {
        "newline" => return Ok(Effect::NewLine),
        "reset" => return Ok(Effect::Reset),
        "color" => style.colour = Some(Colour::parse(arguments)?),
        // Shown as their first colour, or as none.
        "gradient" | "transition" | "rainbow" => {
            style.colour = arguments.split(':').find_map(|colour| Colour::parse(colour).ok());
        }
        other => {
            let (on, decoration) = other.strip_prefix('!').map_or((true, other), |name| (false, name));
            let wanted = Some(on && arguments != "false");
            match decoration {
                "bold" => style.bold = wanted,
                "italic" => style.italic = wanted,
                "underlined" => style.underlined = wanted,
                "strikethrough" => style.strikethrough = wanted,
                "obfuscated" => style.obfuscated = wanted,
                _ => style.colour = Some(Colour::parse(other).map_err(|_| unknown(other))?),
            }
        }
    }
    Ok(Effect::Open(name, style))
}

const TAGS: [&str; 9] =
    ["bold", "italic", "underlined", "strikethrough", "obfuscated", "reset", "newline", "color", "gradient"];

fn unknown(tag: &str) -> TextError {
    let known = TAGS.into_iter().chain(NAMED.iter().map(|named| named.name));
    TextError::UnknownTag { tag: tag.to_owned(), nearest: nearest(tag, known) }
}

/// A tag's one name. Tags are written in any case.
fn canonical(name: &str) -> Cow<'_, str> {
    let (not, word) = name.strip_prefix('!').map_or(("", name), |word| ("!", word));
    let long = match word.to_ascii_lowercase().as_str() {
        "b" => "bold",
        "i" | "em" => "italic",
        "u" => "underlined",
        "st" => "strikethrough",
        "obf" => "obfuscated",
        "c" | "colour" => "color",
        "br" => "newline",
        same if same == word => return Cow::Borrowed(name),
        lower => return Cow::Owned(format!("{not}{lower}")),
    };
    Cow::Owned(format!("{not}{long}"))
}

/// `&` takes lower-case codes alone, so that "Q&A" stays; `&&` is the sign itself.
fn parse_codes(written: &str) -> Component {
    let mut text = Writer::default();
    let mut rest = written;
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        let mut step = c.len_utf8();
        if let Some((sign, size)) = escape(rest) {
            step = size;
            text.push(sign);
        } else if c == '&' && after.starts_with('&') {
            step = 2;
            text.push('&');
        } else if let Some((style, size)) = code(c, after, text.style) {
            step += size;
            text.style(style);
        } else {
            text.push(c);
        }
        rest = rest.get(step..).unwrap_or_default();
    }
    text.finish()
}

/// The style after a code, and the code's size behind its sign. A colour ends all decorations.
fn code(sign: char, after: &str, style: Style) -> Option<(Style, usize)> {
    if sign != '&' && sign != '§' {
        return None;
    }
    let colour = |colour| Style { colour: Some(colour), ..Style::default() };
    if let Some(rgb) = after.strip_prefix('#').and_then(|hex| rgb(hex.get(..6)?)) {
        return Some((colour(Colour::Rgb(rgb)), 7));
    }
    let written = after.chars().next()?;
    let code = if sign == '§' { written.to_ascii_lowercase() } else { written };
    let on = Some(true);
    let style = match code {
        'k' => Style { obfuscated: on, ..style },
        'l' => Style { bold: on, ..style },
        'm' => Style { strikethrough: on, ..style },
        'n' => Style { underlined: on, ..style },
        'o' => Style { italic: on, ..style },
        'r' => Style::default(),
        _ => colour(Colour::Named(NAMED.into_iter().find(|named| named.code == code)?)),
    };
    Some((style, 1))
}

impl Style {
    /// This style, and for what it leaves open the other.
    fn over(self, below: Self) -> Self {
        Self {
            colour: self.colour.or(below.colour),
            bold: self.bold.or(below.bold),
            italic: self.italic.or(below.italic),
            underlined: self.underlined.or(below.underlined),
            strikethrough: self.strikethrough.or(below.strikethrough),
            obfuscated: self.obfuscated.or(below.obfuscated),
        }
    }
}

/// Collects text into one part per style.
#[derive(Default)]
struct Writer {
    done: Vec<Component>,
    text: String,
    style: Style,
}

impl Writer {
    fn push(&mut self, c: char) {
        self.text.push(c);
    }

    fn style(&mut self, style: Style) {
        if style != self.style {
            self.flush();
            self.style = style;
        }
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            self.done.push(Component { style: self.style, ..Component::literal(text) });
        }
    }

    fn finish(mut self) -> Component {
        self.flush();
        match <[Component; 1]>::try_from(self.done) {
            Ok([only]) => only,
            Err(extra) => Component { extra, ..Component::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ways_to_write() {
        for (written, json) in [
            ("", json!({"text": ""})),
            ("plain <3 & simple", json!({"text": "plain <3 & simple"})),
            ("Q&A, a &&b", json!({"text": "Q&A, a &b"})),
            (r"one\ntwo \<red> \& \\ \x", json!({"text": "one\ntwo <red> & \\ \\x"})),
            ("&chi", json!({"text": "hi", "color": "red"})),
            ("§Chi", json!({"text": "hi", "color": "red"})),
            ("&#10ABcdhi", json!({"text": "hi", "color": "#10abcd"})),
            (
                "&l&chi&o!&r.",
                json!({"text": "", "extra": [
                    {"text": "hi", "color": "red"}, {"text": "!", "color": "red", "italic": true}, {"text": "."},
                ]}),
            ),
            ("&zhi §", json!({"text": "&zhi §"})),
            ("<red>hi", json!({"text": "hi", "color": "red"})),
            ("<RED>hi</Red>", json!({"text": "hi", "color": "red"})),
            ("<dark_grey>hi &c", json!({"text": "hi &c", "color": "dark_gray"})),
            ("<#10abCD>hi", json!({"text": "hi", "color": "#10abcd"})),
            ("<color:#10abcd>hi</c>", json!({"text": "hi", "color": "#10abcd"})),
            ("<gradient:#10abcd:red:0.5>hi</gradient>", json!({"text": "hi", "color": "#10abcd"})),
            ("<rainbow>hi", json!({"text": "hi"})),
            (
                "<b><i>x</b>y",
                json!({"text": "", "extra": [
                    {"text": "x", "bold": true, "italic": true}, {"text": "y"},
                ]}),
            ),
            (
                "<bold>x<!bold>y</!bold>z<reset>w",
                json!({"text": "", "extra": [
                    {"text": "x", "bold": true}, {"text": "y", "bold": false}, {"text": "z", "bold": true}, {"text": "w"},
                ]}),
            ),
            ("a<newline>b<br/>c", json!({"text": "a\nb\nc"})),
            (r"<red>\<hi\> <", json!({"text": "<hi\\> <", "color": "red"})),
            ("{server} sleeps", json!({"text": "{server} sleeps"})),
            ("[EU] lobby", json!({"text": "[EU] lobby"})),
            (r#" {"text":"hi","bold":true}"#, json!({"text": "hi", "bold": true})),
            (
                r#"["a",{"text":"b","color":"grey"}]"#,
                json!({"text": "a", "extra": [{"text": "b", "color": "gray"}]}),
            ),
        ] {
            assert_eq!(parse(written).map(|text| text.to_json()), Ok(json), "{written}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (written, why) in [
            ("<rde>hi", "there is no tag <rde> (did you mean 'red'?); write \\< for the sign itself"),
            ("use <command>", "there is no tag <command>; write \\< for the sign itself"),
            ("<#12345>hi", "there is no tag <#12345>; write \\< for the sign itself"),
            ("<color:bleu>hi", "there is no colour 'bleu' (did you mean 'blue'?)"),
            ("<red>hi</bold>", "</bold> closes nothing that is open"),
            ("<red><b>x</red>y</b>", "</bold> closes nothing that is open"),
            ("<red>§lhi", "tags in <> and codes with § do not mix: use one of them"),
            (r#"{"text":"hi","color":"rde"}"#, "there is no colour 'rde' (did you mean 'red'?)"),
            ("[]", "the JSON is no text component: a list has no parts"),
        ] {
            assert_eq!(parse(written).unwrap_err().to_string(), why, "{written}");
        }
        assert!(matches!(parse(r#"{"text":"#), Err(TextError::BadJson(_))));
        assert!(matches!(parse(&"[".repeat(100_000)), Err(TextError::BadJson(_))));
    }
}
