//! The choice compared with an exhaustive search, which computes each criterion from the sets themselves.

use std::path::Path;

use super::*;

/// A machine: a line per PF, `numa path`, and a GPU at each path.
struct Machine {
    name: &'static str,
    pfs: Vec<(u32, &'static str)>,
    gpus: Vec<&'static str>,
}

/// Two sockets, eight GPUs, eight NICs.
fn machines() -> Vec<Machine> {
    let switch_each = |node: usize| {
        // A switch with a NIC and a GPU.
        let nics = [
            "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0",
            "pci0000:10/0000:10:02.0/0000:21:00.0/0000:22:00.0",
            "pci0000:30/0000:30:01.0/0000:31:00.0/0000:32:00.0",
            "pci0000:30/0000:30:02.0/0000:41:00.0/0000:42:00.0",
            "pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:00.0",
            "pci0000:80/0000:80:02.0/0000:91:00.0/0000:92:00.0",
            "pci0000:a0/0000:a0:01.0/0000:a1:00.0/0000:a2:00.0",
            "pci0000:a0/0000:a0:02.0/0000:b1:00.0/0000:b2:00.0",
        ];
        (u32::from(node >= 4), nics[node])
    };
    let gpus = [
        "pci0000:10/0000:10:01.0/0000:11:00.0/0000:13:00.0",
        "pci0000:10/0000:10:02.0/0000:21:00.0/0000:23:00.0",
        "pci0000:30/0000:30:01.0/0000:31:00.0/0000:33:00.0",
        "pci0000:30/0000:30:02.0/0000:41:00.0/0000:43:00.0",
        "pci0000:80/0000:80:01.0/0000:81:00.0/0000:83:00.0",
        "pci0000:80/0000:80:02.0/0000:91:00.0/0000:93:00.0",
        "pci0000:a0/0000:a0:01.0/0000:a1:00.0/0000:a3:00.0",
        "pci0000:a0/0000:a0:02.0/0000:b1:00.0/0000:b3:00.0",
    ];
    vec![
        Machine {
            name: "a switch for each GPU and NIC",
            pfs: (0..8).map(switch_each).collect(),
            gpus: gpus.to_vec(),
        },
        Machine {
            name: "GPUs at every second NIC",
            pfs: (0..8).map(switch_each).collect(),
            gpus: gpus.iter().step_by(2).copied().collect(),
        },
        Machine {
            name: "two NICs per switch, GPUs on one socket",
            pfs: vec![
                (0, "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0"),
                (0, "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:01.0"),
                (0, "pci0000:10/0000:10:02.0/0000:21:00.0/0000:22:00.0"),
                (0, "pci0000:10/0000:10:02.0/0000:21:00.0/0000:22:01.0"),
                (1, "pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:00.0"),
                (1, "pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:01.0"),
                (1, "pci0000:80/0000:80:02.0/0000:91:00.0/0000:92:00.0"),
                (1, "pci0000:80/0000:80:03.0/0000:95:00.0"),
            ],
            gpus: gpus[4..].to_vec(),
        },
        Machine {
            name: "without switches or GPUs",
            pfs: vec![
                (0, "pci0000:10/0000:10:00.0"),
                (0, "pci0000:11/0000:11:00.0"),
                (1, "pci0000:80/0000:80:00.0"),
            ],
            gpus: Vec::new(),
        },
    ]
}

fn path(text: &str) -> PciPath {
    PciPath::of(Path::new(text)).unwrap()
}

impl Machine {
    /// Returns the devices: as many VFs of each PF as `vfs` repeats.
    fn devices(&self, vfs: &[usize]) -> Vec<Candidate> {
        let mut devices = Vec::new();
        for (number, (node, at)) in self.pfs.iter().enumerate() {
            for vf in 0..vfs[number % vfs.len()] {
                let (bridge, slot) = at.rsplit_once('/').unwrap();
                let path = path(&format!("{bridge}/{}{}", &slot[..slot.len() - 1], vf + 1));
                let id = format!("{number}-{vf}");
                devices.push(Candidate { id, pf: format!("pf{number}"), numa_node: Some(*node), path });
            }
        }
        devices
    }

