//! The results of the campaigns.

use std::fmt;

use crate::campaign::Campaign;

/// The result of one campaign.
#[derive(Debug)]
pub(crate) struct CampaignRow {
    campaign: Campaign,
    /// The number of points that the fault was injected at.
    pub(crate) points: usize,
    /// The leaks, each with its point.
    pub(crate) leaks: Vec<String>,
}

impl CampaignRow {
    /// A row without points.
    pub(crate) fn new(campaign: &Campaign) -> Self {
        Self { campaign: campaign.clone(), points: 0, leaks: Vec::new() }
    }

    /// A campaign that panicked.
    pub(crate) fn broken(campaign: &Campaign) -> Self {
        Self { leaks: vec![format!("{campaign}: panicked, see above")], ..Self::new(campaign) }
    }

    /// Whether the campaign injected a fault and found no leak.
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

/// Prints the table, and a last line with the number of passed and failed campaigns.
pub(crate) fn print(rows: &[CampaignRow]) {
    println!("{:13} {:4} {:28} {:25} {:>6} {:>5}", "plugin", "verb", "fault", "recovery", "points", "leaks");
    rows.iter().for_each(|row| println!("{row}"));
    let points: usize = rows.iter().map(|row| row.points).sum();
    let leaks: usize = rows.iter().map(|row| row.leaks.len()).sum();
    println!("{:13} {:4} {:28} {:25} {points:>6} {leaks:>5}", "total", "", "", "");
    let good = rows.iter().filter(|row| row.is_good()).count();
    let verdict = if good == rows.len() { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {good} passed; {} failed", rows.len() - good);
}
