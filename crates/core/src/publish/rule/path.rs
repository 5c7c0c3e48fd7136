//! The regular expressions of paths that any connector takes: a part of Go's RE2 that no reader takes otherwise.

use std::iter::Peekable;
use std::str::Chars;

/// Why a path is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("it is longer than {LONGEST} bytes")]
    TooLong,
    #[error("it has a control character")]
    Control,
    #[error("it is nested too deeply")]
    TooDeep,
    #[error("{0:?} has nothing to repeat")]
    NothingToRepeat(char),
    #[error("what is repeated is repeated again")]
    RepeatedTwice,
    #[error("its counts are the wrong way round, or are more than {MOST_REPEATS} when multiplied")]
    BadCount,
    #[error("a {0:?} is not closed")]
    NotClosed(char),
    #[error("a ')' closes nothing")]
    ClosesNothing,
    #[error("\"(?{0}\" is a group that connectors do not know")]
    UnknownGroup(String),
    #[error("\\{0} is not known to connectors")]
    UnknownEscape(char),
    #[error("it ends in a backslash")]
    EndsInBackslash,
    #[error("a class of characters is empty, nested, or has its ends the wrong way round")]
    BadClass,
}

const LONGEST: usize = 1000;
const MOST_REPEATS: u32 = 1000;
const DEEPEST: usize = 50;

/// Whether a rule may have this path.
///
/// # Errors
/// Why not, to follow `is not a path: `.
pub fn check_path(path: &str) -> Result<(), PathError> {
    if path.len() > LONGEST {
        return Err(PathError::TooLong);
    }
    if path.contains(char::is_control) {
        return Err(PathError::Control);
    }
    let mut reader = Reader { rest: path.chars().peekable(), repeats: 1 };
    reader.branches(0)?;
    reader.rest.next().map_or(Ok(()), |_| Err(PathError::ClosesNothing))
}

/// Whether every request has such a path.
pub fn is_every(path: &str) -> bool {
    matches!(path, "" | "/" | "^" | "^/")
}

/// What every path that it takes has in it, up to where that is not plain any more.
pub fn beginning(path: &str) -> &str {
    let plain = path.strip_prefix('^').unwrap_or(path);
    let end = plain.find(|c| r"\.+*?()|[]{}^$".contains(c)).unwrap_or(plain.len());
    let (beginning, rest) = plain.split_at_checked(end).unwrap_or_default();
    let is_repeated = rest.starts_with(['?', '*', '{']);
    let last = beginning.char_indices().next_back().filter(|_| is_repeated).map_or(end, |(at, _)| at);
    let has_branches = rest.contains('|') && !rest.starts_with('(');
    if has_branches { "" } else { beginning.get(..last).unwrap_or_default() }
}

struct Reader<'p> {
    rest: Peekable<Chars<'p>>,
    /// All counts so far, multiplied: of nested ones that is what connectors limit.
    repeats: u32,
}

/// What an escape stands for.
enum Escape {
    Char(char),
    Class,
    /// A place between two characters.
    Place,
}

