//! Prints the results of this crate, one JSON object per line, for comparison with `rdma -j` on a real kernel.
//!
//! ```text
//! probe                         devices, ports, counters, GIDs, mode
//! probe mode MODE               sets the RDMA mode
//! probe move DEVICE FROM TO     moves a device; FROM and TO are names below /run/netns, or - for the own namespace
//! probe on INDEX...             ports of links
//! probe of FUNCTION             the device of a PCI function
//! probe gid DEVICE ADDRESS      the GID index of an address
//! probe wait FUNCTION MILLIS    waits until the function's device has returned
//! ```

#![expect(clippy::print_stdout, reason = "a program whose purpose is its output")]

use std::{
    error::Error,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use netns::NetNs;
use rdma::{Device, Handle, Port};
use serde_json::json;
use sysfs::Sysfs;

type ProbeResult = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let begin = Instant::now();
    let outcome = run(&arguments);
    let micros = begin.elapsed().as_micros();
    match outcome {
        Ok(()) => {
            println!("{}", json!({"done": arguments, "micros": micros}));
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{}", json!({"failed": arguments, "error": error.to_string(), "micros": micros}));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> ProbeResult {
    let sysfs = Sysfs::system();
    let rdma = rdma::Handle::open(&sysfs)?;
    match arguments {
        [] => everything(&rdma, &sysfs),
        ["mode", mode] => Ok(rdma.set_netns_mode(mode.parse()?)?),
        ["move", device, from, to] => {
            let find = |rdma: &Handle| rdma.find_device(device);
            let moved = rdma::move_device_from(&namespace(from)?, find, &namespace(to)?)?;
            moved.map(drop).ok_or_else(|| format!("no RDMA device {device} in {from}").into())
        }
        ["on", links @ ..] => {
            let links = links.iter().map(|link| link.parse()).collect::<Result<Vec<u32>, _>>()?;
            rdma.ports_on(&links)?.iter().for_each(print_port);
            Ok(())
        }
        ["of", function] => {
            print_device(&rdma.device_of(&sysfs, &function.parse()?)?);
            Ok(())
        }
        ["gid", device, address] => {
            println!("{}", json!({"index": sysfs.find_gid(device, 1, address.parse()?)?}));
            Ok(())
        }
        ["wait", function, millis] => {
            let deadline = Instant::now() + Duration::from_millis(millis.parse()?);
            let found = rdma.wait_for_return(&sysfs, &function.parse()?, deadline)?;
            found.iter().for_each(print_device);
            Ok(())
        }
        _ => Err("see the head of probe.rs".into()),
    }
}

fn namespace(name: &str) -> Result<NetNs, netns::Error> {
    if name == "-" { NetNs::current() } else { NetNs::open(&Path::new("/run/netns").join(name)) }
}

fn everything(rdma: &Handle, sysfs: &Sysfs) -> ProbeResult {
    println!("{}", json!({"mode": rdma.netns_mode()?, "parameter": sysfs.shared_netns_parameter()?}));
    for device in rdma.devices()? {
        print_device(&device);
        for port in rdma.ports(&device)? {
            print_port(&port);
            print_counters(rdma, &device, &port)?;
            print_gids(sysfs, &port);
        }
    }
    Ok(())
}

fn print_device(device: &Device) {
    let Device { index, name, node_guid, protocol, ports, .. } = device;
    let kind = format!("{:?}", device.node_type);
    println!(
        "{}",
        json!({"device": name, "ifindex": index, "node_guid": node_guid.to_string(), "protocol": protocol,
               "ports": ports, "node_type": kind, "fw": device.fw_version})
    );
}

fn print_port(port: &Port) {
    let states = format!("{:?} {:?} {:?}", port.state, port.phys_state, port.link_layer);
    println!(
        "{}",
        json!({"port": format!("{}/{}", port.device_name, port.port), "states": states,
               "netdev": port.link_name, "netdev_index": port.link})
    );
}

fn print_counters(rdma: &Handle, device: &Device, port: &Port) -> ProbeResult {
    for counter in rdma.hw_counters(device, port.port)? {
        println!("{}", json!({"counter": counter.name, "of": device.name, "value": counter.value}));
    }
    Ok(())
}

fn print_gids(sysfs: &Sysfs, port: &Port) {
    match sysfs.gid_table(&port.device_name, port.port) {
        Ok(table) => table.entries.iter().for_each(|gid| {
            let kind = format!("{:?}", gid.kind);
            println!("{}", json!({"gid": gid.gid, "index": gid.index, "type": kind, "netdev": gid.link}));
        }),
        Err(error) => println!("{}", json!({"gids": port.device_name, "error": error.to_string()})),
    }
}
