//! What came of the campaigns.

use std::fmt;

use crate::campaign::Campaign;

/// What came of one.
#[derive(Debug)]
pub(crate) struct CampaignRow {
    campaign: Campaign,
    /// How many points the fault was injected at.
    pub(crate) points: usize,
    /// What was left, and where.
    pub(crate) leaks: Vec<String>,
}

impl CampaignRow {
    /// Nothing was injected yet.
    pub(crate) fn new(campaign: &Campaign) -> Self {
        Self { campaign: campaign.clone(), points: 0, leaks: Vec::new() }
    }

    /// A campaign that could not be run to its end.
    pub(crate) fn broken(campaign: &Campaign) -> Self {
        Self { leaks: vec![format!("{campaign}: it broke off; see its panic above")], ..Self::new(campaign) }
    }

    /// A campaign without a single point has shown nothing.
    pub(crate) fn is_good(&self) -> bool {
        self.leaks.is_empty() && self.points > 0
    }
}

impl fmt::Display for CampaignRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Campaign { plugin, verb, fault, remedy } = &self.campaign;
        let (plugin, verb, fault, remedy) =
            (plugin.name(), verb.to_string(), fault.to_string(), remedy.to_string());
        write!(f, "{plugin:13} {verb:4} {fault:28} {remedy:25} {:>6} {:>5}", self.points, self.leaks.len())
    }
}

/// Prints the table, and a closing line that counts its rows.
pub(crate) fn print(rows: &[CampaignRow]) {
    println!(
        "{:13} {:4} {:28} {:25} {:>6} {:>5}",
        "plugin", "verb", "fault", "put right by", "points", "leaks"
    );
    rows.iter().for_each(|row| println!("{row}"));
    let points: usize = rows.iter().map(|row| row.points).sum();
    let leaks: usize = rows.iter().map(|row| row.leaks.len()).sum();
    println!("{:13} {:4} {:28} {:25} {points:>6} {leaks:>5}", "together", "", "", "");
    let good = rows.iter().filter(|row| row.is_good()).count();
    let verdict = if good == rows.len() { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {good} passed; {} failed", rows.len() - good);
}
