//! Reads many nodes at the same time.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::{DaemonClient, NodeAddress, NodeReport};

/// What was read of a node.
#[derive(Debug)]
pub struct NodeReading {
    /// The address.
    pub address: NodeAddress,
    /// What the daemon reports, or why it could not be read.
    pub result: Result<NodeReport, String>,
}

/// Reads the nodes, at most `concurrency` at the same time. Returns them in their order.
pub fn read_all(client: &DaemonClient, addresses: &[NodeAddress], concurrency: usize) -> Vec<NodeReading> {
    let (next, readings) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((number, address)) = {
            let number = next.fetch_add(1, Ordering::Relaxed);
            addresses.get(number).map(|address| (number, address))
        } {
            let result = client.fetch(address).map_err(|error| error.to_string());
            let result = result.and_then(|json| NodeReport::parse(&json).map_err(|error| error.to_string()));
            if let Ok(mut readings) = readings.lock() {
                readings.push((number, NodeReading { address: address.clone(), result }));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..concurrency.min(addresses.len()) {
            scope.spawn(work);
        }
    });
    let mut readings = readings.into_inner().unwrap_or_default();
    readings.sort_by_key(|(number, _)| *number);
    readings.into_iter().map(|(_, reading)| reading).collect()
}
