//! HTTP basic authentication: user names, and bcrypt hashes of passwords.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bcrypt::HashParts;
use ring::{hmac, rand::SystemRandom};
use serde_saphyr::Spanned;

use crate::error::LineError;

/// Each step of the cost doubles the time: 16 takes seconds.
const MAX_BCRYPT_COST: u32 = 16;

/// Maximum number of cached logins. Normally there is one for each user.
const MAX_CACHED_LOGINS: usize = 256;

/// The user name and password of a request.
#[derive(Clone, PartialEq, Eq)]
pub struct BasicCredentials {
    user: String,
    password: Vec<u8>,
}

/// The users of `basic_auth_users`, with a cache of valid logins.
pub struct BasicAuthUsers {
    hashes: BTreeMap<String, String>,
    /// One hash of each cost. Every login takes as long as all of them, also that of an unknown user. Otherwise the time would
    /// reveal which names exist and which users have a cheap hash.
    of_each_cost: BTreeMap<u32, String>,
    /// A random key of this process: cached tags are useless elsewhere.
    key: hmac::Key,
    valid: Mutex<HashSet<[u8; 32]>>,
}

impl BasicCredentials {
    /// Parses an `Authorization: Basic` header.
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

impl BasicAuthUsers {
    pub(crate) fn new(written: &BTreeMap<String, Spanned<String>>) -> Result<Self, LineError> {
        let mut of_each_cost = BTreeMap::new();
        for (user, hash) in written {
            let cost = check(user, &hash.value).map_err(|why| LineError::at(hash.referenced.line(), why))?;
            of_each_cost.insert(cost, hash.value.clone());
        }
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        let key = key.map_err(|_| LineError::at(1, "failed to get random numbers from the kernel"))?;
        let hashes = written.iter().map(|(user, hash)| (user.clone(), hash.value.clone())).collect();
        Ok(Self { hashes, of_each_cost, key, valid: Mutex::default() })
    }

    /// Whether this login was valid before. Does not compute a hash.
    pub fn is_cached(&self, login: &BasicCredentials) -> bool {
        self.valid().contains(&self.tag(login))
    }

    /// Whether a login is valid. Takes about 0.1 s, depending on the costs of the hashes; the time is the same for all users,
    /// and for unknown ones.
    pub fn verify(&self, login: &BasicCredentials) -> bool {
        let is_valid = self.matches(login, |password, hash| bcrypt::verify(password, hash).unwrap_or(false));
        if is_valid {
            let mut valid = self.valid();
            if valid.len() == MAX_CACHED_LOGINS {
                valid.clear();
            }
            valid.insert(self.tag(login));
        }
        is_valid
    }

    /// Whether the password matches the hash of the user. The user's own hash replaces the one of the same cost, so that the
    /// work is always the same.
    fn matches(&self, login: &BasicCredentials, verify: impl Fn(&[u8], &str) -> bool) -> bool {
        let own = self.hashes.get(&login.user);
        let own_cost = own.and_then(|hash| cost(hash));
        let mut is_valid = false;
        for (cost, any) in &self.of_each_cost {
            let own = own.filter(|_| own_cost == Some(*cost));
            let matches = verify(&login.password, own.unwrap_or(any));
            is_valid |= matches && own.is_some();
        }
        is_valid
    }

    fn tag(&self, login: &BasicCredentials) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&login.user.len().to_be_bytes());
        context.update(login.user.as_bytes());
        context.update(&login.password);
        let mut tag = [0; 32];
        tag.copy_from_slice(context.sign().as_ref());
        tag
    }

    fn valid(&self) -> MutexGuard<'_, HashSet<[u8; 32]>> {
        self.valid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cost(hash: &str) -> Option<u32> {
    Some(hash.parse::<HashParts>().ok()?.get_cost())
}

/// Returns the cost of a user's hash. Errors never contain the hash, because logs may be readable by others.
fn check(user: &str, hash: &str) -> Result<u32, String> {
    if user.contains(':') {
        return Err(format!("user {user:?}: a name must not contain a colon"));
    }
    let cost = cost(hash).ok_or_else(|| {
        format!(
            "the password of user {user:?} is not a bcrypt hash; create one with htpasswd -nBC 10 {user:?}"
        )
    })?;
    match cost {
        cost @ 4..=MAX_BCRYPT_COST => Ok(cost),
        cost => Err(format!(
            "the hash of user {user:?} has cost {cost}; expected 4 to {MAX_BCRYPT_COST}; 10 is recommended"
        )),
    }
}

