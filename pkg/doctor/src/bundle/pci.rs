//! PCI: the cards and the GPUs as `lspci -vv` shows them.
//!
//! The configuration spaces are in the form of `lspci -xxxx`: `lspci -F pci-config.txt -vv` decodes them on any machine.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use crate::{NodeFacts, host_root};

const DEVICES: &str = "sys/bus/pci/devices";
/// Further attributes of a function, for PFs and GPUs.
const ATTRIBUTES: [&str; 11] = [
    "aer_dev_correctable",
    "aer_dev_fatal",
    "aer_dev_nonfatal",
    "d3cold_allowed",
    "enable",
    "irq",
    "local_cpulist",
    "numa_node",
    "power_state",
    "reset_method",
    "subsystem_vendor",
];
/// The attributes of a GPU that the bundle has of cards anyway.
const OF_GPU: [&str; 8] = [
    "class",
    "current_link_speed",
    "current_link_width",
    "device",
    "max_link_speed",
    "max_link_width",
    "revision",
    "vendor",
];
/// Symbolic links of a function; an empty name is the function, whose target has the bridges above it.
const LINKS: [&str; 3] = ["driver", "iommu_group", ""];
/// The maximum number of functions: a node has a dozen cards and GPUs, and VFs are left out.
const MAX_FUNCTIONS: usize = 64;
/// The size of an extended configuration space.
const MAX_CONFIG_BYTES: u64 = 4096;
/// Where the extended capabilities begin.
const EXTENDED: usize = 0x100;
/// `PCI_EXT_CAP_ID_DSN`: the serial number of the card, which contains its MAC address.
const SERIAL_NUMBER: u32 = 3;
const SERIAL_NUMBER_BYTES: usize = 8;

/// Returns the addresses of PFs and GPUs.
pub(super) fn functions(facts: &NodeFacts) -> Vec<String> {
    let cards = facts.functions.iter().filter(|function| function.pf.is_none());
    let cards = cards.map(|function| function.address.clone());
    cards.chain(gpus(facts)).take(MAX_FUNCTIONS).collect()
}

fn gpus(facts: &NodeFacts) -> impl Iterator<Item = String> {
    facts.gpus.iter().map(|gpu| gpu.address.clone())
}

/// Returns the attributes to read.
pub(super) fn files(facts: &NodeFacts) -> Vec<String> {
    let further = functions(facts).into_iter().map(|function| (function, &ATTRIBUTES[..]));
    let of_gpus = gpus(facts).take(MAX_FUNCTIONS).map(|gpu| (gpu, &OF_GPU[..]));
    let all = further.chain(of_gpus);
    all.flat_map(|(function, names)| names.iter().map(move |name| format!("{DEVICES}/{function}/{name}")))
        .collect()
}

/// Returns the symbolic links of the functions and their targets.
pub(super) fn links(root: &Path, functions: &[String]) -> Vec<(String, String)> {
    let paths = functions.iter().flat_map(|function| LINKS.map(|name| (function, name)));
    let links = paths.filter_map(|(function, name)| {
        let path = PathBuf::from(DEVICES).join(function).join(name);
        // A path that ends with a slash would be that of the target.
        let path = path.components().collect::<PathBuf>();
        let target = fs::read_link(root.join(&path)).ok()?;
        let shown = if name.is_empty() { path.join("path") } else { path };
        Some((shown.display().to_string(), format!("{}\n", target.display())))
    });
    links.collect()
}

/// Returns the configuration spaces of the functions. Only root can read more than the first 64 bytes.
pub(super) fn config(root: &Path, functions: &[String]) -> String {
    let mut text = String::new();
    for function in functions {
        let path = root.join(DEVICES).join(function).join("config");
        let Ok(mut bytes) = host_root::read(&path, MAX_CONFIG_BYTES) else { continue };
        clear_serial_number(&mut bytes);
        let _ = writeln!(text, "{function} function");
        for (row, line) in bytes.chunks(16).enumerate() {
            let line: Vec<_> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            let _ = writeln!(text, "{:02x}: {}", row * 16, line.join(" "));
        }
        text.push('\n');
    }
    text
}