    fn gpus(&self) -> Vec<PciPath> {
        self.gpus.iter().map(|gpu| path(gpu)).collect()
    }
}

/// The criteria of a set; a larger value is better.
fn score(set: &[&Candidate], available: &[Candidate], policy: PfPolicy, gpus: &[PciPath]) -> [i64; 5] {
    let count = |number: usize| i64::try_from(number).unwrap();
    let nodes: BTreeSet<_> = set.iter().map(|device| device.numa_node).collect();
    let pfs: BTreeSet<_> = set.iter().map(|device| &device.pf).collect();
    let of_pf =
        |pf: &String, devices: &[&Candidate]| devices.iter().filter(|device| device.pf == *pf).count();
    let squares = pfs.iter().map(|pf| count(of_pf(pf, set)).pow(2)).sum::<i64>();
    let close =
        set.iter().map(|device| count(gpus.iter().map(|gpu| gpu.common(&device.path)).max().unwrap_or(0)));
    let mut together = 0;
    for (number, one) in set.iter().enumerate() {
        together += set[..number].iter().map(|two| count(one.path.common(&two.path))).sum::<i64>();
    }
    let all: Vec<_> = available.iter().collect();
    let free = set.iter().map(|device| count(of_pf(&device.pf, &all))).sum::<i64>();
    match policy {
        PfPolicy::Spread => [-count(nodes.len()), -squares, close.sum(), together, free],
        PfPolicy::Pack => [-count(nodes.len()), -count(pfs.len()), close.sum(), together, -free],
    }
}

fn best_score(
    available: &[Candidate],
    included: &BTreeSet<String>,
    size: usize,
    policy: PfPolicy,
    gpus: &[PciPath],
) -> Option<[i64; 5]> {
    let sets = (0..1_u32 << available.len()).filter(|set| set.count_ones() as usize == size).map(|set| {
        let contained = available.iter().enumerate().filter(move |(bit, _)| set >> bit & 1 == 1);
        contained.map(|(_, device)| device).collect::<Vec<_>>()
    });
    let valid = sets.filter(|set| included.iter().all(|id| set.iter().any(|device| device.id == *id)));
    valid.map(|set| score(&set, available, policy, gpus)).max()
}

/// Checks the choices of all sizes.
fn is_as_exhaustive(machine: &Machine, devices: &[Candidate], included: &[&str]) {
    let included: BTreeSet<String> = included.iter().map(|id| (*id).to_owned()).collect();
    let gpus = machine.gpus();
    for policy in [PfPolicy::Spread, PfPolicy::Pack] {
        for size in included.len()..=devices.len() {
            let ids = choose(devices, &included, size, policy, &gpus).unwrap();
            let chosen: Vec<_> = devices.iter().filter(|device| ids.contains(&device.id)).collect();
            assert_eq!((chosen.len(), included.iter().all(|id| ids.contains(id))), (size, true), "{ids:?}");
            let found = Some(score(&chosen, devices, policy, &gpus));
            let best = best_score(devices, &included, size, policy, &gpus);
            assert_eq!(found, best, "{}: {size} of {devices:?} {policy:?}: {ids:?}", machine.name);
        }
    }
}

#[test]
fn the_choice_is_as_good_as_that_of_an_exhaustive_search() {
    for machine in machines() {
        for vfs in [&[1][..], &[2, 0, 1], &[1, 2], &[0, 3]] {
            let devices = machine.devices(vfs);
            is_as_exhaustive(&machine, &devices, &[]);
            let included: Vec<_> =
                devices.iter().rev().step_by(3).map(|device| device.id.as_str()).take(2).collect();
            is_as_exhaustive(&machine, &devices, &included);
        }
    }
}

fn chosen(machine: usize, vfs: &[usize], included: &[&str], size: usize, policy: PfPolicy) -> Vec<String> {
    let machine = &machines()[machine];
    let included = included.iter().map(|id| (*id).to_owned()).collect();
    choose(&machine.devices(vfs), &included, size, policy, &machine.gpus()).unwrap()
}

#[test]
fn examples() {
    use PfPolicy::{Pack, Spread};
    assert_eq!(chosen(0, &[4], &[], 4, Spread), ["0-0", "1-0", "2-0", "3-0"], "a socket");
    assert_eq!(chosen(0, &[4], &["6-3"], 2, Spread), ["6-3", "7-0"], "the same root");
    assert_eq!(chosen(1, &[4], &[], 2, Spread), ["0-0", "2-0"], "those with a GPU");
    assert_eq!(chosen(2, &[4], &[], 1, Spread), ["4-0"], "the socket of the GPUs");
    assert_eq!(chosen(0, &[4], &[], 4, Pack), ["0-0", "0-1", "0-2", "0-3"]);
    assert_eq!(
        chosen(0, &[4, 2], &[], 2, Pack),
        ["1-0", "1-1"],
        "the PF with the fewest devices that suffice"
    );
    assert_eq!(chosen(0, &[2, 4], &[], 1, Spread), ["1-0"], "the PF with the most");
}

#[test]
fn many_devices_are_chosen_from_without_delay() {
    let machine = &machines()[0];
    let devices = machine.devices(&[127]);
    assert_eq!(devices.len(), 1016);
    let ids = choose(&devices, &BTreeSet::new(), 16, PfPolicy::Spread, &machine.gpus()).unwrap();
    assert_eq!(ids.len(), 16);
}

#[test]
fn a_request_that_cannot_be_fulfilled_is_refused() {
    let devices = machines()[3].devices(&[1]);
    let choose = |included: &[&str], size| {
        let included = included.iter().map(|id| (*id).to_owned()).collect();
        choose(&devices, &included, size, PfPolicy::Spread, &[]).unwrap_err()
    };
    assert_eq!(choose(&["9-0"], 1), Unavailable::Device("9-0".into()));
    assert_eq!(choose(&[], 4), Unavailable::TooFew { size: 4, available: 3 });
    assert_eq!(choose(&["0-0", "1-0"], 1), Unavailable::TooMany { size: 1, included: 2 });
}
