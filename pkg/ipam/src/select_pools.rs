//! Selects the pools that an attachment can use.

use identifiers::pattern::{is_pattern, matches};

use crate::{
    IpFamily, NameList, PodLabels, PodNamespace, Pool, PoolRequest, PoolSelection, Pools, SelectError,
    SelectingPools, SkipReason, SkipReasons, SkippedPool, pool_entry::PoolEntry,
};

impl Pools {
    /// Returns the pools that a request can use, in the order in which they are tried.
    ///
    /// The candidates of both families are the first of these sets that is not empty:
    /// 1. the names in the lists of the request;
    /// 2. the pools written in the configuration itself: those with `default: true`, or else all of them;
    /// 3. every pool with `default: true`.
    ///
    /// # Errors
    /// [`SelectError`] if a list is invalid, or if a family has candidates but none of them can be used.
    pub fn select(&self, request: &PoolRequest<'_>) -> Result<PoolSelection<'_>, SelectError> {
        let mut selection = PoolSelection::default();
        for family in IpFamily::ALL {
            let candidates = self.candidates(family, request)?;
            let (mut pools, mut skipped) = (Vec::<&Pool>::new(), Vec::new());
            for entry in &candidates {
                let pool = &entry.pool;
                match reason_to_skip(entry, family, request) {
                    None => {
                        // Pools with the same priority keep the order of the list.
                        let at = pools.partition_point(|earlier| priority(earlier) >= priority(pool));
                        pools.insert(at, pool);
                    }
                    Some(reason) => skipped.push(SkippedPool { pool: pool.name.clone(), reason }),
                }
            }
            if pools.is_empty() && !candidates.is_empty() {
                let ifname = request.ifname.to_owned();
                let pools = names(candidates.into_iter().map(|entry| &entry.pool));
                let (skipped, remarks) = (SkipReasons(skipped), self.remarks().clone());
                return Err(SelectError::Filtered { family, pools, ifname, skipped, remarks });
            }
            selection.skipped.extend(skipped);
            match family {
                IpFamily::V4 => selection.ipv4 = pools,
                IpFamily::V6 => selection.ipv6 = pools,
            }
        }
        if selection.ipv4.is_empty() && selection.ipv6.is_empty() {
            return Err(SelectError::None { known: names(self.iter()), remarks: self.remarks().clone() });
        }
        Ok(selection)
    }

    fn candidates(
        &self,
        family: IpFamily,
        request: &PoolRequest<'_>,
    ) -> Result<Vec<&PoolEntry>, SelectError> {
        let listed = match family {
            IpFamily::V4 => request.ipv4,
            IpFamily::V6 => request.ipv6,
        };
        if !request.ipv4.is_empty() || !request.ipv6.is_empty() {
            return self.named(request.source.key(family), listed, family);
        }
        let inline: Vec<&PoolEntry> = self.entries().iter().filter(|entry| entry.inline).collect();
        let defaults_only = inline.is_empty() || inline.iter().any(|entry| entry.pool.default);
        let from = if inline.is_empty() { self.entries().iter().collect() } else { inline };
        let wanted =
            |entry: &&PoolEntry| entry.pool.family() == family && (entry.pool.default || !defaults_only);
        Ok(from.into_iter().filter(wanted).collect())
    }

    /// Returns the pools of a list in its order. The matches of a pattern are in the order in which they were read.
    fn named(
        &self,
        key: &'static str,
        listed: &[String],
        family: IpFamily,
    ) -> Result<Vec<&PoolEntry>, SelectError> {
        let mut found: Vec<&PoolEntry> = Vec::new();
        for (index, text) in listed.iter().enumerate() {
            if listed.iter().take(index).any(|earlier| earlier == text) {
                return Err(SelectError::Duplicate { key, name: text.clone() });
            }
            if !is_pattern(text) {
                let entry = self.entries().iter().find(|entry| entry.pool.name.as_str() == text);
                found.push(entry.ok_or_else(|| self.unknown(key, text))?);
                continue;
            }
            for entry in self.entries().iter().filter(|entry| entry.pool.family() == family) {
                let malformed = |_| SelectError::Pattern { key, pattern: text.clone() };
                if matches(text, entry.pool.name.as_str()).map_err(malformed)? {
                    found.push(entry);
                }
            }
        }
        if found.is_empty() && !listed.is_empty() {
            return Err(SelectError::NoMatch {
                key,
                patterns: NameList(listed.to_vec()),
                known: names(self.iter()),
                remarks: self.remarks().clone(),
            });
        }
        let mut once: Vec<&PoolEntry> = Vec::with_capacity(found.len());
        for entry in found {
            if !once.iter().any(|earlier| earlier.pool.name == entry.pool.name) {
                once.push(entry);
            }
        }
        Ok(once)
    }

    fn unknown(&self, key: &'static str, name: &str) -> SelectError {
        let (known, remarks) = (names(self.iter()), self.remarks().clone());
        SelectError::Unknown { key, name: name.to_owned(), known, remarks }
    }
}

fn names<'a>(pools: impl IntoIterator<Item = &'a Pool>) -> NameList {
    NameList(pools.into_iter().map(|pool| pool.name.to_string()).collect())
}

