//! What servers say, on a terminal: in their colours where those are wanted, and never able to command it.

use std::io::{IsTerminal, stdout};

use serde_json::Value;
use swarmgate_minecraft::text::{Component, plain_of};

/// Whether colours are wanted on standard output (<https://no-color.org>).
pub fn is_coloured() -> bool {
    stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty())
}

/// A text component, each line with two spaces before it.
pub fn paragraph(text: &Value, coloured: bool) -> String {
    let codes = Component::from_json(text).map_or_else(|_| plain_of(text), |component| component.to_legacy());
    let painted = paint(&codes, coloured);
    painted.lines().map(|line| format!("  {line}").trim_end().to_owned() + "\n").collect()
}

/// One line of plain text, whatever a stranger has put into it.
pub fn plain(text: &str) -> String {
    paint(text, false).replace('\n', " ")
}

fn paint(text: &str, coloured: bool) -> String {
    const RESET: &str = "\x1b[0m";
    let mut painted = String::new();
    let mut signs = text.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '§' => {
                let code = signs.next().and_then(ansi).filter(|_| coloured);
                painted.extend(code.map(|code| format!("\x1b[{code}m")));
            }
            '\n' => painted.push(sign),
            _ if sign.is_control() => {}
            _ => painted.push(sign),
        }
    }
    if painted.contains('\x1b') {
        painted.push_str(RESET);
    }
    painted
}

/// The terminal's code for one of the game's. A colour ends what was bold and so on, as in the game.
fn ansi(code: char) -> Option<&'static str> {
    Some(match code.to_ascii_lowercase() {
        '0' => "0;30",
        '1' => "0;34",
        '2' => "0;32",
        '3' => "0;36",
        '4' => "0;31",
        '5' => "0;35",
        '6' => "0;33",
        '7' => "0;37",
        '8' => "0;90",
        '9' => "0;94",
        'a' => "0;92",
        'b' => "0;96",
        'c' => "0;91",
        'd' => "0;95",
        'e' => "0;93",
        'f' => "0;97",
        'l' => "1",
        'm' => "9",
        'n' => "4",
        'o' => "3",
        'r' => "0",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn colours_and_nothing_else() {
        for (text, plain, coloured) in [
            (json!("hi"), "  hi\n", "  hi\n"),
            (
                json!({"text": "a", "color": "red", "extra": [{"text": "b", "bold": true}]}),
                "  ab\n",
                "  \x1b[0;91ma\x1b[0;91m\x1b[1mb\x1b[0m\n",
            ),
            (json!("§aup\n§zdown§"), "  up\n  down\n", "  \x1b[0;92mup\n  down\x1b[0m\n"),
            (json!("\u{1b}]0;owned\u{7}x\u{9b}2J"), "  ]0;ownedx2J\n", "  ]0;ownedx2J\n"),
            (json!({"text": "odd", "color": "no-colour"}), "  odd\n", "  odd\n"),
        ] {
            assert_eq!((&*paragraph(&text, false), &*paragraph(&text, true)), (plain, coloured), "{text}");
        }
        assert_eq!(super::plain("a\nb\u{1b}[2J"), "a b[2J");
    }
}
