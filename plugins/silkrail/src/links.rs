//! `silkrail links`: the physical state and the DCB settings of links.

use std::{collections::BTreeMap, io::Write, path::Path};

use identifiers::LinkName;
use link_settings::{LinkSettings, LinkSettingsReader};
use serde::Serialize;
use sysfs::Sysfs;

use crate::{
    exit::{CommandError, CommandExit},
    json, table,
};

const HEAD: [&str; 9] =
    ["LINK", "RDMA-DEVICE", "SPEED", "MAX-SPEED", "FEC", "MODULE", "TEMPERATURE", "PFC", "DCB-BY"];

/// Show the physical state and the DCB settings of links, as their drivers report them
///
/// Without LINK: of all links with an RDMA device in the namespace of the node.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LinksArgs {
    /// Show these links only; they need no RDMA device
    #[arg(value_name = "LINK")]
    links: Vec<LinkName>,
    /// Print JSON, which has everything that was read: link modes, counters of FEC and pause, lanes of the module, ETS, buffers
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
SPEED is in Mb/s, PFC lists the priorities that are paused instead of dropped, and DCB-BY is host or firmware: firmware can
change what is set on the host. - is what the driver does not report. Why a link is down is listed below the table.

Examples:
  silkrail links
  silkrail links ens6f0np0 --json | jq '.[].fec.statistics'

Exit status:
  0   done
  1   an error: no such link
  2   wrong usage";

/// A link as JSON shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LinkReport {
    rdma_devices: Vec<String>,
    #[serde(flatten)]
    settings: LinkSettings,
}

impl LinksArgs {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        netns::require_node_netns_if_known(root)?;
        let devices = devices_by_link(&Sysfs::at(root.join("sys")))?;
        let links =
            if self.links.is_empty() { devices.keys().cloned().collect() } else { self.links.clone() };
        let mut reader = LinkSettingsReader::open();
        let mut reports = Vec::new();
        for link in links {
            let rdma_devices = devices.get(&link).cloned().unwrap_or_default();
            match reader.read(&link) {
                Some(settings) => reports.push(LinkReport { rdma_devices, settings }),
                None if self.links.is_empty() => {} // It went away in between.
                None => return Err(CommandError::NoLink(link)),
            }
        }
        reader.unread().iter().for_each(|unread| eprintln!("silkrail: {unread}"));
        if reports.is_empty() {
            eprintln!(
                "silkrail: no link of this node has an RDMA device; specify links: silkrail links LINK"
            );
        }
        if self.json {
            json::print(&reports, out)?;
        } else {
            print(&reports, out)?;
        }
        Ok(CommandExit::Done)
    }
}

