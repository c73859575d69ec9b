//! What lets somebody in, known by its shape, is taken out of every text of a bundle, also of one without pseudonyms.
//!
//! The first defence is that files which may hold secrets are not read at all ([`super::collect`]); this is the second, for
//! what somebody wrote where nobody would look for it.

use std::sync::LazyLock;

use regex_lite::{Captures, Regex};
use serde_json::Value;

/// What stands in place of a secret.
const TAKEN_OUT: &str = "[secret]";

/// Words of a key whose value is one.
const KEY: &str = r"passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key|client[_-]?key|credentials?|bearer|authorization|set-cookie|psk|chap|certificate-authority-data|client-certificate-data";

/// The value is what follows the first group.
static OF_A_KEY: LazyLock<Regex> = LazyLock::new(|| {
    let quoted = r#""(?:[^"\\]|\\.)*"|\\+"[^"\\]*\\+"|'[^']*'"#;
    let bare = r#"(?:(?:basic|bearer|digest|negotiate)[ \t]+)?[^\s"',;}\]\\]+"#;
    compiled(&format!(r#"(?i)([\w.-]*(?:{KEY})[\w.-]*\\*["']?[ \t]*[:=][ \t]*)({quoted}|{bare})"#))
});

static IS_KEY: LazyLock<Regex> = LazyLock::new(|| compiled(&format!("(?i){KEY}")));

/// A block from one line to another, or to the end.
static BLOCK: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"(?s)-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\z)"));

/// `scheme://user:password@host`: the user says who is asked too.
static OF_A_URL: LazyLock<Regex> = LazyLock::new(|| compiled(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/\s@]+@"));

/// Whole tokens, of kinds that are known by how they begin or are built.
static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        &[
            r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?", // JWT: service accounts, OIDC
            r"\b(?:AKIA|ASIA|LTAI|AKID)[A-Za-z0-9]{12,}", // keys of clouds
            r"\bgh[pousr]_[A-Za-z0-9]{20,}",           // GitHub
            r"\bgithub_pat_\w{20,}",
            r"\bglpat-[\w-]{16,}",                             // GitLab
            r"\bxox[abeoprs]-[\w-]{10,}",                      // Slack
            r"\bnvapi-[\w-]{16,}",                             // NVIDIA
            r"\bhvs\.[\w-]{16,}",                              // Vault
            r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b",                  // kubeadm's bootstrap tokens
            r"\$2[abxy]?\$\d\d\$[./A-Za-z0-9]{53}",            // bcrypt
            r"\$(?:1|5|6|7|y|gy)\$[^\s:$]{1,}(?:\$[^\s:$]+)+", // crypt(3)
        ]
        .join("|"),
    )
});

/// Who has a scheme before it is an answer to a challenge.
static OF_A_SCHEME: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"(?i)\b(bearer|basic|negotiate)([ \t]+)[A-Za-z0-9._~+/-]{12,}=*"));

/// What may be random bytes in base64.
static LONG: LazyLock<Regex> = LazyLock::new(|| compiled(r"[A-Za-z0-9+_-]{32,}={0,2}"));

fn compiled(pattern: &str) -> Regex {
    #[expect(clippy::expect_used, reason = "the patterns are constants, and each is used by a test")]
    Regex::new(pattern).expect("a pattern of this file")
}

/// The text without what lets somebody in. Lines of JSON, as the journals have, are taken apart.
pub(super) fn without(text: &str) -> String {
    let Some(lines) = text.lines().map(json).collect::<Option<Vec<_>>>().filter(|lines| !lines.is_empty())
    else {
        return without_shapes(text);
    };
    lines
        .into_iter()
        .map(|mut value| {
            clean(&mut value);
            format!("{value}\n")
        })
        .collect()
}

/// An object or a list.
fn json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(|value: &Value| value.is_object() || value.is_array())
}

