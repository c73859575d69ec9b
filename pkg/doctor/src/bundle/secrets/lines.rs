//! Boundaries of lines, and blocks of indented lines.

/// The maximum number of lines of a value whose end is ambiguous.
const LINES: usize = 64;

/// The maximum number of bytes of a line that are searched before a key. Otherwise, a line with thousands of keys would take
/// quadratic time.
const LONGEST_LINE: usize = 4 << 10;

/// Returns the start of the line, or a position at most [`LONGEST_LINE`] bytes before `at`.
pub(super) fn begin_of_line(text: &str, at: usize) -> usize {
    let from = (0..=at.saturating_sub(LONGEST_LINE)).rev().find(|from| text.is_char_boundary(*from));
    let from = from.unwrap_or_default();
    text[from..at].rfind(['\n', '\r']).map_or(from, |end| from + end + 1)
}

pub(super) fn end_of_line(text: &str, at: usize) -> usize {
    text[at..].find(['\n', '\r']).map_or(text.len(), |length| at + length)
}

/// Returns the end of a value whose end is ambiguous: at an empty line, or after [`LINES`] lines.
pub(super) fn lines_end(text: &str, at: usize) -> usize {
    let mut end = end_of_line(text, at);
    for _ in 0..LINES {
        let next = next_line(text, end);
        if next >= text.len() || text[next..end_of_line(text, next)].trim().is_empty() {
            break;
        }
        end = end_of_line(text, next);
    }
    end
}

/// Returns the start of the next line, given the end of a line.
fn next_line(text: &str, end: usize) -> usize {
    let rest = &text[end..];
    let length = if rest.starts_with("\r\n") { 2 } else { rest.chars().next().map_or(0, char::len_utf8) };
    end + length
}

/// Returns the indentation of the line of a key. For `- key:`, it is the column of the key.
pub(super) fn indentation(text: &str, at: usize) -> usize {
    text[begin_of_line(text, at)..].bytes().take_while(|byte| matches!(byte, b' ' | b'\t' | b'-')).count()
}

/// Returns the end of the following lines that are indented more than `indent`, including empty lines between them.
pub(super) fn indented(text: &str, end: usize, indent: usize) -> usize {
    lines_below(text, end, |line| line.len() - line.trim_start_matches([' ', '\t']).len() > indent)
}

/// Returns the end of a YAML list that is not indented more than its key.
pub(super) fn items(text: &str, end: usize, indent: usize) -> usize {
    lines_below(text, end, |line| {
        let begin = line.len() - line.trim_start_matches([' ', '\t']).len();
        begin > indent || begin == indent && line[begin..].starts_with('-')
    })
}

fn lines_below(text: &str, mut end: usize, is_one: impl Fn(&str) -> bool) -> usize {
    let mut at = end;
    while at < text.len() {
        let begin = next_line(text, at);
        at = end_of_line(text, begin);
        let line = &text[begin..at];
        if line.trim().is_empty() {
            if begin >= text.len() {
                break;
            }
            continue;
        }
        if !is_one(line) {
            break;
        }
        end = at;
    }
    end
}
