//! The rules of a rail, as a change that can be reverted.

use std::{fmt, path::PathBuf};

use cni::{AddRequest, AddResult};
use netns::NetNsId;
use plugin_runtime::{Error, PodNetns};
use rtnl::{Link, MAIN_TABLE, SourceRule};
use serde::{Deserialize, Serialize};

use crate::{conf::RailConf, error::RoutingError};

/// The change that rules were added in a pod. The table's routes end with the link; rules do not.
///
/// No rule like one of them was there before: [`require_absent`]. So what is deleted is what was added, or an equal rule.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RailRules {
    rules: Vec<SourceRule>,
    netns: PathBuf,
    netns_id: NetNsId,
}

impl RailRules {
    pub(crate) fn of(rail: &RailConf, request: &AddRequest<'_>, pod: &PodNetns, result: &AddResult) -> Self {
        let ifname = request.attachment.ifname.as_str();
        Self {
            rules: rules(rail, rail.table_of(ifname), result),
            netns: request.netns.clone(),
            netns_id: pod.id(),
        }
    }

    pub(crate) fn apply(&self, pod: &PodNetns) -> Result<(), Error> {
        self.rules.iter().try_for_each(|rule| Ok(pod.links.add_rule(rule)?))
    }

    /// Deletes the rules. Those of a namespace that is gone are gone too.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn revert(&self) -> Result<(), Error> {
        let Some(pod) = PodNetns::find(&self.netns, self.netns_id)? else { return Ok(()) };
        for rule in self.rules.iter().rev() {
            match pod.links.delete_rule(rule) {
                Err(error) if error.is_not_found() => {}
                deleted => deleted?,
            }
        }
        Ok(())
    }

    /// Checks that the rules exist.
    ///
    /// # Errors
    /// The first one that is missing.
    pub fn verify(&self) -> Result<(), Error> {
        let Some(pod) = PodNetns::find(&self.netns, self.netns_id)? else { return Ok(()) };
        let present = pod.links.source_rules()?;
        match self.rules.iter().find(|rule| !present.contains(rule)) {
            Some(gone) => Err(RoutingError::RuleGone(*gone).into()),
            None => Ok(()),
        }
    }
}

impl fmt::Display for RailRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.rules.last().map_or(0, |rule| rule.table);
        write!(f, "{} rules for table {table} in {}", self.rules.len(), self.netns_id)
    }
}

/// Checks that no rule of the pod leads to the rail's table, and that it has none of the rules that the rail will add.
pub(crate) fn require_absent(
    rail: &RailConf,
    pod: &PodNetns,
    link: &Link,
    result: &AddResult,
) -> Result<(), Error> {
    let (table, present) = (rail.table_of(&link.name), pod.links.source_rules()?);
    if let Some(rule) = present.iter().find(|rule| rule.table == table) {
        return Err(RoutingError::TableInUse { table, by: rule.to_string() }.into());
    }
    match rules(rail, table, result).into_iter().find(|rule| present.contains(rule)) {
        Some(rule) => Err(RoutingError::RuleExists(rule).into()),
        None => Ok(()),
    }
}

/// Returns the rules of each address: to the destinations that bypass the table, and for all others.
fn rules(rail: &RailConf, table: u32, result: &AddResult) -> Vec<SourceRule> {
    let mut rules: Vec<SourceRule> = Vec::new();
    for ip in &result.ips {
        let source = ip.address.ip().into();
        let bypass = rail.bypass.iter().filter(|to| to.is_ipv4() == ip.address.is_ipv4());
        rules.extend(bypass.map(|to| SourceRule {
            source,
            to: Some(*to),
            table: MAIN_TABLE,
            priority: rail.priority - 1,
        }));
        rules.push(SourceRule { source, to: None, table, priority: rail.priority });
    }
    rules
}