/// Takes what lets somebody in out of a value, also out of JSON in its texts.
pub(super) fn clean(value: &mut Value) {
    match value {
        Value::String(text) => {
            *text = match json(text) {
                Some(mut inner) => {
                    clean(&mut inner);
                    inner.to_string()
                }
                None => without_shapes(text),
            }
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::Object(fields) => {
            for (key, mut field) in std::mem::take(fields) {
                match field {
                    Value::String(_) | Value::Number(_) if IS_KEY.is_match(&key) => field = TAKEN_OUT.into(),
                    _ => clean(&mut field),
                }
                fields.insert(without_shapes(&key), field);
            }
        }
        _ => {}
    }
}

fn without_shapes(text: &str) -> String {
    let text = BLOCK.replace_all(text, TAKEN_OUT);
    let text = OF_A_URL.replace_all(&text, |found: &Captures<'_>| format!("{}{TAKEN_OUT}@", &found[1]));
    let text =
        OF_A_KEY.replace_all(&text, |found: &Captures<'_>| format!("{}{}", &found[1], quoted_as(&found[2])));
    let text = OF_A_SCHEME
        .replace_all(&text, |found: &Captures<'_>| format!("{}{}{TAKEN_OUT}", &found[1], &found[2]));
    let text = TOKEN.replace_all(&text, TAKEN_OUT);
    let text = LONG.replace_all(&text, |found: &Captures<'_>| {
        if is_random(&found[0]) { TAKEN_OUT.to_owned() } else { found[0].to_owned() }
    });
    text.into_owned()
}

/// In the same quotes, so that JSON stays JSON.
fn quoted_as(value: &str) -> String {
    let quotes = |c: &char| matches!(c, '\\' | '"' | '\'');
    let opening: String = value.chars().take_while(quotes).collect();
    format!("{opening}{TAKEN_OUT}{opening}")
}

/// Digits and letters of both cases: names of things have not all of them. The numbers of containers and of hashes are
/// hexadecimal.
fn is_random(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().any(|byte| byte.is_ascii_lowercase())
        && text.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Secrets of every shape, for tests: a name, the text that is written, and what of it must not be found.
#[cfg(test)]
pub(super) const SHAPES: [(&str, &str, &str); 26] = [
    ("password", "password=hunter2-plain", "hunter2-plain"),
    ("iscsi", "rd.iscsi.password=Tr0ub4dor rd.iscsi.in.password=Tr0ub4dor2", "Tr0ub4dor"),
    ("yaml", "clientSecret: s3cr3t-of-yaml", "s3cr3t-of-yaml"),
    ("quoted yaml", "api_key: 'quoted secret of yaml'", "quoted secret of yaml"),
    ("json", r#"{"token": "json-token-1", "x": 1}"#, "json-token-1"),
    ("json in json", r#""conf":"{\"password\":\"inner-password\"}""#, "inner-password"),
    ("json in json in json", r#""c":"{\\\"psk\\\":\\\"innermost-key\\\"}""#, "innermost-key"),
    ("header", "Authorization: Bearer abc-def-ghi-jkl", "abc-def-ghi-jkl"),
    ("basic", "curl -H 'Authorization: Basic dXNlcjpwYXNz'", "dXNlcjpwYXNz"),
    ("scheme alone", "sent Bearer 0123456789abcdef0", "0123456789abcdef0"),
    ("url", "root=https://admin:letmein@boot/x", "letmein"),
    ("user of a url", "git+ssh://deploykey@host/x", "deploykey"),
    (
        "key block",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
        "MIIEpAIBAAKCAQEA",
    ),
    ("cut block", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk", "b3BlbnNzaC1rZXk"),
    ("service account", "eyJhbGciOiJSUzI1NiIs.eyJpc3MiOiJrdWJl.c2lnbmF0dXJl", "eyJpc3MiOiJrdWJl"),
    ("aws", "AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
    ("github", "ghp_0123456789abcdefABCDEF0123456789abcd", "ghp_0123456789"),
    ("gitlab", "glpat-abcdefghij0123456789", "glpat-abcdefghij"),
    ("slack", "xoxb-123456789012-abcdef", "xoxb-123456789012"),
    ("ngc", "nvapi-abcdefghijklmnop0123", "nvapi-abcdefghijkl"),
    ("vault", "hvs.CAESIabcdefghijklmnop", "hvs.CAESIabc"),
    ("kubeadm", "joined with abcdef.0123456789abcdef", "abcdef.0123456789abcdef"),
    ("bcrypt", "$2y$12$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234", "$2y$12$abcdefghij"),
    ("crypt", "root:$6$saltsalt$abcdefghijklmnop:19000", "$6$saltsalt"),
    ("wireguard", "key AbCdEf0123456789AbCdEf0123456789AbCdEf01234= x", "AbCdEf0123456789"),
    ("kubeconfig", "client-key-data: LS0tLS1CRUdJTg==", "LS0tLS1CRUdJTg"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_secret_is_left_and_what_stands_around_it_is() {
        for (name, text, secret) in SHAPES {
            let around = format!("before {text}\nafter");
            let found = without(&around);
            assert!(!found.contains(secret), "{name}: {found}");
            assert!(found.starts_with("before ") && found.contains(TAKEN_OUT), "{name}: {found}");
            assert!(name == "cut block" || found.ends_with("after"), "{name}: {found}");
        }
    }

    #[test]
    fn json_stays_json() {
        let text = r#"{"a":{"password":"x \" y","n":1},"configuration":"{\"token\":\"a\\\"bc\",\"k\":[1]}","b":"c"}"#;
        let value: serde_json::Value = serde_json::from_str(&without(text)).unwrap();
        assert_eq!(value["b"], "c");
        let inner: serde_json::Value =
            serde_json::from_str(value["configuration"].as_str().unwrap()).unwrap();
        assert_eq!(inner, serde_json::json!({"token": TAKEN_OUT, "k": [1]}));
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "options ib_core netns_mode=0",
            r#"{"netns":{"cookie":4711,"dev":4,"ino":4026532210}}"#,
            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef@net1.sriov.journal",
            "[   12.345678] mlx5_core 0000:af:00.0: firmware version: 16.35.4506",
            "kind: SpiderIPPool\nmetadata:\n  name: rail0\nspec:\n  subnet: 10.0.0.0/16",
            "a-deployment-with-a-long-name-5d4f8c7b9d-x2x4z",
            "root=UUID=6ba7b810-9dad-11d1-80b4-00c04fd430c8 ro quiet",
        ] {
            assert_eq!(without(text).trim_end(), text);
        }
    }
}
