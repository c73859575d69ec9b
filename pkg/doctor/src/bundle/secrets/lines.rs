//! Where lines begin and end, and which are below another.

/// The value of a key that has none in its line may have so many lines, if nothing says where it ends.
const LINES: usize = 64;

/// No more of a line is looked at before a key: who writes a thousand keys in one must not have all looked at for each.
const LONGEST_LINE: usize = 4 << 10;

/// The begin of a line, or of the last part of one that nobody has written.
pub(super) fn begin_of_line(text: &str, at: usize) -> usize {
    let from = (0..=at.saturating_sub(LONGEST_LINE)).rev().find(|from| text.is_char_boundary(*from));
    let from = from.unwrap_or_default();
    text[from..at].rfind(['\n', '\r']).map_or(from, |end| from + end + 1)
}

pub(super) fn end_of_line(text: &str, at: usize) -> usize {
    text[at..].find(['\n', '\r']).map_or(text.len(), |length| at + length)
}

/// Where a value ends of which nobody knows: at an empty line, or after many.
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

/// Where the line behind this end begins.
fn next_line(text: &str, end: usize) -> usize {
    let rest = &text[end..];
    let length = if rest.starts_with("\r\n") { 2 } else { rest.chars().next().map_or(0, char::len_utf8) };
    end + length
}

/// How far the line of a key is indented; that of `- key:` is where the key begins.
pub(super) fn indentation(text: &str, at: usize) -> usize {
    text[begin_of_line(text, at)..].bytes().take_while(|byte| matches!(byte, b' ' | b'\t' | b'-')).count()
}

/// The end of the lines below one that are indented more than that. Empty ones between them are theirs.
pub(super) fn indented(text: &str, end: usize, indent: usize) -> usize {
    lines_below(text, end, |line| line.len() - line.trim_start_matches([' ', '\t']).len() > indent)
}

/// The end of a list that is no more indented than its key.
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
