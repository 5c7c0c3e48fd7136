//! Several notes in one message of a limited length.

use super::{Note, Tone};

/// A message made of the first notes of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    pub title: String,
    pub body: String,
    pub tone: Tone,
    /// When the first of them was.
    pub at: i64,
    /// How many notes are in it; at least one, if there is any.
    pub taken: usize,
}

/// What a messenger allows.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Of the title, if there is one; without one it stands above the text.
    pub title: Option<usize>,
    pub body: usize,
    /// How long a character is, as this messenger counts.
    pub length: fn(char) -> usize,
    /// What a server's own lines stand between.
    pub fence: &'static str,
}

/// As many of `notes` as fit together, and at least the first, cut if it must be.
pub fn pack(notes: &[Note], limits: Limits) -> Packed {
    let length = |text: &str| text.chars().map(limits.length).sum::<usize>();
    let alone = notes.len() == 1 && limits.title.is_some();
    let mut packed = Packed { title: String::new(), body: String::new(), tone: Tone::Good, at: 0, taken: 0 };
    for note in notes {
        let Note::Message { tone, title, text, at, .. } = note else { break };
        let with_title = if alone || title.is_empty() { text.clone() } else { format!("{title}\n{text}") };
        let part = format!("{with_title}{}", quoted(note, limits));
        let gap = match (packed.taken, title.is_empty()) {
            (0, _) => "",
            (_, true) => "\n",
            (_, false) => "\n\n",
        };
        let fits = length(&packed.body) + length(gap) + length(&part) <= limits.body;
        if packed.taken > 0 && !fits {
            break;
        }
        packed.body.push_str(gap);
        // The last lines go first: what has happened must not be lost for them.
        packed.body.push_str(if fits { &part } else { &with_title });
        packed.tone = packed.tone.max(*tone);
        if packed.taken == 0 {
            packed.title.clone_from(title);
            packed.at = at.as_second();
        }
        packed.taken += 1;
    }
    if packed.taken > 1 {
        packed.title = format!("{} messages", packed.taken);
    }
    packed.title = cut(&clean(&packed.title), limits.title.unwrap_or_default(), limits.length);
    packed.body = cut(&clean(&packed.body), limits.body, limits.length);
    packed
}

fn quoted(note: &Note, limits: Limits) -> String {
    let Note::Message { lines, .. } = note else { return String::new() };
    if lines.is_empty() {
        return String::new();
    }
    // A fence in the text would end it.
    let text = lines.join("\n").replace("```", "'''");
    format!("\n{fence}\n{text}\n{fence}", fence = limits.fence).trim_end().to_owned()
}

/// Ends with `…` if something is missing.
pub fn cut(text: &str, limit: usize, length: fn(char) -> usize) -> String {
    if text.chars().map(length).sum::<usize>() <= limit {
        return text.to_owned();
    }
    let room = limit.saturating_sub(length('…'));
    let mut used = 0;
    let fits = |c: &char| {
        used += length(*c);
        used <= room
    };
    let mut short: String = text.chars().take_while(fits).collect();
    short.push('…');
    short
}

/// Without the colours of terminals, and other characters that are not for reading.
fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => drop(rest.find(char::is_ascii_alphabetic)),
            '\n' => clean.push(c),
            '\t' => clean.push(' '),
            c if c.is_control() => {}
            c => clean.push(c),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn note(title: &str, text: &str, lines: &[&str]) -> Note {
        Note::Message {
            tone: Tone::Bad,
            title: title.into(),
            text: text.into(),
            lines: lines.iter().map(|&line| line.to_owned()).collect(),
            at: Timestamp::UNIX_EPOCH,
            details: Value::Null,
        }
    }

    fn limits(title: Option<usize>, body: usize) -> Limits {
        Limits { title, body, length: |_| 1, fence: "```" }
    }

    #[test]
    fn what_waits_together_is_one_message() {
        let notes =
            [note("a crashed", "exit 1", &["boom"]), note("b crashed", "exit 2", &[]), note("", "log", &[])];
        let packed = pack(&notes, limits(Some(20), 100));
        assert_eq!((packed.title.as_str(), packed.taken), ("3 messages", 3));
        assert_eq!(packed.body, "a crashed\nexit 1\n```\nboom\n```\n\nb crashed\nexit 2\nlog");
        let packed = pack(&notes, limits(Some(20), 40));
        assert_eq!((packed.title.as_str(), packed.taken), ("a crashed", 1));
        let packed = pack(&notes[..1], limits(Some(20), 100));
        assert_eq!((packed.title.as_str(), packed.body.as_str()), ("a crashed", "exit 1\n```\nboom\n```"));
    }

    #[test]
    fn the_last_lines_give_way_to_what_has_happened() {
        let packed = pack(&[note("a", "exit 1", &["a long line of its log"])], limits(None, 20));
        assert_eq!(packed.body, "a\nexit 1");
        let packed =
            pack(&[note("a", "\u{1b}[31mred\u{1b}[0m\u{7}, and far too long", &[])], limits(None, 9));
        assert_eq!(packed.body, "a\nred, a…");
    }

    proptest! {
        #[test]
        fn no_message_is_longer_than_its_limit(
            notes in prop::collection::vec(("\\PC{0,30}", "\\PC{0,60}", "[`\\PC]{0,20}"), 1..6),
            body in 4..80_usize,
            titled in any::<bool>(),
        ) {
            let notes: Vec<Note> = notes.iter().map(|(title, text, line)| note(title, text, &[line])).collect();
            let lengths: [fn(char) -> usize; 3] = [char::len_utf8, char::len_utf16, |_| 1];
            for length in lengths {
                let limits = Limits { title: titled.then_some(9), body, length, fence: "```" };
                let packed = pack(&notes, limits);
                let long = |text: &str| text.chars().map(length).sum::<usize>();
                prop_assert!(long(&packed.body) <= body && long(&packed.title) <= 9);
                prop_assert!((1..=notes.len()).contains(&packed.taken));
            }
        }
    }
}
