//! Keys of secrets.

use std::sync::LazyLock;

use regex_lite::Regex;

use super::{pattern::compiled, redacted::REDACTED};

/// Words that mark a secret anywhere in a name. Names are in kebab case here.
static ANYWHERE: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        &[
            "passw(?:or)?[dt]|passphrase|passcode|pwd|secret|token|credential|bearer|authori[sz]ation|set-cookie",
            "psk|chap|jwt|kubeconfig|docker-?cfg|docker-?config|netrc",
            "certificate-authority-data|client-certificate-data",
            "(?:api|access|account|auth|client|deploy|encrypt(?:ed|ion)?|hmac|license|master|priv(?:ate)?|recovery|rsa)-?keys?",
            "(?:preshared|server|service|session|shared|sign(?:ing|ature)?|ssh|ssl|storage|subscription|tls|wg|wireguard)-?keys?",
        ]
        .join("|"),
    )
});

/// Words that mark a secret only at the end of a name: `sig_enforce`, `auth_type`, `pass_through` are not secrets.
static AT_THE_END: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"(?:^|-)(?:pw|auths?|sig|signature)[0-9]*$|pass[0-9]*$"));

/// Words with one of these endings that do not mark a secret.
const NONE: [&str; 6] = ["bypass", "compass", "encompass", "overpass", "surpass", "underpass"];

/// Values that are not secrets, in lower case.
const HARMLESS: [&str; 14] =
    ["", "true", "false", "yes", "no", "on", "off", "y", "n", "none", "null", "nil", "~", REDACTED];

/// Returns whether this is the name of a secret.
pub(super) fn is_secret(name: &str) -> bool {
    let words = words(name);
    ANYWHERE.is_match(&words)
        || AT_THE_END.is_match(&words)
            && !NONE.iter().any(|word| words.trim_end_matches(is_digit).ends_with(word))
}

/// Returns whether the value of this key is a name, such as that of an environment variable.
pub(super) fn is_name(name: &str) -> bool {
    ["name", "key"].iter().any(|word| name.eq_ignore_ascii_case(word))
}

/// Returns whether this field of a Kubernetes Secret contains the secret data.
pub(super) fn is_data(name: &str) -> bool {
    ["data", "stringData"].contains(&name)
}

/// Returns whether this key contains the value of a named thing, such as an environment variable.
pub(super) fn is_value(name: &str) -> bool {
    ["value", "val", "default"].iter().any(|word| name.eq_ignore_ascii_case(word))
}

/// Returns whether the argument of a command-line option is a secret: `--token`, `-u user:password`, and `-p` unless the
/// argument is a port number, a path, or the next option.
pub(super) fn is_option_of(option: &str, argument: &str) -> bool {
    if !option.starts_with('-') || option.contains('=') || argument.starts_with('-') {
        return false;
    }
    match option {
        "-u" | "--user" | "--proxy-user" => argument.contains(':'),
        "-p" => {
            !argument.contains('/') && !argument.bytes().all(|byte| byte.is_ascii_digit() || byte == b':')
        }
        _ => is_secret(option),
    }
}

/// Returns whether a value under the name of a secret means that there is none.
pub(super) fn is_harmless(value: &str) -> bool {
    let value = value.trim().trim_end_matches(',');
    value.len() == 1 && value.ends_with(is_digit)
        || HARMLESS.iter().any(|word| value.eq_ignore_ascii_case(word))
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

/// Converts a name to kebab case: `client-secret` for `clientSecret`, `CLIENT_SECRET` and `client.secret`.
fn words(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut words = String::with_capacity(name.len() + 8);
    for (at, letter) in letters.iter().enumerate() {
        if !letter.is_ascii_alphanumeric() {
            words.push('-');
            continue;
        }
        let before = at.checked_sub(1).map_or('-', |before| letters[before]);
        let after = letters.get(at + 1).copied().unwrap_or('-');
        let begins = before.is_ascii_lowercase() || before.is_ascii_uppercase() && after.is_ascii_lowercase();
        if letter.is_ascii_uppercase() && begins {
            words.push('-');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_recognized_by_its_name_in_any_case_style() {
        for name in [
            "password",
            "DB_PASSWORD",
            "dbPassword2",
            "cifspass",
            "sshpass",
            "user.pass",
            "pass1",
            "clientSecret",
            "client-key-data",
            "APIKey",
            "x-api-key",
            "aws_secret_access_key",
            "tls.key",
            "PresharedKey",
            "rd.iscsi.in.password",
            "accessToken",
            "tokens",
            "auth",
            "auths",
            "basicAuth",
            "http.auth",
            "sig",
            "X-Amz-Signature",
            "credentials",
            "Proxy-Authorization",
            ".dockerconfigjson",
            "wlan-psk",
            "node.chap",
        ] {
            assert!(is_secret(name), "{name}");
        }
    }

    #[test]
    fn similar_names_are_not_secrets() {
        for name in [
            "author",
            "authority",
            "auth_type",
            "authentication_mode",
            "sig_enforce",
            "module.sig_enforce",
            "signal",
            "design",
            "passthrough",
            "iommu.passthrough",
            "pass_through",
            "disable_bypass",
            "compass",
            "passed",
            "key",
            "keys",
            "pkey",
            "privilegedQkey",
            "name",
            "cookie",
            "spoofCheck",
            "trust",
            "match",
            "subnet",
            "netns_mode",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn a_port_or_a_path_is_not_a_password() {
        for (option, argument, is_one) in [
            ("--token", "abc", true),
            ("--token", "--quiet", false),
            ("--token-file", "abc", true),
            ("--node", "abc", false),
            ("-u", "user:hunter2", true),
            ("-u", "user", false),
            ("-p", "hunter2", true),
            ("-p", "22", false),
            ("-p", "8080:80", false),
            ("-p", "/run/silkrail", false),
        ] {
            assert_eq!(is_option_of(option, argument), is_one, "{option} {argument}");
        }
    }
}
