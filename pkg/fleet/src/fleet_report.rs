//! What differs between nodes.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use serde::Serialize;

use crate::{NodeReading, NodeReport, Property};

/// What differs between nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetReport {
    /// The number of nodes that were read.
    pub nodes: usize,
    /// The properties that are not the same on all nodes that have them.
    pub differences: Vec<PropertyDifference>,
    /// The errors of the doctor, and the warnings that at most half of the nodes have; the rarest first.
    pub findings: Vec<FindingSpread>,
    /// The nodes without a record of the doctor of the last hour.
    pub not_examined: Vec<String>,
    /// The nodes that could not be read.
    pub unreachable: Vec<UnreachableNode>,
}

/// A property that is not the same on all nodes that have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PropertyDifference {
    /// The property.
    #[serde(flatten)]
    pub property: Property,
    /// The value that most nodes have; of several that are as frequent, the first in the alphabet.
    pub majority: String,
    /// The number of nodes with it.
    pub count: usize,
    /// The other values, the most frequent first.
    pub others: Vec<DifferentValue>,
    /// The nodes that do not have the property, such as a model of cards.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// A value that differs from that of most nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DifferentValue {
    /// The value.
    pub value: String,
    /// The nodes with it.
    pub nodes: Vec<String>,
}

/// A kind of finding, and the nodes that have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FindingSpread {
    /// The kind.
    pub id: String,
    /// The highest severity.
    pub severity: String,
    /// The nodes, with the objects.
    pub nodes: BTreeMap<String, Vec<String>>,
}

/// A node that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnreachableNode {
    /// Its address.
    pub address: String,
    /// Why.
    pub reason: String,
}

impl FleetReport {
    /// Compares nodes.
    pub fn of(readings: &[NodeReading]) -> Self {
        let unreachable = readings.iter().filter_map(|reading| {
            let reason = reading.result.as_ref().err()?.clone();
            Some(UnreachableNode { address: reading.address.to_string(), reason })
        });
        let reports: Vec<&NodeReport> =
            readings.iter().filter_map(|reading| reading.result.as_ref().ok()).collect();
        let properties: BTreeSet<&Property> =
            reports.iter().flat_map(|report| report.properties.keys()).collect();
        let not_examined = reports.iter().filter(|report| report.findings.is_none());
        Self {
            nodes: reports.len(),
            differences: properties
                .into_iter()
                .filter_map(|property| difference(&reports, property))
                .collect(),
            findings: findings(&reports),
            not_examined: not_examined.map(|report| report.node.clone()).collect(),
            unreachable: unreachable.collect(),
        }
    }

    /// Whether all nodes were read and examined, are equal, and have no finding that is told.
    pub fn is_uniform(&self) -> bool {
        self.differences.is_empty()
            && self.findings.is_empty()
            && self.not_examined.is_empty()
            && self.unreachable.is_empty()
    }
}

fn difference(reports: &[&NodeReport], property: &Property) -> Option<PropertyDifference> {
    let mut values: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut missing = Vec::new();
    for report in reports {
        match report.properties.get(property) {
            Some(value) => values.entry(value).or_default().push(report.node.clone()),
            None => missing.push(report.node.clone()),
        }
    }
    // What an older daemon, or a node without a record, does not tell is unknown. That a model of cards or GPUs is missing where
    // others have it shows in their number.
    if values.len() < 2 {
        return None;
    }
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_by_key(|(_, nodes)| Reverse(nodes.len()));
    let mut values = values.into_iter();
    let (majority, nodes) = values.next()?;
    let others = values.map(|(value, nodes)| DifferentValue { value: value.to_owned(), nodes });
    Some(PropertyDifference {
        property: property.clone(),
        majority: majority.to_owned(),
        count: nodes.len(),
        others: others.collect(),
        missing,
    })
}

