//! Pools of addresses in the node's configuration.

use serde::Serialize;

use crate::{Known, tree::Tree};

const DIR: &str = "/etc/silkrail/pools.d";

#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Pools {
    pub(crate) dir: &'static str,
    /// How many there are.
    pub(crate) count: usize,
    /// Files, or the directory as a whole, that cannot be understood, and why.
    pub(crate) broken: Vec<(String, String)>,
    /// Documents that are no pools.
    pub(crate) ignored: Vec<String>,
}

impl Pools {
    pub(crate) fn read(tree: &Tree) -> Self {
        let mut pools = Self { dir: DIR, ..Self::default() };
        let names = tree.names(DIR).into_option().unwrap_or_default();
        let ends = [".yaml", ".yml", ".json"];
        for name in
            names.iter().filter(|name| !name.starts_with('.') && ends.iter().any(|end| name.ends_with(end)))
        {
            let path = format!("{DIR}/{name}");
            let Known::Is(text) = tree.text(&path) else { continue };
            match ipam::Pools::from_text(&text, path.as_ref()) {
                Ok(found) => {
                    pools.count += found.len();
                    pools
                        .ignored
                        .extend(found.ignored().iter().map(|ignored| format!("{path}: {ignored:?}")));
                }
                Err(error) => pools.broken.push((path, error.to_string())),
            }
        }
        // What each file alone does not show: two pools of one name.
        if pools.broken.is_empty()
            && let Err(error) = ipam::Pools::read_dir(&tree.path(DIR))
            && !names.is_empty()
        {
            pools.broken.push((DIR.to_owned(), error.to_string()));
        }
        pools
    }
}
