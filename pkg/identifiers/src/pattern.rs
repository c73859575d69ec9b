//! Wildcards in names, with the syntax of Go's `path/filepath.Match`.

use std::{iter::Peekable, str::Bytes};

/// Whether a listed name contains wildcards.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '\\'])
}

/// A malformed pattern: it ends within `[…]` or after a `\`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadPattern;

/// Whether the whole name matches: `*` any characters, `?` one character, `[a-c]` one of these, `[^a-c]` none of these,
/// `\x` the character x. The names never contain `/`, which Go treats specially.
///
/// # Errors
/// [`BadPattern`].
pub fn matches(pattern: &str, name: &str) -> Result<bool, BadPattern> {
    let atoms = parse(pattern)?;
    // The position to backtrack to if the rest does not match: the last star then matches one more character.
    let (mut atom, mut at, mut star) = (0, 0, None);
    let name = name.as_bytes();
    loop {
        match (atoms.get(atom), name.get(at)) {
            (None, None) => return Ok(true),
            (Some(PatternAtom::Star), _) => {
                star = Some((atom + 1, at));
                atom += 1;
                continue;
            }
            (Some(one), Some(byte)) if one.accepts(*byte) => {
                (atom, at) = (atom + 1, at + 1);
                continue;
            }
            _ => {}
        }
        match star {
            Some((behind, from)) if from < name.len() => {
                star = Some((behind, from + 1));
                (atom, at) = (behind, from + 1);
            }
            _ => return Ok(false),
        }
    }
}

#[derive(Debug)]
enum PatternAtom {
    Star,
    Any,
    Byte(u8),
    Class { negated: bool, spans: Vec<(u8, u8)> },
}

impl PatternAtom {
    fn accepts(&self, byte: u8) -> bool {
        match self {
            Self::Star => false,
            Self::Any => true,
            Self::Byte(wanted) => *wanted == byte,
            Self::Class { negated, spans } => {
                spans.iter().any(|(low, high)| (*low..=*high).contains(&byte)) != *negated
            }
        }
    }
}

fn parse(pattern: &str) -> Result<Vec<PatternAtom>, BadPattern> {
    let mut bytes = pattern.bytes().peekable();
    let mut atoms = Vec::new();
    while let Some(byte) = bytes.next() {
        atoms.push(match byte {
            b'*' => PatternAtom::Star,
            b'?' => PatternAtom::Any,
            b'\\' => PatternAtom::Byte(bytes.next().ok_or(BadPattern)?),
            b'[' => class(&mut bytes)?,
            plain => PatternAtom::Byte(plain),
        });
    }
    Ok(atoms)
}

fn class(bytes: &mut Peekable<Bytes<'_>>) -> Result<PatternAtom, BadPattern> {
    let negated = bytes.next_if_eq(&b'^').is_some();
    let mut spans = Vec::new();
    loop {
        if !spans.is_empty() && bytes.next_if_eq(&b']').is_some() {
            return Ok(PatternAtom::Class { negated, spans });
        }
        let low = class_byte(bytes)?;
        let high = if bytes.next_if_eq(&b'-').is_some() { class_byte(bytes)? } else { low };
        spans.push((low, high));
    }
}

/// Parses one end of a span; a literal `-` or `]` must be escaped with a `\`.
fn class_byte(bytes: &mut Peekable<Bytes<'_>>) -> Result<u8, BadPattern> {
    match bytes.next() {
        None | Some(b'-' | b']') => Err(BadPattern),
        Some(b'\\') => bytes.next().ok_or(BadPattern),
        Some(byte) => Ok(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_in_go() {
        for (pattern, name) in [
            ("rail*", "rail0"),
            ("*", ""),
            ("rail*", "rail"),
            (r"r\*", "r*"),
            ("r*l?-*", "rail0-v4"),
            ("*a*b", "aab-ab"),
            ("rail[0-3]", "rail3"),
            ("rail[^0-3]", "rail4"),
            ("rail[0a-c]", "railb"),
            (r"r\ail[\-x]", "rail-"),
        ] {
            assert_eq!(matches(pattern, name), Ok(true), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("rail?", "rail"),
            ("rail", "rail0"),
            ("rail[0-3]", "rail4"),
            ("*b", "ba"),
            ("", "a"),
            ("?*x", "x"),
            ("rail*x", "rail"),
            (r"r\*", "rx"),
            ("[c-a]", "b"),
        ] {
            assert_eq!(matches(pattern, name), Ok(false), "{pattern} {name}");
        }
    }

    #[test]
    fn a_name_with_any_wildcard_is_a_pattern() {
        assert_eq!(["rail*", "rail?", "rail[01]", r"rail\*"].map(is_pattern), [true; 4]);
        assert!(!is_pattern("rail-0.1_]"));
    }

    #[test]
    fn malformed_patterns_are_refused() {
        for pattern in ["[", "a[", "[]", "[^]", "[a-", "[a-]", "[-a]", "x\\", "[\\"] {
            assert_eq!(matches(pattern, "a"), Err(BadPattern), "{pattern}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        assert_eq!(matches(&"*a".repeat(120), &"a".repeat(119)), Ok(false));
        assert_eq!(matches(&"*a".repeat(119), &"a".repeat(253)), Ok(true));
    }
}
