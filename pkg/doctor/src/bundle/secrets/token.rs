//! Removes secrets that are recognizable by their format, regardless of their key.

use std::sync::LazyLock;

use regex_lite::{Captures, Regex};

use super::{pattern::compiled, redacted::REDACTED, value};

/// A PEM block, up to its end or the end of the text.
static BLOCK: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"(?s)-{4,5} ?BEGIN [A-Z0-9 ]+-{4,5}.*?(?:-{4,5} ?END [A-Z0-9 ]+-{4,5}|\z)"));

/// `scheme://user:password@host`. A user alone is removed too, since it may be a key. The password may contain anything but
/// white space.
static OF_A_URL: LazyLock<Regex> =
    LazyLock::new(|| compiled(r#"([A-Za-z][A-Za-z0-9+.-]*://)(?:[^/\s@":]*:[^\s"]*|[^/\s@"]+)@(sha\d+:)?"#));

/// `user:password@host` without a scheme.
static OF_A_HOST: LazyLock<Regex> =
    LazyLock::new(|| compiled(r#"(^|[\s"'=,(/])[\w.+-]+:[^\s@:/"'<>]+@(sha\d+:)?"#));

/// `iscsi:user:password:user:password@host`, the syntax of dracut.
static OF_ISCSI: LazyLock<Regex> = LazyLock::new(|| compiled(r#"(\biscsi:)[^\s"]*@"#));

/// Tokens with a known prefix or structure.
static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        &[
            r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?", // JWT: service accounts, OIDC
            r"\b(?:AKIA|ASIA|LTAI|AKID)[A-Za-z0-9]{12,}", // access keys of cloud providers
            r"\bAIza[\w-]{30,}",
            r"\bgh[pousr]_[A-Za-z0-9]{20,}", // GitHub
            r"\bgithub_pat_\w{20,}",
            r"\bglpat-[\w-]{16,}",        // GitLab
            r"\bxox[abeoprs]-[\w-]{10,}", // Slack
            r"\bhooks\.slack\.com/services/\S+",
            r"\bnvapi-[\w-]{16,}",                             // NVIDIA
            r"\bhf_[A-Za-z0-9]{20,}",                          // Hugging Face
            r"\bsk-(?:proj-)?[A-Za-z0-9]{20,}",                // OpenAI and others
            r"\bdckr_pat_[\w-]{16,}",                          // Docker
            r"\bhvs\.[\w-]{16,}",                              // Vault
            r"\bAGE-SECRET-KEY-1[A-Z0-9]{20,}",                // age
            r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b",                  // kubeadm's bootstrap tokens
            r"\bLS0tLS1[A-Za-z0-9+/]{4,}={0,2}",               // base64 of `-----`, the start of a PEM block
            r"\{S?SHA\d*\}[A-Za-z0-9+/=]{8,}",                 // htpasswd, LDAP
            r"\$2[abxy]?\$\d\d\$[./A-Za-z0-9]{53}",            // bcrypt
            r"\$(?:1|5|6|7|y|gy)\$[^\s:$]{1,}(?:\$[^\s:$]+)+", // crypt(3)
        ]
        .join("|"),
    )
});

/// HTTP credentials after their scheme.
static OF_A_SCHEME: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"(?i)\b(bearer|basic|negotiate)([ \t]+)[A-Za-z0-9._~+/-]{12,}=*"));

/// A run of characters that may be base64 of random bytes or of a text.
static BASE64: LazyLock<Regex> = LazyLock::new(|| compiled(r"[A-Za-z0-9+/_-]{12,}={0,2}"));

/// `user:password`, the contents of HTTP basic credentials.
static LOGIN: LazyLock<Regex> = LazyLock::new(|| compiled(r"^[\w.@+-]+:[^\s:/]{3,}$"));

/// The minimum number of characters that is needed to recognize random text.
const LONG: usize = 32;

/// Returns the text without PEM blocks: keys and certificates.
pub(super) fn without_blocks(text: &str) -> String {
    BLOCK.replace_all(text, REDACTED).into_owned()
}

/// Returns the text without tokens and other text that has the format of a secret.
pub(super) fn without_tokens(text: &str) -> String {
    let text = without_users(text);
    let text = OF_A_SCHEME
        .replace_all(&text, |found: &Captures<'_>| format!("{}{}{REDACTED}", &found[1], &found[2]));
    let text = TOKEN.replace_all(&text, REDACTED);
    BASE64.replace_all(&text, |found: &Captures<'_>| without_base64(&found[0])).into_owned()
}

fn without_users(text: &str) -> String {
    let text = OF_A_URL.replace_all(text, without_user);
    let text = OF_ISCSI.replace_all(&text, without_user);
    OF_A_HOST.replace_all(&text, without_user).into_owned()
}

/// Removes the user from a URL. The text before `@sha256:` is the name and tag of an image, not a user.
fn without_user(found: &Captures<'_>) -> String {
    match found[0].rsplit_once('@') {
        Some((place, hash)) if found.get(2).is_some() => format!("{}@{hash}", without_users(place)),
        _ => format!("{}{REDACTED}@", &found[1]),
    }
}

/// Removes base64 of secrets from a run of base64 characters, which may also be a path, a name or a number.
fn without_base64(run: &str) -> String {
    if is_base64_of_a_secret(run) {
        return REDACTED.to_owned();
    }
    let part = |part| if is_base64_of_a_secret(part) { REDACTED } else { part };
    run.split('/').map(part).collect::<Vec<_>>().join("/")
}

fn is_base64_of_a_secret(run: &str) -> bool {
    let letters = run.trim_end_matches('=').len();
    let is_key = letters >= LONG && is_random(run) && (!run.contains('/') || is_mixed(run));
    is_key || decoded(run).is_some_and(|text| LOGIN.is_match(text.trim_end()) || has_secret(&text))
}

/// Returns whether decoded base64 contains a secret. It is shorter than its encoding, so the recursion ends.
fn has_secret(text: &str) -> bool {
    without_tokens(&value::without_values(text)) != text
}

/// Returns whether the text has digits and letters of both cases. Names rarely have all of them; container IDs and hashes are
/// hexadecimal.
fn is_random(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().any(|byte| byte.is_ascii_lowercase())
        && text.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Returns whether the class of the characters changes as often as in random text, and not only between words as in a path.
/// In random text, six of ten characters have a different class than their predecessor.
fn is_mixed(text: &str) -> bool {
    let kind = |byte: &u8| match byte {
        b'0'..=b'9' => Some('0'),
        b'a'..=b'z' => Some('a'),
        b'A'..=b'Z' => Some('A'),
        _ => None,
    };
    let kinds: Vec<char> = text.as_bytes().iter().filter_map(kind).collect();
    let changes = kinds.windows(2).filter(|pair| pair[0] != pair[1]).count();
    changes * 10 >= kinds.len() * 3
}

/// Decodes base64; `None` if the result is not ASCII text, as for ordinary words.
fn decoded(base64: &str) -> Option<String> {
    let (mut text, mut bits, mut held) = (String::new(), 0u32, 0);
    for letter in base64.trim_end_matches('=').bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' | b'-' => 62,
            _ => 63,
        };
        (bits, held) = (bits << 6 | u32::from(value), held + 6);
        if held < 8 {
            continue;
        }
        held -= 8;
        let byte = char::from(u8::try_from(bits >> held & 0xff).ok()?);
        if !byte.is_ascii_graphic() && !byte.is_ascii_whitespace() {
            return None;
        }
        text.push(byte);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_not_random_and_a_key_with_slashes_is() {
        for (text, is) in [
            ("/usr/lib/modules/6/kernel/drivers/infiniband/hw", false),
            ("/opt/NVIDIA/CUDA12/Libs64/targets/Linux/Release", false),
            ("AbCdEf0123456789/bCdEf0123456789AbCdEf01234=", true),
            ("/7K0mQx2/YvbW9d3nTq8Lr5sJzHc4gUfXe1oPi6aBtNw=", true),
        ] {
            assert_eq!(is_random(text) && is_mixed(text), is, "{text}");
        }
    }

    #[test]
    fn only_base64_of_a_text_is_decoded() {
        assert_eq!(decoded("dXNlcjpodW50ZXIy").as_deref(), Some("user:hunter2"));
        assert_eq!(decoded("cGFzcz14Cg==").as_deref(), Some("pass=x\n"));
        for word in ["infiniband12", "mlx5_core_dev", "Live0x000000"] {
            assert_eq!(decoded(word), None, "{word}");
        }
    }
}
