//! Under which names the plugins are installed.

use std::{fmt, str::FromStr};

/// Before a name that is no other plugin's.
const PREFIX: &str = "silkrail-";

/// The names that the file of the CNI plugins gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameSelection {
    /// Each plugin's own, with or without `silkrail-` before it.
    All,
    /// Only those that begin with `silkrail-`: beside the Go plugins, which keep theirs.
    PrefixedOnly,
    /// These.
    List(Vec<String>),
}

/// There is no plugin of that name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("there is no plugin {name:?}; there are {}, each also with silkrail- before it", known.join(", "))]
pub struct UnknownName {
    /// The name.
    pub name: String,
    /// Those that there are.
    pub known: Vec<String>,
}

impl NameSelection {
    /// The names, of those that the plugins have.
    ///
    /// # Errors
    /// One of a list is none of them.
    pub fn of(&self, known: &[&str]) -> Result<Vec<String>, UnknownName> {
        let mut names: Vec<String> = match self {
            Self::All => known.iter().map(|name| (*name).to_owned()).collect(),
            Self::PrefixedOnly => known.iter().map(|name| format!("{PREFIX}{}", plain(name))).collect(),
            Self::List(list) => list.clone(),
        };
        let is_known = |name: &String| known.contains(&name.as_str()) || known.contains(&plain(name));
        if let Some(name) = names.iter().find(|name| !is_known(name)) {
            let known = known.iter().map(|name| (*name).to_owned()).collect();
            return Err(UnknownName { name: name.clone(), known });
        }
        names.sort();
        names.dedup();
        Ok(names)
    }
}

fn plain(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

impl FromStr for NameSelection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            "prefixed-only" => Ok(Self::PrefixedOnly),
            "" => Err("name plugins, separated by commas; or say all, or prefixed-only".into()),
            list => Ok(Self::List(list.split(',').map(|name| name.trim().to_owned()).collect())),
        }
    }
}

impl fmt::Display for NameSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::PrefixedOnly => f.write_str("prefixed-only"),
            Self::List(list) => f.write_str(&list.join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 3] = ["macvlan", "silkrail-ipam", "spiderpool"];

    fn of(text: &str) -> Result<Vec<String>, UnknownName> {
        text.parse::<NameSelection>().unwrap().of(&KNOWN)
    }

    #[test]
    fn names_are_all_or_prefixed_or_chosen() {
        assert_eq!(of("all").unwrap(), KNOWN);
        assert_eq!(
            of("prefixed-only").unwrap(),
            ["silkrail-ipam", "silkrail-macvlan", "silkrail-spiderpool"]
        );
        assert_eq!(of("silkrail-macvlan, macvlan,macvlan").unwrap(), ["macvlan", "silkrail-macvlan"]);
    }

    #[test]
    fn a_name_that_no_plugin_has_is_refused() {
        for bad in ["bridge", "macvlan,", "../macvlan", "silkrail-", "silkrail-silkrail-bridge", "ipam"] {
            assert!(of(bad).is_err(), "{bad}");
        }
        let text = of("macvlan,bridge").unwrap_err().to_string();
        assert!(text.contains("\"bridge\"") && text.contains("macvlan, silkrail-ipam"), "{text}");
        assert!("".parse::<NameSelection>().is_err());
    }
}
