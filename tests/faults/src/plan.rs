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
use testkit::{Binaries, Share};

use crate::{
    campaign::{Campaign, FaultedCall, run_all},
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

/// The campaigns of an environment whose name begins with one of the texts; without texts, all of them.
pub(crate) fn of(place: CampaignEnv, beginnings: &[String]) -> Vec<Campaign> {
    let mut campaigns = Vec::new();
    for plugin in PluginName::ALL.into_iter().filter(|plugin| plugin.place() == place) {
        for (verb, remedies) in
            [(FaultedCall::Add, &Recovery::OF_ADD[..]), (FaultedCall::Del, &Recovery::OF_DEL[..])]
        {
            for fault in InjectedFault::ALL {
                // A failed call needs the same recovery as a killed one, and a runtime calls DEL.
                let remedies = if fault == InjectedFault::Kill { remedies } else { &remedies[..1] };
                campaigns.extend(remedies.iter().map(|remedy| Campaign {
                    plugin,
                    verb,
                    fault,
                    remedy: *remedy,
                }));
            }
        }
    }
    campaigns.retain(|campaign| {
        let name = campaign.to_string();
        beginnings.is_empty() || beginnings.iter().any(|beginning| name.starts_with(beginning))
    });
    campaigns
}

/// Runs a share of the campaigns, those of several calls in parallel if the environment allows it, and returns their rows in
/// order.
pub(crate) fn run(
    campaigns: &[Campaign],
    release: &Binaries,
    place: CampaignEnv,
    share: Share,
) -> Vec<CampaignRow> {
    let workers = match place {
        CampaignEnv::Netns => thread::available_parallelism().map_or(1, usize::from),
        CampaignEnv::Lab => 1,
    };
    let of_one_call = |a: &Campaign, b: &Campaign| (a.plugin, a.verb) == (b.plugin, b.verb);
    let calls: Vec<_> = campaigns.chunk_by(of_one_call).collect();
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for worker in 0..workers {
            let (calls, next, rows) = (&calls, &next, &rows);
            scope.spawn(move || {
                pin_to_cpu(worker);
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(campaigns) = calls.get(index) else { return };
                    // A separate thread, because a node's namespace belongs to its thread.
                    let of_call =
                        thread::scope(|scope| scope.spawn(|| run_all(campaigns, release, share)).join());
                    let broken = |_| campaigns.iter().map(CampaignRow::broken).collect();
                    rows.lock().unwrap().push((index, of_call.unwrap_or_else(broken)));
                }
            });
        }
    });
    let mut rows = rows.into_inner().unwrap();
    rows.sort_by_key(|(index, _)| *index);
    rows.into_iter().flat_map(|(_, rows)| rows).collect()
}

/// Pins this thread, and every process it starts, to one CPU: strace and the plugin wait for each other at each
/// system call, which takes three times as long between two CPUs of a virtual machine.
fn pin_to_cpu(cpu: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu).unwrap();
    sched_setaffinity(Pid::from_raw(0), &cpus).unwrap();
}
