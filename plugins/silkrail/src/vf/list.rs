//! The table of PFs and VFs, and what uses them.

use std::io::Write;

use inventory::{Inventory, Pf, Vf};

use crate::{
    exit::{CommandError, CommandExit},
    json, table,
};

const HEAD: [&str; 8] = ["PF", "VF", "PCI", "DRIVER", "LINK", "RDMA-DEVICE", "MAC", "USED-BY"];

pub(super) fn list(
    inventory: &Inventory,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<CommandExit, CommandError> {
    if as_json {
        json::print(inventory, out)?;
        return Ok(CommandExit::Done);
    }
    if inventory.pfs.is_empty() {
        writeln!(out, "this node has no PF: no PCI network card")?;
        return Ok(CommandExit::Done);
    }
    let rows: Vec<_> = inventory
        .pfs
        .iter()
        .flat_map(|pf| std::iter::once(of_pf(pf)).chain(pf.vfs.iter().map(|vf| of_vf(pf, vf))))
        .collect();
    table::print(out, HEAD, &rows)?;
    Ok(CommandExit::Done)
}

fn of_pf(pf: &Pf) -> [String; 8] {
    let link = pf.link.as_ref();
    let vfs = if pf.total_vfs > 0 { format!("{}/{}", pf.num_vfs, pf.total_vfs) } else { String::new() };
    let users = pf.users.iter().map(ToString::to_string);
    let protections: Vec<_> = pf.protections.iter().map(ToString::to_string).chain(users).collect();
    [
        pf.name(),
        vfs,
        pf.pci.to_string(),
        pf.driver.clone().unwrap_or_default(),
        link.map(|link| link.name.to_string()).unwrap_or_default(),
        pf.rdma.join(","),
        link.and_then(|link| link.mac).map(|mac| mac.to_string()).unwrap_or_default(),
        protections.join("; "),
    ]
}

fn of_vf(pf: &Pf, vf: &Vf) -> [String; 8] {
    let users: Vec<_> = vf.users.iter().map(ToString::to_string).collect();
    [
        pf.name(),
        vf.index.to_string(),
        vf.pci.to_string(),
        vf.driver.clone().unwrap_or_default(),
        vf.link.as_ref().map(ToString::to_string).unwrap_or_default(),
        vf.rdma.clone().unwrap_or_default(),
        vf.mac.or(vf.admin_mac()).map(|mac| mac.to_string()).unwrap_or_default(),
        users.join("; "),
    ]
}
