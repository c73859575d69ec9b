//! Logins: names, and bcrypt hashes of passwords.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bcrypt::HashParts;
use ring::{hmac, rand::SystemRandom};
use serde_saphyr::Spanned;

use crate::error::Wrong;

/// Each step doubles the time: 16 takes seconds.
const COSTLIEST: u32 = 16;

/// Right logins that are remembered; one for each user, but for clients of a former password.
const REMEMBERED: usize = 256;

/// What a client says who it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    user: String,
    password: Vec<u8>,
}

/// Who may ask.
pub struct Users {
    hashes: BTreeMap<String, String>,
    /// For who is not known: it takes as long as the slowest.
    slowest: String,
    /// Of this process only: what is remembered is worth nothing elsewhere.
    key: hmac::Key,
    right: Mutex<HashSet<[u8; 32]>>,
}

impl Login {
    /// The login of an `Authorization` header.
    pub fn from_header(value: &[u8]) -> Option<Self> {
        let (scheme, encoded) = value.split_at_checked(6)?;
        if !scheme.eq_ignore_ascii_case(b"basic ") {
            return None;
        }
        let plain = STANDARD.decode(encoded.trim_ascii()).ok()?;
        let colon = plain.iter().position(|byte| *byte == b':')?;
        let user = String::from_utf8(plain[..colon].to_vec()).ok()?;
        Some(Self { user, password: plain[colon + 1..].to_vec() })
    }
}

impl Users {
    pub(crate) fn new(written: &BTreeMap<String, Spanned<String>>) -> Result<Self, Wrong> {
        let mut slowest = (0, String::new());
        for (user, hash) in written {
            let cost = check(user, &hash.value).map_err(|why| Wrong::at(hash.referenced.line(), why))?;
            if cost > slowest.0 {
                slowest = (cost, hash.value.clone());
            }
        }
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        let key = key.map_err(|_| Wrong::at(1, "the kernel has no random numbers"))?;
        let hashes = written.iter().map(|(user, hash)| (user.clone(), hash.value.clone())).collect();
        Ok(Self { hashes, slowest: slowest.1, key, right: Mutex::default() })
    }

    /// Whether this login was right before. It takes no time.
    pub fn remembers(&self, login: &Login) -> bool {
        self.right().contains(&self.tag(login))
    }

    /// Whether a login is right. It takes a tenth of a second, or what the hashes ask for, also if there is no such user.
    pub fn are_right(&self, login: &Login) -> bool {
        let hash = self.hashes.get(&login.user);
        let fits = bcrypt::verify(&login.password, hash.unwrap_or(&self.slowest)).unwrap_or(false);
        let is_right = fits && hash.is_some();
        if is_right {
            let mut right = self.right();
            if right.len() == REMEMBERED {
                right.clear();
            }
            right.insert(self.tag(login));
        }
        is_right
    }

    fn tag(&self, login: &Login) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&login.user.len().to_be_bytes());
        context.update(login.user.as_bytes());
        context.update(&login.password);
        let mut tag = [0; 32];
        tag.copy_from_slice(context.sign().as_ref());
        tag
    }

    fn right(&self) -> MutexGuard<'_, HashSet<[u8; 32]>> {
        self.right.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The cost of a user's hash. A hash is never shown: others may read logs.
fn check(user: &str, hash: &str) -> Result<u32, String> {
    if user.contains(':') {
        return Err(format!("user {user:?}: a name with a colon cannot log in"));
    }
    let parts = hash.parse::<HashParts>().map_err(|_| {
        format!("the password of user {user:?} is no bcrypt hash; make one: htpasswd -nBC 10 {user:?}")
    })?;
    match parts.get_cost() {
        cost @ 4..=COSTLIEST => Ok(cost),
        cost => Err(format!("the hash of user {user:?} has cost {cost}; expected 4 to {COSTLIEST}, best 10")),
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.hashes.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Written;

    fn users(text: &str) -> Result<Users, Wrong> {
        let written = Written::parse(&format!("basic_auth_users:\n{text}")).unwrap();
        Users::new(written.users().unwrap())
    }

    fn hash(password: &str, cost: u32) -> String {
        bcrypt::hash_with_salt(password, cost, [7; 16]).unwrap().format_for_version(bcrypt::Version::TwoY)
    }

    fn login(user: &str, password: &str) -> Login {
        let header = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        Login::from_header(header.as_bytes()).unwrap()
    }

    #[test]
    fn a_login_is_right_by_name_and_password_and_remembered_then() {
        let users = users(&format!("  alice: {}\n  bob: {}\n", hash("a:b c", 4), hash("", 5))).unwrap();
        for (user, password, is_right) in [
            ("alice", "a:b c", true),
            ("bob", "", true),
            ("alice", "", false),
            ("bob", "a:b c", false),
            ("carol", "a:b c", false),
            ("", "", false),
        ] {
            let login = login(user, password);
            assert!(!users.remembers(&login), "{user}");
            assert_eq!(users.are_right(&login), is_right, "{user}");
            assert_eq!(users.remembers(&login), is_right, "{user}");
        }
    }

    /// A user who is not there is looked up by a hash of the same cost: else their names could be told by the time.
    #[test]
    fn a_user_who_is_not_known_costs_as_much_as_the_slowest() {
        let users =
            users(&format!("  a: {}\n  b: {}\n  c: {}\n", hash("x", 4), hash("y", 6), hash("z", 5))).unwrap();
        assert_eq!(users.slowest, users.hashes["b"]);
        assert!(!users.are_right(&login("nobody", "y")));
    }

    #[test]
    fn a_hash_that_is_none_is_refused_and_not_shown() {
        for (hash, part) in [
            ("secret".to_owned(), "no bcrypt hash; make one: htpasswd"),
            (format!("$2y$20${}", &hash("x", 4)[7..]), "cost 20; expected 4 to 16"),
            (format!("$1$10${}", &hash("x", 4)[7..]), "no bcrypt hash"),
        ] {
            let wrong = users(&format!("  a: {}\n  b: '{hash}'\n", super::tests::hash("y", 4))).unwrap_err();
            assert_eq!(wrong.line, 3);
            assert!(wrong.why.contains(part) && !wrong.why.contains(&hash), "{}", wrong.why);
        }
        assert!(users("  'a:b': x\n").unwrap_err().why.contains("colon"));
    }

    #[test]
    fn only_whole_headers_are_logins() {
        for (header, is_login) in [
            ("Basic YTpi", true),
            ("bAsIc  YTpi ", true),
            ("Basic YTpi=", false),
            ("Basic YQ==", false),
            ("Bearer YTpi", false),
            ("Basic", false),
            ("", false),
        ] {
            assert_eq!(Login::from_header(header.as_bytes()).is_some(), is_login, "{header:?}");
        }
        assert!(!format!("{:?}", login("a", "secret")).contains("secret"));
    }
}
