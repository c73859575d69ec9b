//! The lines of the keys of a text, for error messages.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser};

use crate::error::InvalidYaml;

/// Maximum number of keys and items of which the lines are kept.
const MAX_LINES: usize = 100_000;

/// Returns the line, from 1, of each key and list item by its path, such as `pfs[0].vfs`. Values that are aliases of others
/// have no lines below them, and of several documents the last one counts.
///
/// # Errors
/// [`InvalidYaml::Syntax`].
pub fn lines(text: &str) -> Result<BTreeMap<String, usize>, InvalidYaml> {
    let mut lines = BTreeMap::new();
    walk(text, &mut |path, line| {
        if lines.len() < MAX_LINES {
            lines.insert(path.to_owned(), line);
        }
    })?;
    Ok(lines)
}

/// Returns the line of one key or list item, as [`lines`] does; `None` if there is none, or the text is not valid.
pub fn line_of(text: &str, path: &str) -> Option<usize> {
    let mut found = None;
    walk(text, &mut |at, line| {
        if at == path {
            found = Some(line);
        }
    })
    .ok()?;
    found
}

/// Calls `note` with the path and the line of each key and list item.
fn walk(text: &str, note: &mut dyn FnMut(&str, usize)) -> Result<(), InvalidYaml> {
    let mut parser = Parser::new_from_str(text);
    let mut walk = Walk { around: Vec::new(), note };
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| InvalidYaml::Syntax {
            line: error.marker().line(),
            info: error.info().to_owned(),
        })?;
        walk.take(event, span.start.line());
    }
    Ok(())
}

/// A list or a mapping around the current event.
enum Around {
    /// Its path, and the number of its next item.
    List(String, usize),
    /// Its path, and the path of the key whose value follows.
    Mapping(String, Option<String>),
}

struct Walk<'a> {
    around: Vec<Around>,
    note: &'a mut dyn FnMut(&str, usize),
}

impl Walk<'_> {
    fn take(&mut self, event: Event<'_>, line: usize) {
        match event {
            Event::Scalar(text, ..) => self.scalar(&text, line),
            Event::Alias(_) => drop(self.value(line)),
            Event::SequenceStart(..) => {
                let path = self.value(line);
                self.around.push(Around::List(path, 0));
            }
            Event::MappingStart(..) => {
                let path = self.value(line);
                self.around.push(Around::Mapping(path, None));
            }
            Event::SequenceEnd | Event::MappingEnd => drop(self.around.pop()),
            _ => {}
        }
    }

    fn scalar(&mut self, text: &str, line: usize) {
        if let Some(Around::Mapping(path, key @ None)) = self.around.last_mut() {
            let path = if path.is_empty() { text.to_owned() } else { format!("{path}.{text}") };
            (self.note)(&path, line);
            *key = Some(path);
        } else {
            self.value(line);
        }
    }

    /// Returns the path of a value, and notes the line of a list item.
    fn value(&mut self, line: usize) -> String {
        match self.around.last_mut() {
            None => String::new(),
            Some(Around::Mapping(path, key)) => key.take().unwrap_or_else(|| path.clone()),
            Some(Around::List(path, number)) => {
                let item = format!("{path}[{number}]");
                *number += 1;
                (self.note)(&item, line);
                item
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_items_have_lines() {
        let text =
            "a: 1\nb:\n  - c: {d: e}\n    f: [g,\n      h]\n  - [i, {j: k}]\nl: &m\n  n: 1\no: *m\np: 2\n";
        let lines = lines(text).unwrap();
        let expected = [
            ("a", 1),
            ("b", 2),
            ("b[0]", 3),
            ("b[0].c", 3),
            ("b[0].c.d", 3),
            ("b[0].f", 4),
            ("b[0].f[0]", 4),
            ("b[0].f[1]", 5),
            ("b[1]", 6),
            ("b[1][0]", 6),
            ("b[1][1]", 6),
            ("b[1][1].j", 6),
            ("l", 7),
            ("l.n", 8),
            ("o", 9),
            ("p", 10),
        ];
        assert_eq!(lines.iter().map(|(path, line)| (path.as_str(), *line)).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn json_has_lines() {
        let lines = lines("{\n\t\"a\": [\n\t\t{\"b\": 1}\n\t]\n}").unwrap();
        assert_eq!((lines["a"], lines["a[0].b"]), (2, 3));
        assert!(super::lines("a: [").is_err());
        assert_eq!(
            (line_of("a:\n- b: 1\n", "a[0].b"), line_of("a: 1", "b"), line_of("a: [", "a")),
            (Some(2), None, None)
        );
        assert_eq!(super::lines("a: 1\n---\nb: 2\na: 3\n").unwrap()["a"], 4, "of the last document");
        assert_eq!(super::lines("- a\n-\n  - b\n").unwrap()["[1][0]"], 3);
    }
}
