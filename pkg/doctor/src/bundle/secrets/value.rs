//! Removes values under the keys of secrets, in any form: a word, a quoted string, a list, the rest of a line, indented lines.

use std::sync::LazyLock;

use regex_lite::{Captures, Regex};

use super::{
    key::{self, is_secret},
    lines::{begin_of_line, end_of_line, indentation, indented, items, lines_end},
    pattern::compiled,
    redacted::REDACTED,
};

/// The maximum length of a list or map in brackets.
const LONGEST: usize = 64 << 10;

/// `key: value`, `"key": value`, `key = value`, `?key=value`, `config["key"] = value`. The preceding words qualify the
/// key: `private key: value`.
static FIELD: LazyLock<Regex> = LazyLock::new(|| {
    let words = r#"(?:(\w+) |["']([^"'\\\r\n]{1,80}[ /]))?"#;
    compiled(&format!(r#"{words}([\w./-]*\w)(\\*["'])?(?:\][ \t]*)?[ \t]*(=+>?|->|:=|:|%3[aAdD])([ \t]*)"#))
});

/// `--key value`, also as a list of strings.
static OPTION: LazyLock<Regex> = LazyLock::new(|| compiled(r#"(--?[A-Za-z][\w-]*)(?:\\*["'],?)?[ \t]+"#));

/// `name: PASSWORD` and its `value:`, as in the environment of a container.
static VARIABLE: LazyLock<Regex> = LazyLock::new(|| {
    let quote = r#"\\*["']?"#;
    compiled(&format!(
        r"(?i)\b(?:name|key){quote}\s*[:=]\s*{quote}([\w.-]+){quote}\s*,?\s*{quote}value({quote})\s*[:=][ \t]*"
    ))
});

/// `login user password …`, or a line of two words: `.netrc`, `ENV PASSWORD …`.
static LINE: LazyLock<Regex> = LazyLock::new(|| {
    compiled(r"(?im)(?:\blogin\s+\S+\s+|^[ \t]*(?:(?:env|set|setenv)[ \t]+)?)([\w.-]+)[ \t]+(\S+)[ \t\r]*$")
});

/// `curl --user=user:password`, `mysql -ppassword`.
static GLUED: LazyLock<Regex> = LazyLock::new(|| {
    compiled(r"--(?:proxy-)?user=\S+?:(\S+)|\b(?:sshpass|mysql\w*|mariadb\w*)\b[^\r\n]*?[ \t]-p(\S+)")
});

/// A Kubernetes Secret, all of whose data are secret.
static SECRET: LazyLock<Regex> = LazyLock::new(|| compiled(r#"\bkind["']?[ \t]*:[ \t]*["']?Secret\b"#));

/// `<password>…</password>`.
static ELEMENT: LazyLock<Regex> = LazyLock::new(|| compiled(r"<([\w:.-]+)(?:\s[^<>]*)?>([^<]+)</"));

/// `Cookie: name=value`. A cookie without a name is a number from the kernel.
static COOKIE: LazyLock<Regex> =
    LazyLock::new(|| compiled(r#"(?i)\bcookie\\*["']?[ \t]*:[ \t]*([^\s=]+=[^\r\n]*)"#));

/// The start of the value of a secret, and its possible forms.
struct Place<'a> {
    at: usize,
    /// The value extends to the end of the line.
    whole_line: bool,
    /// The value may be in the following, indented lines.
    below: bool,
    /// The quotes of the key.
    quote: &'a str,
}

/// The value of a secret.
struct Value<'a> {
    end: usize,
    /// The text without the quotes.
    text: &'a str,
    /// The quotes before and after the text.
    quotes: (&'a str, &'a str),
}

/// Returns the text without the values of secrets.
pub(super) fn without_values(text: &str) -> String {
    let text = replaced(text, &VARIABLE, of_variable);
    let is_object = SECRET.is_match(&text);
    let text = replaced(&text, &FIELD, |text, found| of_field(text, found, is_object));
    let text = replaced(&text, &OPTION, of_option);
    let text = rest_of(&text, &LINE, 2, |found| is_secret(&found[1]) && !key::is_harmless(&found[2]));
    let text = rest_of(&rest_of(&text, &GLUED, 1, |_| true), &GLUED, 2, |_| true);
    let text = rest_of(&text, &COOKIE, 1, |_| true);
    rest_of(&text, &ELEMENT, 2, |found| is_secret(&found[1]))
}

/// Replaces a capture group of the pattern where it is a secret.
fn rest_of(text: &str, pattern: &Regex, group: usize, is_one: impl Fn(&Captures<'_>) -> bool) -> String {
    let replace = |found: &Captures<'_>| match (found.get(0), found.get(group)) {
        (Some(whole), Some(secret)) if is_one(found) => {
            let (before, behind) = (&text[whole.start()..secret.start()], &text[secret.end()..whole.end()]);
            [before, REDACTED, behind].concat()
        }
        _ => found[0].to_owned(),
    };
    pattern.replace_all(text, replace).into_owned()
}

fn replaced<'a>(
    text: &'a str,
    pattern: &Regex,
    place: impl Fn(&'a str, &Captures<'a>) -> Option<Place<'a>>,
) -> String {
    let (mut result, mut kept, mut at) = (String::with_capacity(text.len()), 0, 0);
    while let Some(found) = pattern.captures_at(text, at) {
        at = found.get(0).map_or(text.len(), |whole| whole.end());
        let Some(place) = place(text, &found) else { continue };
        let value = Value::at(text, &place);
        if key::is_harmless(value.text) {
            continue;
        }
        let is_below = text[place.at..value.end].starts_with(['\r', '\n']);
        let (open, close) = if value.quotes.0.is_empty() { (place.quote, place.quote) } else { value.quotes };
        result.push_str(&text[kept..place.at]);
        result.extend([if is_below { " " } else { "" }, open, REDACTED, close]);
        (kept, at) = (value.end, value.end);
    }
    result.push_str(&text[kept..]);
    result
}

fn of_field<'a>(text: &'a str, found: &Captures<'a>, is_object: bool) -> Option<Place<'a>> {
    let [name, quote, separator, blanks] = [3, 4, 5, 6].map(|group| found.get(group));
    let (name, separator, at) = (name?, separator?, blanks?.end());
    let path = name.as_str();
    let last = path.rsplit('/').next().unwrap_or(path);
    let words = found.get(1).filter(|_| last.eq_ignore_ascii_case("key")).or(found.get(2));
    let words = words.filter(|words| is_secret(&format!("{}-{last}", words.as_str())));
    let begin = match words {
        _ if is_secret(last) || is_object && key::is_data(last) => name.start(),
        Some(words) => words.start(),
        None => return None,
    };
    let is_colon = separator.as_str() == ":";
    let may_be_a_message =
        is_colon && quote.is_none() && text[separator.end()..].starts_with(char::is_whitespace);
    if may_be_a_message && is_of_a_node(path) {
        return None;
    }
    let before = text[begin_of_line(text, begin)..begin].trim_start().trim_start_matches("export ");
    let is_header = last.to_ascii_lowercase().ends_with("authorization") && open_quote(text, begin).is_none();
    let whole_line = is_header || !before.contains(char::is_alphanumeric);
    Some(Place { at, whole_line, below: is_colon, quote: quote.map_or("", |quote| quote.as_str()) })
}

/// Returns whether this is a path on a node, as in the message `/etc/x/y.token: No such file`. `example.com/token: …` is an
/// annotation.
fn is_of_a_node(path: &str) -> bool {
    let top = path.split_once('/').map(|(top, _)| top);
    top.is_some_and(|top| {
        ["", "dev", "etc", "node", "opt", "proc", "run", "sys", "usr", "var"].contains(&top)
    })
}

fn of_option<'a>(text: &'a str, found: &Captures<'a>) -> Option<Place<'a>> {
    let (begin, at) = (found.get(1)?.start(), found.get(0)?.end());
    let is_word =
        !text[..begin].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'));
    let argument = &text[at..end_of_line(text, at)];
    let argument = argument[..word(argument)].trim_matches(['"', '\'', '\\', ',', ']']);
    let is_one = is_word && key::is_option_of(&found[1], argument);
    is_one.then_some(Place { at, whole_line: false, below: false, quote: "" })
}

fn of_variable<'a>(_: &'a str, found: &Captures<'a>) -> Option<Place<'a>> {
    let at = found.get(0)?.end();
    let quote = found.get(2).map_or("", |quote| quote.as_str());
    is_secret(&found[1]).then_some(Place { at, whole_line: true, below: true, quote })
}

impl<'a> Value<'a> {
    fn at(text: &'a str, place: &Place<'_>) -> Self {
        let end = end_of_line(text, place.at);
        let line = &text[place.at..end];
        if let Some(value) = Self::quoted(text, place.at).or_else(|| Self::bracketed(text, place.at)) {
            return value;
        }
        if place.below && (line.trim().is_empty() || has_lines_below(line)) {
            return Self::below(text, place.at, line);
        }
        let end = if !place.whole_line {
            // `-o "password=two words"`
            let quoted = open_quote(text, place.at).and_then(|quote| line.find(quote)).unwrap_or_default();
            place.at + word(line).max(quoted)
        } else if place.below {
            indented(text, end, indentation(text, place.at))
        } else {
            end
        };
        Self { end, text: &text[place.at..end], quotes: ("", "") }
    }

    /// A quoted value. Quotes may be escaped several times: `\"` within `"`. Without a closing quote, it is the rest of the
    /// line and the indented lines.
    fn quoted(text: &'a str, at: usize) -> Option<Self> {
        let slashes = text[at..].bytes().take_while(|byte| *byte == b'\\').count();
        let begin = at + slashes + 1;
        let quote = text.get(begin - 1..begin).filter(|quote| matches!(*quote, "\"" | "'"))?;
        let open = &text[at..begin];
        let Some(last) = closing(&text[begin..lines_end(text, begin)], quote, slashes) else {
            let end = indented(text, end_of_line(text, begin), indentation(text, at));
            return Some(Self { end, text: &text[begin..end], quotes: (open, "") });
        };
        let end = begin + last + 1;
        Some(Self {
            end: end + glued(&text[end..]),
            text: &text[begin..begin + last - slashes],
            quotes: (open, open),
        })
    }

    /// A list or a map. Without a closing bracket, it extends to an empty line.
    fn bracketed(text: &'a str, at: usize) -> Option<Self> {
        text[at..].starts_with(['[', '{']).then_some(())?;
        let end = match bracket(&text[at..]) {
            Some(length) => at + length + glued(&text[at + length..]),
            None => lines_end(text, at),
        };
        let inner = text[at..end].trim_matches(['[', ']', '{', '}', ' ']);
        let inner = if inner == "secret" { REDACTED } else { inner };
        Some(Self { end, text: inner, quotes: ("", "") })
    }

    /// A value in the following lines: the indented lines, a list, or otherwise one line.
    fn below(text: &'a str, at: usize, line: &'a str) -> Self {
        let (first, indent) = (at + line.len(), indentation(text, at));
        let value = |end| Self { end, text: &text[at..end], quotes: ("", "") };
        let end = indented(text, first, indent);
        if end > first || !line.trim().is_empty() {
            return value(end);
        }
        let next =
            text[first..].find(|c: char| !c.is_whitespace()).map_or(text.len(), |blanks| first + blanks);
        if let Some(found) = Self::quoted(text, next).or_else(|| Self::bracketed(text, next)) {
            return found;
        }
        let rest = &text[next..end_of_line(text, next)];
        if rest.starts_with("- ") {
            return value(items(text, first, indent));
        }
        value(if rest.contains([':', '=']) { at } else { next + rest.len() })
    }
}

/// Returns whether a line ends with the header of a YAML block scalar: `|`, `>-`, `!vault |`.
fn has_lines_below(line: &str) -> bool {
    let line = line.split(" #").next().unwrap_or_default().trim_end();
    let mark = line.trim_end_matches(|c: char| matches!(c, '-' | '+') || c.is_ascii_digit());
    mark.ends_with(['|', '>']) && (mark.len() == 1 || mark.starts_with(['!', '&']))
}

/// Returns the closing quote for an opening quote after this number of backslashes. Quotes with more backslashes, and doubled
/// quotes, belong to the text.
fn closing(text: &str, quote: &str, slashes: usize) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find(quote)?;
        let before = text[..at].bytes().rev().take_while(|byte| *byte == b'\\').count();
        let is_doubled = slashes == 0 && text[at + 1..].starts_with(quote);
        if before % (2 * slashes + 2) == slashes && !is_doubled {
            return Some(at);
        }
        from = at + if is_doubled && before % 2 == 0 { 2 } else { 1 };
    }
}

/// Returns the length of a bracketed text, including the brackets.
fn bracket(text: &str) -> Option<usize> {
    let (mut depth, mut is_quoted, mut is_escaped) = (0u32, false, false);
    for (at, byte) in text.bytes().enumerate().take(LONGEST) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'[' | b'{' if !is_quoted => depth += 1,
            b']' | b'}' if !is_quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// Returns the length of the text directly after a value that belongs to it: `"a"b`.
fn glued(text: &str) -> usize {
    let ends = |c: char| {
        c.is_whitespace() || matches!(c, ',' | ';' | ':' | ')' | ']' | '}' | '<' | '>' | '&' | '|' | '\\')
    };
    if text.starts_with(ends) { 0 } else { word(text) }
}

/// Returns the length of a word. HTTP credentials consist of two: a scheme and a token.
fn word(text: &str) -> usize {
    let first = end_of_word(text);
    let is_scheme = ["basic", "bearer", "digest", "negotiate", "token"]
        .iter()
        .any(|scheme| text[..first].trim_start_matches(['"', '\'']).eq_ignore_ascii_case(scheme));
    let rest = text[first..].trim_start_matches([' ', '\t']);
    if is_scheme { text.len() - rest.len() + end_of_word(rest) } else { first }
}

/// Returns the position of the first white space that is not escaped with a backslash.
fn end_of_word(text: &str) -> usize {
    let ends = |(at, c): (usize, char)| (c.is_whitespace() && !text[..at].ends_with('\\')).then_some(at);
    text.char_indices().find_map(ends).unwrap_or(text.len())
}

/// Returns the quote that is open at a position of a line.
fn open_quote(text: &str, at: usize) -> Option<char> {
    let before = &text[begin_of_line(text, at)..at];
    ['"', '\''].into_iter().find(|quote| before.matches(*quote).count() % 2 == 1)
}