fn reason_to_skip(entry: &PoolEntry, family: IpFamily, request: &PoolRequest<'_>) -> Option<SkipReason> {
    let pool = &entry.pool;
    let affinity = &pool.affinity;
    if let Some(contested) = SkipReason::contested(entry) {
        return Some(contested);
    }
    if pool.terminating {
        return Some(SkipReason::Terminating);
    }
    if pool.disabled {
        return Some(SkipReason::Disabled);
    }
    if pool.family() != family {
        return Some(SkipReason::Family(pool.family()));
    }
    if !affinity.node_names.is_empty() {
        if !affinity.node_names.iter().any(|name| name == request.host_name) {
            return Some(SkipReason::Node(request.host_name.to_owned()));
        }
    } else if affinity.node {
        return Some(SkipReason::NodeLabels);
    }
    if !affinity.namespace_names.is_empty() {
        match request.pod_namespace {
            PodNamespace::Unknown => return Some(SkipReason::NoNamespace),
            PodNamespace::Of(namespace) if !affinity.namespace_names.iter().any(|name| name == namespace) => {
                return Some(SkipReason::Namespace(namespace.to_owned()));
            }
            PodNamespace::Of(_) | PodNamespace::Any => {}
        }
    } else if affinity.namespace {
        let selecting = |selecting: &SelectingPools| selects(&selecting.namespace_affinity, pool);
        if let Some(reason) = reason_of_labels("namespaceAffinity", request.labels, selecting) {
            return Some(reason);
        }
    }
    if affinity.pod {
        let selecting = |selecting: &SelectingPools| selects(&selecting.pod_affinity, pool);
        if let Some(reason) = reason_of_labels("podAffinity", request.labels, selecting) {
            return Some(reason);
        }
    }
    if !affinity.multus_names.is_empty() {
        let Some(network) = request.network else { return Some(SkipReason::NoNetwork) };
        if !affinity.multus_names.iter().any(|name| is_network(name, network)) {
            return Some(SkipReason::Network(network.to_owned()));
        }
    }
    None
}

/// Returns why a selector excludes a pool.
fn reason_of_labels(
    key: &'static str,
    labels: PodLabels<'_>,
    is_selected: impl FnOnce(&SelectingPools) -> bool,
) -> Option<SkipReason> {
    match labels {
        PodLabels::Any => None,
        PodLabels::Unknown => Some(SkipReason::Labels(key)),
        PodLabels::Selecting(selecting) if is_selected(selecting) => None,
        PodLabels::Selecting(_) => Some(SkipReason::NotSelected(key)),
    }
}

fn selects(names: &[String], pool: &Pool) -> bool {
    names.iter().any(|name| name == pool.name.as_str())
}

/// Whether two names can refer to the same network. The namespaces are compared only if both have one.
fn is_network(listed: &str, network: &str) -> bool {
    match (listed.split_once('/'), network.split_once('/')) {
        (Some(listed), Some(network)) => listed == network,
        (Some((_, listed)), None) => listed == network,
        (None, Some((_, network))) => listed == network,
        (None, None) => listed == network,
    }
}

/// Returns the priority of a pool: pools with more specific restrictions are tried first. The first element is the most
/// significant.
fn priority(pool: &Pool) -> [bool; 6] {
    let affinity = &pool.affinity;
    [
        affinity.pod,
        !affinity.node_names.is_empty(),
        affinity.node,
        !affinity.namespace_names.is_empty(),
        affinity.namespace,
        !affinity.multus_names.is_empty(),
    ]
}

#[cfg(test)]
mod tests;