fn findings(reports: &[&NodeReport]) -> Vec<FindingSpread> {
    let mut by_id: BTreeMap<&str, FindingSpread> = BTreeMap::new();
    let examined = reports.iter().filter(|report| report.findings.is_some()).count();
    for report in reports {
        let serious = report.findings.iter().flatten().filter(|finding| finding.severity != "info");
        for finding in serious {
            let spread = by_id.entry(&finding.id).or_insert_with(|| FindingSpread {
                id: finding.id.clone(),
                severity: finding.severity.clone(),
                nodes: BTreeMap::new(),
            });
            if finding.severity == "error" {
                finding.severity.clone_into(&mut spread.severity);
            }
            spread.nodes.entry(report.node.clone()).or_default().push(finding.object.clone());
        }
    }
    // A warning of most nodes is their normal state.
    let is_told = |spread: &FindingSpread| spread.severity == "error" || spread.nodes.len() * 2 <= examined;
    let mut told: Vec<_> = by_id.into_values().filter(is_told).collect();
    told.sort_by_key(|spread| spread.nodes.len());
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeFinding;

    fn node(name: &str, kernel: Option<&str>, findings: &[(&str, &str)]) -> NodeReading {
        let property = Property { of: String::new(), name: "kernel" };
        let finding = |(id, severity): &(&str, &str)| NodeFinding {
            id: (*id).to_owned(),
            severity: (*severity).to_owned(),
            object: "eth0".to_owned(),
        };
        let report = NodeReport {
            node: name.to_owned(),
            properties: kernel.map(|kernel| (property, kernel.to_owned())).into_iter().collect(),
            findings: Some(findings.iter().map(finding).collect()),
        };
        NodeReading { address: name.parse().unwrap(), result: Ok(report) }
    }

    #[test]
    fn the_majority_and_the_others_are_told() {
        let report = FleetReport::of(&[
            node("a", Some("6.12"), &[]),
            node("b", Some("6.1"), &[]),
            node("c", Some("6.12"), &[]),
            node("d", None, &[]),
        ]);
        let [difference] = &report.differences[..] else { panic!("{report:?}") };
        assert_eq!((difference.majority.as_str(), difference.count), ("6.12", 2));
        let other = DifferentValue { value: "6.1".into(), nodes: vec!["b".into()] };
        assert_eq!((&difference.others, &difference.missing), (&vec![other], &vec!["d".to_owned()]));
        assert!(!report.is_uniform());
        assert!(FleetReport::of(&[node("a", Some("6.12"), &[]), node("b", None, &[])]).is_uniform());
    }

    #[test]
    fn findings_of_few_nodes_are_told() {
        let report = FleetReport::of(&[
            node("a", None, &[("common", "warning"), ("rare", "warning"), ("note", "info")]),
            node("b", None, &[("common", "warning"), ("rarest", "error")]),
            node("c", None, &[("common", "warning")]),
            node("d", None, &[]),
            node("e", None, &[("rare", "error")]),
        ]);
        let found: Vec<_> = report
            .findings
            .iter()
            .map(|spread| (&*spread.id, &*spread.severity, spread.nodes.len()))
            .collect();
        assert_eq!(found, [("rarest", "error", 1), ("rare", "error", 2)]);
    }

    #[test]
    fn an_error_is_told_of_any_number_of_nodes_and_a_warning_of_half_of_them() {
        let told = |nodes: &[NodeReading]| -> Vec<String> {
            let report = FleetReport::of(nodes);
            assert_eq!(report.is_uniform(), report.findings.is_empty());
            report.findings.into_iter().map(|spread| spread.id).collect()
        };
        let error = |name| node(name, None, &[("broken", "error")]);
        let warning = |name| node(name, None, &[("slow", "warning")]);
        assert_eq!(told(&[error("a"), node("b", None, &[])]), ["broken"]);
        assert_eq!(told(&[error("a"), error("b"), error("c")]), ["broken"]);
        assert_eq!(told(&[warning("a"), node("b", None, &[])]), ["slow"]);
        assert!(told(&[warning("a"), warning("b")]).is_empty());
    }

    #[test]
    fn a_finding_of_several_objects_and_severities_has_all_objects_and_the_highest_severity() {
        let broken = |name, severity| node(name, None, &[("broken", severity)]);
        let mut both = broken("a", "error");
        let more = NodeFinding { id: "broken".into(), severity: "warning".into(), object: "eth1".into() };
        both.result.as_mut().unwrap().findings.as_mut().unwrap().push(more);
        let report = FleetReport::of(&[both, broken("b", "warning")]);
        let [spread] = &report.findings[..] else { panic!("{report:?}") };
        assert_eq!((spread.severity.as_str(), spread.nodes.len()), ("error", 2));
        assert_eq!(spread.nodes["a"], ["eth0", "eth1"]);
    }

    fn unexamined(name: &str) -> NodeReading {
        let mut unexamined = node(name, None, &[]);
        unexamined.result.as_mut().unwrap().findings = None;
        unexamined
    }

    #[test]
    fn nodes_that_are_not_examined_are_not_uniform() {
        let report = FleetReport::of(&[node("a", None, &[]), unexamined("b")]);
        assert_eq!((report.not_examined.as_slice(), report.is_uniform()), (&["b".to_owned()][..], false));
    }

    #[test]
    fn a_warning_of_all_examined_nodes_is_no_exception() {
        let warning = |name| node(name, None, &[("slow", "warning")]);
        let nodes = [warning("a"), warning("b"), unexamined("c"), unexamined("d"), unexamined("e")];
        assert!(FleetReport::of(&nodes).findings.is_empty());
    }

    #[test]
    fn a_node_that_cannot_be_read_is_told() {
        let reading = NodeReading { address: "a".parse().unwrap(), result: Err("refused".into()) };
        let report = FleetReport::of(&[reading]);
        assert_eq!(
            (report.nodes, report.unreachable[0].reason.as_str(), report.is_uniform()),
            (0, "refused", false)
        );
    }
}