/// Returns the links of RDMA ports, and their devices; empty without RDMA.
fn devices_by_link(sysfs: &Sysfs) -> Result<BTreeMap<LinkName, Vec<String>>, CommandError> {
    let mut devices: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let ports = match rdma::Handle::open(sysfs) {
        Ok(handle) => handle.all_ports()?,
        Err(rdma::Error::NoRdma) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    for port in ports {
        if let Some(link) = port.link_name.and_then(|name| name.parse().ok()) {
            devices.entry(link).or_default().push(port.device_name);
        }
    }
    Ok(devices)
}

fn print(reports: &[LinkReport], out: &mut dyn Write) -> Result<(), CommandError> {
    table::print(out, HEAD, &reports.iter().map(cells).collect::<Vec<_>>())?;
    let mut down =
        reports.iter().filter_map(|report| Some((&report.settings.link, cause(&report.settings)?)));
    if let Some((link, cause)) = down.next() {
        writeln!(out, "\nDown:\n  {link}: {cause}")?;
    }
    for (link, cause) in down {
        writeln!(out, "  {link}: {cause}")?;
    }
    Ok(())
}

fn cells(LinkReport { rdma_devices, settings }: &LinkReport) -> [String; HEAD.len()] {
    let (modes, dcb) = (settings.modes.as_ref(), settings.dcb.as_ref());
    let eeprom = settings.module.as_ref().and_then(|module| module.eeprom.as_ref());
    let module = eeprom.and_then(|eeprom| eeprom.form_factor());
    let temperature = eeprom.and_then(|eeprom| eeprom.temperature_millicelsius);
    let pfc = dcb.and_then(|dcb| dcb.pfc.as_ref());
    [
        settings.link.clone(),
        rdma_devices.join(","),
        shown(modes.and_then(|modes| modes.speed)),
        shown(modes.and_then(|modes| modes.highest_supported_speed)),
        shown(settings.fec.as_ref().and_then(|fec| fec.active)),
        module.unwrap_or_default().to_owned(),
        temperature.map(|thousandths| format!("{} °C", thousandths / 1000)).unwrap_or_default(),
        pfc.map(|pfc| priorities(&pfc.enabled)).unwrap_or_default(),
        match dcb.and_then(|dcb| dcb.dcbx) {
            Some(mode) if mode.host => "host".into(),
            Some(_) => "firmware".into(),
            None => String::new(),
        },
    ]
}

fn shown(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn priorities(enabled: &[u8]) -> String {
    if enabled.is_empty() {
        return "off".into();
    }
    enabled.iter().map(u8::to_string).collect::<Vec<_>>().join(",")
}

/// Returns why a link is down, if its driver knows.
fn cause(settings: &LinkSettings) -> Option<String> {
    let extended = settings.state.as_ref()?.extended?;
    let more = extended.substate.and_then(|substate| substate.meaning);
    Some(match more {
        Some(more) => format!("{}: {more}", extended.state),
        None => extended.state.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use dcb::{DcbSettings, DcbxMode, Pfc};
    use ethtool_netlink::{ExtendedState, Fec, FecMode, FecStatistics, LinkExtState, LinkModes, LinkState};

    use super::*;

    #[test]
    fn a_link_is_a_line_and_causes_are_below() {
        let modes = LinkModes {
            autonegotiation: true,
            speed: Some(200_000),
            duplex: None,
            lanes: Some(4),
            supported: Vec::new(),
            advertised: Vec::new(),
            peer: Vec::new(),
            highest_supported_speed: Some(400_000),
        };
        let fec = Fec {
            active: Some(FecMode::Rs),
            auto: true,
            modes: Vec::new(),
            statistics: FecStatistics::default(),
        };
        let dcb = DcbSettings {
            pfc: Some(Pfc { enabled: vec![3, 4], ..Pfc::default() }),
            dcbx: Some(DcbxMode { host: true, ..DcbxMode::default() }),
            ..DcbSettings::default()
        };
        let up = LinkSettings {
            link: "p0".into(),
            modes: Some(modes),
            fec: Some(fec),
            dcb: Some(dcb),
            ..LinkSettings::default()
        };
        let state = LinkState {
            up: Some(false),
            sqi: None,
            sqi_max: None,
            extended: Some(ExtendedState { state: LinkExtState::NoCable, substate: None }),
            down_events: Some(2),
        };
        let down = LinkSettings {
            link: "p1".into(),
            state: Some(state),
            dcb: Some(DcbSettings {
                pfc: Some(Pfc::default()),
                dcbx: Some(DcbxMode::default()),
                ..DcbSettings::default()
            }),
            ..LinkSettings::default()
        };
        let report = |device: &str, settings| LinkReport { rdma_devices: vec![device.into()], settings };
        let second = LinkSettings { link: "p2".into(), dcb: None, ..down.clone() };
        let mut out = Vec::new();
        print(&[report("mlx5_0", up), report("mlx5_1", down), report("mlx5_2", second)], &mut out).unwrap();
        let expected = "\
LINK  RDMA-DEVICE  SPEED   MAX-SPEED  FEC  MODULE  TEMPERATURE  PFC  DCB-BY
p0    mlx5_0       200000  400000     RS   -       -            3,4  host
p1    mlx5_1       -       -          -    -       -            off  firmware
p2    mlx5_2       -       -          -    -       -            -    -

Down:
  p1: no cable
  p2: no cable
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