/// Overwrites the serial number with zeros. The capabilities are a list: ID in the lower 16 bits of a header, and the offset of
/// the next one in the upper 12.
fn clear_serial_number(config: &mut [u8]) {
    let mut offset = EXTENDED;
    // A list has at most as many entries as headers fit, also if it is damaged and is a circle.
    for _ in 0..MAX_CONFIG_BYTES / 4 {
        let Some(header) = config.get(offset..offset + 4) else { return };
        let header = u32::from_le_bytes(header.try_into().unwrap_or_default());
        if header & 0xffff == SERIAL_NUMBER {
            let end = config.len().min(offset + 4 + SERIAL_NUMBER_BYTES);
            config[offset + 4..end].fill(0);
        }
        offset = (header >> 20) as usize & !3;
        if offset < EXTENDED {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A space of 4096 bytes with AER at 0x100, a serial number at 0x148, and then the end or a circle.
    fn space(next: u32) -> Vec<u8> {
        let mut bytes = vec![0xaa; 4096];
        let mut put = |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        put(0x100, 0x1480_0001 | 2 << 16);
        put(0x148, next << 20 | 1 << 16 | 3);
        bytes
    }

    #[test]
    fn the_serial_number_is_cleared_and_nothing_else() {
        for next in [0, 0x100, 0x148, 0xffc] {
            let mut bytes = space(next);
            let mut expected = bytes.clone();
            expected[0x14c..0x154].fill(0);
            clear_serial_number(&mut bytes);
            assert!(bytes == expected, "{next:#x}");
        }
        // The space of a conventional device, one that only root can read, and one that was cut.
        for length in [0, 64, 256, 0x14a, 0x150] {
            let mut bytes = space(0);
            bytes.truncate(length);
            clear_serial_number(&mut bytes);
            assert_eq!(bytes.len(), length);
        }
    }

    #[test]
    fn a_configuration_space_is_in_the_form_of_lspci() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join(DEVICES).join("0000:af:00.0");
        fs::create_dir_all(&dir).unwrap();
        let mut bytes: Vec<u8> = (0..=255).collect();
        bytes.extend([0x52, 0x54, 0x00, 0xaa, 0xbb, 0xcc]);
        fs::write(dir.join("config"), bytes).unwrap();
        let functions = ["0000:af:00.0".to_owned(), "0000:b0:00.0".to_owned()];
        let text = config(root.path(), &functions);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "0000:af:00.0 function");
        assert_eq!(lines[1], "00: 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f");
        assert_eq!(lines[17], "100: 52 54 00 aa bb cc");
        assert_eq!(lines.len(), 19);
    }

    #[test]
    fn symbolic_links_have_their_targets() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().join("sys/devices/pci0000:ae/0000:ae:00.0/0000:af:00.0");
        fs::create_dir_all(&real).unwrap();
        let link = |target: &str, path: PathBuf| std::os::unix::fs::symlink(target, path).unwrap();
        link("../../../../bus/pci/drivers/mlx5_core", real.join("driver"));
        fs::create_dir_all(root.path().join(DEVICES)).unwrap();
        let target = "../../../devices/pci0000:ae/0000:ae:00.0/0000:af:00.0";
        link(target, root.path().join(DEVICES).join("0000:af:00.0"));
        let links = links(root.path(), &["0000:af:00.0".to_owned()]);
        let of = |name: &str| format!("{DEVICES}/0000:af:00.0/{name}");
        let driver = (of("driver"), "../../../../bus/pci/drivers/mlx5_core\n".to_owned());
        assert_eq!(links, [driver, (of("path"), format!("{target}\n"))]);
    }
}
