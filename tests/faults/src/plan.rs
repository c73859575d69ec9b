//! The list of campaigns, and their execution.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use clap::ValueEnum;
use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};
use testkit::Binaries;

use crate::{
    campaign::{Campaign, FaultedCall},
    fault::InjectedFault,
    remedy::Recovery,
    table::CampaignRow,
};

/// The environment of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CampaignEnv {
    /// In namespaces of the running kernel, in parallel.
    Netns,
    /// In the lab's virtual machine, sequentially, because the campaigns share its devices.
    Lab,
}

/// A plugin under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PluginName {
    Macvlan,
    SilkrailIpam,
    Ipvlan,
    Sriov,
    Rdma,
    IbSriov,
    Ipoib,
    Ifacer,
}

impl PluginName {
    const ALL: [Self; 8] = [
        Self::Macvlan,
        Self::SilkrailIpam,
        Self::Ipvlan,
        Self::Sriov,
        Self::Rdma,
        Self::IbSriov,
        Self::Ipoib,
        Self::Ifacer,
    ];

    /// The name of its executable, e.g. `silkrail-ipam`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Macvlan => "macvlan",
            Self::SilkrailIpam => "silkrail-ipam",
            Self::Ipvlan => "ipvlan",
            Self::Sriov => "sriov",
            Self::Rdma => "rdma",
            Self::IbSriov => "ib-sriov",
            Self::Ipoib => "ipoib",
            Self::Ifacer => "ifacer",
        }
    }

    /// The environment that it needs.
    fn place(self) -> CampaignEnv {
        match self {
            Self::Macvlan | Self::SilkrailIpam => CampaignEnv::Netns,
            Self::Ipvlan | Self::Sriov | Self::Rdma | Self::IbSriov | Self::Ipoib | Self::Ifacer => {
                CampaignEnv::Lab
            }
        }
    }
}

/// The campaigns of an environment whose name contains one of the texts; without texts, all of them.
pub(crate) fn of(place: CampaignEnv, parts: &[String]) -> Vec<Campaign> {
    let mut campaigns = Vec::new();
    for plugin in PluginName::ALL.into_iter().filter(|plugin| plugin.place() == place) {
        for (verb, remedies) in
            [(FaultedCall::Add, &Recovery::OF_ADD[..]), (FaultedCall::Del, &Recovery::OF_DEL[..])]
        {
            for fault in InjectedFault::ALL {
                // A failed call needs the same recovery as a killed one, and a runtime calls DEL.
                let remedies = if fault.kills() { remedies } else { &remedies[..1] };
                campaigns.extend(remedies.iter().map(|remedy| Campaign {
                    plugin,
                    verb,
                    fault,
                    remedy: *remedy,
                }));
            }
        }
    }
    campaigns
        .retain(|campaign| parts.is_empty() || parts.iter().any(|part| campaign.to_string().contains(part)));
    campaigns
}

/// Runs campaigns, as many in parallel as the environment allows, and returns their rows in order.
pub(crate) fn run(
    campaigns: &[Campaign],
    release: &Binaries,
    place: CampaignEnv,
    every: usize,
) -> Vec<CampaignRow> {
    let workers = match place {
        CampaignEnv::Netns => thread::available_parallelism().map_or(1, usize::from),
        CampaignEnv::Lab => 1,
    };
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for worker in 0..workers {
            let (next, rows) = (&next, &rows);
            scope.spawn(move || {
                pin_to_cpu(worker);
                while let Some((index, campaign)) = take(campaigns, next) {
                    // A separate thread, because a node's namespace belongs to its thread.
                    let row =
                        thread::scope(|scope| scope.spawn(|| campaign.run(release, every, index)).join());
                    let row = row.unwrap_or_else(|_| CampaignRow::broken(campaign));
                    eprintln!("{row}");
                    rows.lock().unwrap().push((index, row));
                }
            });
        }
    });
    let mut rows = rows.into_inner().unwrap();
    rows.sort_by_key(|(index, _)| *index);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Pins this thread, and every process it starts, to one CPU: strace and the plugin wait for each other at each
/// system call, which takes three times as long between two CPUs of a virtual machine.
fn pin_to_cpu(cpu: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu).unwrap();
    sched_setaffinity(Pid::from_raw(0), &cpus).unwrap();
}

fn take<'a>(campaigns: &'a [Campaign], next: &AtomicUsize) -> Option<(usize, &'a Campaign)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    campaigns.get(index).map(|campaign| (index, campaign))
}
