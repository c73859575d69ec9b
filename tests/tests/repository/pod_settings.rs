//! `tests/pod-settings.md`: each operation that the installed headers of the kernel define has a row, each operation in a row
//! exists, and what a row says to restore a change exists in the code.

use std::{collections::BTreeSet, fs, path::Path};

use crate::changes::{quoted, root, sources};

/// `linux/version.h` and others; `SILKRAIL_UAPI` names another directory, such as that of an unpacked `linux-libc-dev`.
fn header(name: &str) -> Option<String> {
    let directory = std::env::var("SILKRAIL_UAPI").unwrap_or_else(|_| "/usr/include".into());
    let text = fs::read_to_string(Path::new(&directory).join(name)).ok()?;
    // Without comments, which name operations as well.
    Some(text.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, code)| code)).collect())
}

/// The version of the headers: the major and the minor number.
fn version() -> (u32, u32) {
    let text = header("linux/version.h").expect("linux/version.h: install linux-libc-dev");
    let code = text.lines().find_map(|line| line.strip_prefix("#define LINUX_VERSION_CODE "));
    let code: u32 = code.expect("LINUX_VERSION_CODE").trim().parse().unwrap();
    (code >> 16, code >> 8 & 0xff)
}

fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Whether a name has this part between underscores.
fn has(name: &str, part: &str) -> bool {
    name.split('_').any(|it| it == part)
}

/// Whether a command of generic netlink, nldev or DCB changes something, by its name.
fn is_command(name: &str) -> bool {
    let reads = name.split('_').skip(2).any(|part| part.starts_with('G') && part != "GROUP");
    let others = ["NTF", "REPLY", "NONE", "CNT", "MAX", "UNSPEC", "UNDEFINED", "MONITOR", "KERNEL"];
    !reads && !others.iter().any(|part| has(name, part))
}

/// The names of the enumerators of each enumeration of a header.
fn enumerations(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.split("enum ").skip(1).filter_map(|part| {
        let (name, body) = part.split_once('{')?;
        let lines = body.split('}').next()?.lines().filter(|line| !line.starts_with('#'));
        let names = lines.flat_map(|line| line.split(',')).filter_map(|one| identifiers(one).next());
        (!name.contains([';', '(', ')'])).then(|| names.collect())
    })
}

/// The enumeration that begins with this enumerator, without its first and its internal ones.
fn enumeration<'t>(text: &'t str, first: &str) -> Vec<&'t str> {
    let all = enumerations(text).find(|names| names.first() == Some(&first));
    let all = all.unwrap_or_else(|| panic!("no enumeration begins with {first}"));
    all.into_iter().skip(1).filter(|name| !name.contains("MAX_BPF") && !name.starts_with("__")).collect()
}

/// The commands of `SIOCETHTOOL`: constants of eight digits, without those that only read.
fn ethtool_commands(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (name, value) = line.strip_prefix("#define")?.trim().split_once([' ', '\t'])?;
        let digits = value.trim().strip_prefix("0x")?;
        let is_command = digits.len() == 8 && digits.starts_with("000000") && name.starts_with("ETHTOOL_");
        (is_command && !name.split('_').skip(1).any(|part| part.starts_with('G'))).then_some(name)
    })
}

/// Whether an ioctl for sockets changes something, by its name.
fn is_ioctl(name: &str) -> bool {
    let reads = ["SIOCG", "SIOCINQ", "SIOCOUTQ", "SIOCRTMSG"].iter().any(|prefix| name.starts_with(prefix));
    name.starts_with("SIOC") && !reads && !name.ends_with("QUERY")
}

/// Every operation that the headers define. `ETHTOOL_A_…` and other attributes are not operations.
fn defined() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut add = |names: &mut dyn Iterator<Item = &str>| {
        let count = found.len();
        found.extend(names.map(str::to_owned));
        assert!(found.len() > count, "no operation was found in a header");
    };
    let required = |name: &str| header(name).unwrap_or_else(|| panic!("no {name}: install linux-libc-dev"));
    let commands = [
        ("linux/ethtool_netlink.h", "ETHTOOL_MSG_"),
        // Since Linux 6.14.
        ("linux/ethtool_netlink_generated.h", "ETHTOOL_MSG_"),
        ("rdma/rdma_netlink.h", "RDMA_NLDEV_CMD_"),
        ("linux/dcbnl.h", "DCB_CMD_"),
        ("linux/devlink.h", "DEVLINK_CMD_"),
        ("linux/dpll.h", "DPLL_CMD_"),
        ("linux/netdev.h", "NETDEV_CMD_"),
        ("linux/net_shaper.h", "NET_SHAPER_CMD_"),
        ("linux/psp.h", "PSP_CMD_"),
    ];
    for (file, prefix) in commands {
        // Not every release has every family.
        if let Some(text) = header(file).filter(|text| identifiers(text).any(|it| it.starts_with(prefix))) {
            add(&mut identifiers(&text).filter(|name| name.starts_with(prefix) && is_command(name)));
        }
    }
    let ethtool = required("linux/ethtool.h");
    add(&mut ethtool_commands(&ethtool));
    for first in ["ETHTOOL_ID_UNSPEC", "ETHTOOL_PHY_ID_UNSPEC"] {
        add(&mut enumeration(&ethtool, first).into_iter());
    }
    let if_link = required("linux/if_link.h");
    for kind in ["", "INET_", "INET6_", "XDP_", "IPOIB_"] {
        let names = enumeration(&if_link, &format!("IFLA_{kind}UNSPEC"));
        add(&mut names.into_iter().filter(|name| *name != "IFLA_PAD"));
    }
    let rtnetlink = required("linux/rtnetlink.h");
    let changes = |name: &&str| ["RTM_NEW", "RTM_DEL", "RTM_SET"].iter().any(|it| name.starts_with(it));
    add(&mut identifiers(&rtnetlink).filter(changes));
    add(&mut enumeration(&required("linux/bpf.h"), "BPF_LINK_TYPE_UNSPEC").into_iter());
    add(&mut identifiers(&required("linux/sockios.h")).filter(|name| is_ioctl(name)));
    found
}

