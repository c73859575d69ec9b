//! Closes gaps in the numbers of character devices, as a VF leaves one that is bound to vfio-pci: the device with the highest numbers
//! takes the lowest ones, so that the gap is above the others, which keep theirs when they move to a pod.

use plugin_runtime::{Error, Node};
use rdma::{CharDevices, Device};
use serde::Serialize;
use sysfs::Function;

use crate::{
    char_device_numbers::{RenumberedDevice, move_again},
    move_guard::MoveGuard,
    rdma_add::require_exclusive_mode,
};

/// An RDMA device that gets other character devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Renumbering {
    /// The RDMA device.
    pub device: String,
    /// Its character devices before.
    pub from: CharDevices,
    /// Its character devices afterwards.
    pub to: CharDevices,
}

/// The character devices of the node.
struct Numbers {
    uverbs: Vec<String>,
    umads: Vec<String>,
}

/// Returns what [`close_gaps`] would do to devices of these functions, which nobody uses.
///
/// # Errors
/// If the node is not in exclusive mode, or its devices cannot be read.
pub fn preview_gaps(node: &Node, free: &[Function]) -> Result<Vec<Renumbering>, Error> {
    require_exclusive_mode(node)?;
    let devices = movable(node, free)?.into_iter().map(|(_, device, numbers)| (device.name, numbers));
    Ok(Numbers::of(node)?.plan(devices.collect()))
}

/// Moves devices of functions that nobody uses to another network namespace and back, such that no number below theirs is free.
/// `free` is called while no RDMA device of the node can move.
///
/// # Errors
/// As [`preview_gaps`], and those of `free`.
pub fn close_gaps<E: From<Error>>(
    node: &Node,
    free: impl FnOnce() -> Result<Vec<Function>, E>,
) -> Result<Vec<Renumbering>, E> {
    require_exclusive_mode(node)?;
    let _guard = MoveGuard::acquire_for_node(node)?;
    let devices = movable(node, &free()?)?;
    let names = devices.iter().map(|(_, device, numbers)| (device.name.clone(), numbers.clone()));
    let mut done = Numbers::of(node)?.plan(names.collect());
    for step in &mut done {
        let Some((function, device, _)) = devices.iter().find(|(_, device, _)| device.name == step.device)
        else {
            continue;
        };
        move_again(node, device)?;
        step.to = CharDevices::of(&node.sysfs, function, &device.name).map_err(Error::from)?;
    }
    // A device plugin may still use the numbers of a record.
    for (function, device, _) in &devices {
        let now = CharDevices::of(&node.sysfs, function, &device.name).map_err(Error::from)?;
        RenumberedDevice::remove_if_correct(node, function, device, &now)?;
    }
    Ok(done)
}

/// Returns the RDMA devices of functions, with their character devices. InfiniBand devices are left out: the kernel would create their
/// IPoIB links again.
fn movable(node: &Node, free: &[Function]) -> Result<Vec<(Function, Device, CharDevices)>, Error> {
    let mut found = Vec::new();
    for function in free {
        for device in node.rdma()?.devices_of(&node.sysfs, function)? {
            if node.sysfs.link_layer(&device.name, 1)? != "InfiniBand" {
                let numbers = CharDevices::of(&node.sysfs, function, &device.name)?;
                found.push((function.clone(), device, numbers));
            }
        }
    }
    Ok(found)
}

impl Numbers {
    fn of(node: &Node) -> Result<Self, Error> {
        let uverbs = node.sysfs.all_uverbs()?.unwrap_or_default();
        Ok(Self { uverbs, umads: node.sysfs.all_umads()? })
    }

    /// Returns the moves of free devices, the highest first. Each takes the lowest numbers, so there are not more than gaps.
    fn plan(mut self, mut free: Vec<(String, CharDevices)>) -> Vec<Renumbering> {
        let mut moves = Vec::new();
        loop {
            let after = |now: &CharDevices| now.predict_among(&self.uverbs, &self.umads);
            let would_change = free.iter_mut().filter(|(_, now)| !after(now).matches(now));
            let Some((device, now)) = would_change.max_by_key(|(_, now)| now.verbs_number()) else {
                return moves;
            };
            let to = after(now);
            for names in [&mut self.uverbs, &mut self.umads] {
                names.retain(|name| !now.names().contains(name));
                names.extend_from_slice(to.names());
            }
            moves.push(Renumbering { device: device.clone(), from: now.clone(), to: to.clone() });
            *now = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(names: &[&str]) -> CharDevices {
        serde_json::from_value(serde_json::json!(names)).unwrap()
    }

    /// The moves of free devices with these numbers on a node with others that are in use.
    fn moves(free: &[u32], in_use: &[u32]) -> Vec<(String, String)> {
        let names = |kind: &str| free.iter().chain(in_use).map(|n| format!("{kind}{n}")).collect();
        let all = Numbers { uverbs: names("uverbs"), umads: names("umad") };
        let own = |n: &u32| {
            let [umad, uverbs] = [format!("umad{n}"), format!("uverbs{n}")];
            (format!("mlx5_{n}"), numbers(&[&umad, &uverbs]))
        };
        let planned = all.plan(free.iter().map(own).collect());
        planned.into_iter().map(|step| (step.device, step.to.to_string())).collect()
    }

    fn expected(steps: &[(u32, u32)]) -> Vec<(String, String)> {
        steps.iter().map(|(device, to)| (format!("mlx5_{device}"), format!("umad{to}, uverbs{to}"))).collect()
    }

    #[test]
    fn the_highest_free_device_takes_the_lowest_number() {
        assert_eq!(moves(&[0, 1, 3, 4, 5], &[]), expected(&[(5, 2)]));
        assert_eq!(moves(&[0, 3, 5, 6], &[4]), expected(&[(6, 1), (5, 2)]), "3 keeps its number");
        assert_eq!(moves(&[3], &[0, 2, 9]), expected(&[(3, 1)]), "9 is in use");
    }

    #[test]
    fn without_a_gap_below_a_free_device_nothing_moves() {
        assert!(moves(&[0, 1, 2], &[]).is_empty());
        assert!(moves(&[0, 1], &[3, 9]).is_empty());
        assert!(moves(&[], &[2]).is_empty());
    }

    #[test]
    fn a_kind_of_its_own_has_gaps_of_its_own() {
        let all = Numbers {
            uverbs: vec!["uverbs0".into(), "uverbs1".into()],
            umads: vec!["umad0".into(), "umad2".into()],
        };
        let free = ("mlx5_1".to_owned(), numbers(&["umad2", "uverbs1"]));
        let planned = all.plan(vec![free]);
        assert_eq!(planned[0].to, numbers(&["umad1", "uverbs1"]));
        assert_eq!(planned.len(), 1);
    }
}
