//! The names under which the plugins are installed.

use std::{fmt, str::FromStr};

/// The prefix of names that no other project uses.
const PREFIX: &str = "silkrail-";

/// A selection of names for the file of the CNI plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameSelection {
    /// Every name in the list of plugins, with or without the prefix `silkrail-`.
    All,
    /// Only names with the prefix `silkrail-`, next to Go plugins with the plain names.
    PrefixedOnly,
    /// Exactly these names.
    List(Vec<String>),
}

/// There is no plugin with that name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("there is no plugin {name:?}; available: {}, each also with the prefix silkrail-", known.join(", "))]
pub struct UnknownName {
    /// The unknown name.
    pub name: String,
    /// The names of all plugins.
    pub known: Vec<String>,
}

impl NameSelection {
    /// Returns the selected names, sorted and without duplicates. `known` are the names of all plugins.
    ///
    /// # Errors
    /// [`UnknownName`] if a listed name is not the name of a plugin.
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
            "" => Err("expected plugin names separated by commas, all, or prefixed-only".into()),
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