/// An operation in the first cell of a row, with the version in parentheses after it.
fn operations(cell: &str) -> Vec<(&str, Option<(u32, u32)>)> {
    let parts: Vec<&str> = cell.split('`').collect();
    let pairs = parts[1..].chunks_exact(2).map(|pair| {
        let version = pair[1].strip_prefix(" (").and_then(|rest| rest.split_once(')')?.0.split_once('.'));
        (pair[0], version.map(|(major, minor)| (major.parse().unwrap(), minor.parse().unwrap())))
    });
    pairs.collect()
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |prefix| name.starts_with(prefix))
}

/// The rows of the page, by cells.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let rows =
        page.lines().filter_map(|line| line.strip_prefix("| `").map(|_| line.trim_matches(['|', ' '])));
    rows.map(|line| line.split(" | ").collect()).collect()
}

fn page() -> String {
    fs::read_to_string(root().join("tests/pod-settings.md")).unwrap()
}

#[test]
fn every_operation_of_the_kernels_headers_has_a_row() {
    let (page, defined) = (page(), defined());
    let named: Vec<_> = rows(&page).iter().flat_map(|row| operations(row[0])).collect();
    let missing = |name: &&String| !named.iter().any(|(pattern, _)| matches(pattern, name));
    let missing: Vec<_> = defined.iter().filter(missing).collect();
    assert!(missing.is_empty(), "tests/pod-settings.md: what happens to a pod's {missing:?}?");
}

#[test]
fn every_operation_in_a_row_exists_in_the_headers_of_its_version() {
    let (page, now) = (page(), version());
    let files =
        ["ethtool_netlink", "ethtool_netlink_generated", "ethtool", "dcbnl", "devlink", "dpll", "netdev"];
    let more = ["net_shaper", "psp", "if_link", "rtnetlink", "bpf", "sockios"];
    let files = files.iter().chain(&more).map(|name| format!("linux/{name}.h"));
    let text: String = files.chain(["rdma/rdma_netlink.h".into()]).filter_map(|file| header(&file)).collect();
    let known: BTreeSet<&str> = identifiers(&text).collect();
    for (name, since) in rows(&page).iter().flat_map(|row| operations(row[0])) {
        // The others are files, or are not in a header.
        if !name.contains('_') || name.starts_with(|first: char| !first.is_ascii_uppercase()) {
            continue;
        }
        let exists = known.iter().any(|it| matches(name, it));
        let expected = since.is_none_or(|since| since <= now);
        let (major, minor) = now;
        assert_eq!(exists, expected, "{name}, and headers of Linux {major}.{minor}");
    }
}

#[test]
fn what_restores_a_change_exists() {
    let page = page();
    let code = sources(&root().join("pkg"));
    let rows = rows(&page);
    let restored = rows.iter().filter_map(|row| row[2].split_once("restored: ").map(|(_, by)| by));
    // The functions of the kernel, which other sentences name, are not checked.
    let by: BTreeSet<&str> = restored.flat_map(|by| quoted(by.split(['.', ';']).next().unwrap())).collect();
    assert!(by.len() > 10, "{by:?}");
    for function in by.iter().filter(|by| by.chars().all(|c| c == '_' || c.is_ascii_lowercase())) {
        let signature = format!("fn {function}(");
        assert!(code.iter().any(|(_, text)| text.contains(&signature)), "there is no function {function}");
    }
}

/// The writable files of a link in sysfs, with `N` for the number of a queue.
fn writable(directory: &Path, prefix: &str) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt;
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let metadata = fs::symlink_metadata(entry.path()).unwrap();
        let path = format!("{prefix}{name}");
        if metadata.is_dir() {
            let queue = name.split_once('-').filter(|(kind, _)| ["rx", "tx"].contains(kind));
            let prefix = queue.map_or(format!("{path}/"), |(kind, _)| format!("{prefix}{kind}-N/"));
            found.extend(writable(&entry.path(), &prefix));
        } else if metadata.is_file() && metadata.permissions().mode() & 0o222 != 0 {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_writable_file_of_a_link_has_a_row() {
    let page = page();
    let named: Vec<&str> =
        rows(&page).iter().flat_map(|row| operations(row[0])).map(|(name, _)| name).collect();
    let files = writable(Path::new("/sys/class/net/lo/"), "");
    assert!(files.contains(&"mtu".to_owned()), "{files:?}");
    let missing: Vec<_> = files.iter().filter(|file| !named.iter().any(|name| matches(name, file))).collect();
    assert!(missing.is_empty(), "tests/pod-settings.md: what happens to a pod's {missing:?}?");
}