impl fmt::Debug for BasicCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BasicCredentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl fmt::Debug for BasicAuthUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.hashes.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::WebConfigFile;

    fn users(text: &str) -> Result<BasicAuthUsers, LineError> {
        let written = WebConfigFile::parse(&format!("basic_auth_users:\n{text}")).unwrap();
        BasicAuthUsers::new(written.users().unwrap())
    }

    fn hash(password: &str, cost: u32) -> String {
        bcrypt::hash_with_salt(password, cost, [7; 16]).unwrap().format_for_version(bcrypt::Version::TwoY)
    }

    fn login(user: &str, password: &str) -> BasicCredentials {
        let header = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        BasicCredentials::from_header(header.as_bytes()).unwrap()
    }

    #[test]
    fn a_login_is_valid_by_name_and_password_and_then_cached() {
        let users = users(&format!("  alice: {}\n  bob: {}\n", hash("a:b c", 4), hash("", 5))).unwrap();
        for (user, password, is_valid) in [
            ("alice", "a:b c", true),
            ("bob", "", true),
            ("alice", "", false),
            ("bob", "a:b c", false),
            ("carol", "a:b c", false),
            ("", "", false),
        ] {
            let login = login(user, password);
            assert!(!users.is_cached(&login), "{user}");
            assert_eq!(users.verify(&login), is_valid, "{user}");
            assert_eq!(users.is_cached(&login), is_valid, "{user}");
        }
    }

    #[test]
    fn the_number_of_cached_logins_is_limited() {
        let users = users(&format!("  alice: {}\n", hash("secret", 4))).unwrap();
        users.valid().extend((0..MAX_CACHED_LOGINS).map(|n| [u8::try_from(n).unwrap(); 32]));
        assert!(!users.verify(&login("alice", "wrong")));
        assert_eq!(users.valid().len(), MAX_CACHED_LOGINS, "a guess removes no login");
        assert!(users.verify(&login("alice", "secret")) && users.is_cached(&login("alice", "secret")));
        assert!(users.valid().len() <= MAX_CACHED_LOGINS);
    }

    /// Returns whether a login is valid, and the costs of the hashes that were computed for it.
    fn work(users: &BasicAuthUsers, user: &str, password: &str) -> (bool, Vec<u32>) {
        let work = RefCell::new(Vec::new());
        let is_valid = users.matches(&login(user, password), |password, hash| {
            work.borrow_mut().push(cost(hash).unwrap());
            bcrypt::verify(password, hash).unwrap()
        });
        (is_valid, work.into_inner())
    }

    /// Otherwise the time would reveal which names exist and which users have a cheap hash.
    #[test]
    fn every_login_takes_the_same_time_also_of_unknown_users() {
        let written = [("a", "x", 4), ("b", "y", 6), ("c", "z", 5), ("d", "y", 6), ("e", "x", 4)];
        let text = written.map(|(user, password, cost)| format!("  {user}: {}\n", hash(password, cost)));
        let users = users(&text.concat()).unwrap();
        for (user, password, _) in written {
            assert_eq!(work(&users, user, password), (true, vec![4, 5, 6]), "{user}");
        }
        for user in ["a", "b", "c", "d", "e", "unknown"] {
            assert_eq!(work(&users, user, "wrong"), (false, vec![4, 5, 6]), "{user}");
        }
        for password in ["x", "y", "z"] {
            assert_eq!(
                work(&users, "unknown", password),
                (false, vec![4, 5, 6]),
                "the password of another user"
            );
        }
        assert_eq!(work(&users, "a", "y"), (false, vec![4, 5, 6]), "the password of another user");
    }

    #[test]
    fn an_invalid_hash_is_refused_and_not_shown() {
        for (hash, part) in [
            ("secret".to_owned(), "not a bcrypt hash; create one with htpasswd"),
            (format!("$2y$20${}", &hash("x", 4)[7..]), "cost 20; expected 4 to 16"),
            (format!("$1$10${}", &hash("x", 4)[7..]), "not a bcrypt hash"),
        ] {
            let wrong = users(&format!("  a: {}\n  b: '{hash}'\n", super::tests::hash("y", 4))).unwrap_err();
            assert_eq!(wrong.line, 3);
            assert!(wrong.why.contains(part) && !wrong.why.contains(&hash), "{}", wrong.why);
        }
        assert!(users("  'a:b': x\n").unwrap_err().why.contains("colon"));
        let with_cost = |cost: u32| users(&format!("  a: $2y${cost:02}${}\n", &hash("x", 4)[7..]));
        assert!(with_cost(MAX_BCRYPT_COST).is_ok() && with_cost(MAX_BCRYPT_COST + 1).is_err());
    }

    #[test]
    fn only_complete_headers_are_logins() {
        for (header, is_login) in [
            ("Basic YTpi", true),
            ("bAsIc  YTpi ", true),
            ("Basic YTpi=", false),
            ("Basic YQ==", false),
            ("Bearer YTpi", false),
            ("Basic", false),
            ("", false),
        ] {
            assert_eq!(BasicCredentials::from_header(header.as_bytes()).is_some(), is_login, "{header:?}");
        }
        assert!(!format!("{:?}", login("a", "secret")).contains("secret"));
    }
}