impl Reader<'_> {
    /// Up to the end, or to the `)` that closes the group it is in.
    fn branches(&mut self, depth: usize) -> Result<(), PathError> {
        if depth > DEEPEST {
            return Err(PathError::TooDeep);
        }
        let mut repeatable = false;
        while let Some(next) = self.rest.next_if(|next| *next != ')') {
            repeatable = match next {
                '*' | '+' | '?' | '{' if !repeatable => return Err(PathError::NothingToRepeat(next)),
                '*' | '+' | '?' => self.repeated()?,
                '{' => {
                    self.counts()?;
                    self.repeated()?
                }
                '|' | '^' | '$' => false,
                '(' => self.group(depth)?,
                '[' => self.class()?,
                '\\' => !matches!(self.escaped()?, Escape::Place),
                _ => true,
            };
        }
        Ok(())
    }

    /// After a repetition: it may be a lazy one, and is not repeated itself.
    fn repeated(&mut self) -> Result<bool, PathError> {
        self.rest.next_if_eq(&'?');
        match self.rest.peek() {
            Some('*' | '+' | '?' | '{') => Err(PathError::RepeatedTwice),
            Some(_) | None => Ok(false),
        }
    }

    /// After `{`: `3}`, `3,}` or `3,5}`.
    fn counts(&mut self) -> Result<(), PathError> {
        let text: String = self.while_in(|c| c.is_ascii_digit() || c == ',');
        if self.rest.next() != Some('}') {
            return Err(PathError::NotClosed('{'));
        }
        let (least, most) = text.split_once(',').unwrap_or((&text, &text));
        let least: u32 = least.parse().map_err(|_| PathError::BadCount)?;
        let most = if most.is_empty() { least } else { most.parse().map_err(|_| PathError::BadCount)? };
        self.repeats = self.repeats.saturating_mul(most.max(1));
        if least <= most && self.repeats <= MOST_REPEATS { Ok(()) } else { Err(PathError::BadCount) }
    }

    /// After `(`. Whether it can be repeated.
    fn group(&mut self, depth: usize) -> Result<bool, PathError> {
        if self.rest.next_if_eq(&'?').is_some() {
            let flags = self.while_in(|c| "ims".contains(c));
            match self.rest.next() {
                Some(':') => {}
                Some(')') if !flags.is_empty() => return Ok(false),
                other => return Err(PathError::UnknownGroup(flags + &String::from_iter(other))),
            }
        }
        self.branches(depth + 1)?;
        if self.rest.next() == Some(')') { Ok(true) } else { Err(PathError::NotClosed('(')) }
    }

    /// After `[`. Brackets, and what other engines know of sets, must be escaped.
    fn class(&mut self) -> Result<bool, PathError> {
        self.rest.next_if_eq(&'^');
        let (mut start, mut any) = (None, false);
        loop {
            let next = self.rest.next().ok_or(PathError::NotClosed('['))?;
            if next == ']' {
                return if any { Ok(true) } else { Err(PathError::BadClass) };
            }
            if next == '-' && any && self.rest.peek() != Some(&']') {
                let end = self.rest.next().ok_or(PathError::NotClosed('['))?;
                let end = self.member(end)?;
                let in_order = matches!((start.take(), end), (Some(start), Some(end)) if start <= end);
                if !in_order {
                    return Err(PathError::BadClass);
                }
            } else {
                start = self.member(next)?;
            }
            any = true;
        }
    }

    /// One character of a class; `None` for a class in it.
    fn member(&mut self, c: char) -> Result<Option<char>, PathError> {
        match c {
            '\\' => match self.escaped()? {
                Escape::Char(c) => Ok(Some(c)),
                Escape::Class => Ok(None),
                Escape::Place => Err(PathError::BadClass),
            },
            '[' | '&' | '~' => Err(PathError::BadClass),
            c => Ok(Some(c)),
        }
    }

    /// After a backslash.
    fn escaped(&mut self) -> Result<Escape, PathError> {
        match self.rest.next().ok_or(PathError::EndsInBackslash)? {
            'd' | 'D' | 'w' | 'W' | 's' | 'S' => Ok(Escape::Class),
            'b' | 'B' => Ok(Escape::Place),
            c if c.is_ascii_punctuation() => Ok(Escape::Char(c)),
            c => Err(PathError::UnknownEscape(c)),
        }
    }

    fn while_in(&mut self, is_in: impl Fn(char) -> bool) -> String {
        std::iter::from_fn(|| self.rest.next_if(|c| is_in(*c))).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_connectors_take() {
        let paths = r"/api ^/api(/|$) ^/v\d+/[a-z0-9_-]+\.(js|css)$ (?i)^/x (?i:x)y (?:a|b)*? a{2} a{2,} a{0,1000}
            [^/\]]+ [a\-z] [-a] [a-] a||b () \bx";
        for path in std::iter::once("").chain(paths.split_whitespace()) {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn what_they_do_not_take_or_others_read_otherwise() {
        let paths = r"/( (?!x) (?=x) (?<!x) (?<=x) (?x)a (?P<n>a) (? (?i (?) *a a** a|* (*a) a{1001} a{2,1} a{ {2} a{2}{3}
            (a{100}){100} a) [a [] [z-a] [a[b]] [a&&b] [a--b] \1 \p{L} \k \ [\b] ^* [a-\d] [a-b-c] \b*";
        for path in paths.split_whitespace() {
            assert!(check_path(path).is_err(), "{path}");
        }
        assert_eq!(check_path("a\n"), Err(PathError::Control));
        assert_eq!(check_path(&"(".repeat(60)), Err(PathError::TooDeep));
        assert_eq!(check_path(&"a".repeat(1001)), Err(PathError::TooLong));
    }

    proptest! {
        #[test]
        fn no_text_panics(path in "[a(|)*?{2,}\\[\\]^\\\\d-]{0,30}") {
            let _ = check_path(&path);
        }
    }
}
