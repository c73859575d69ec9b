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

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
        sync::mpsc,
        time::Duration,
    };

    use super::*;
    use crate::TlsFiles;

    /// A daemon that calls `before` its only reply, and `after` the client has read it.
    fn node(
        name: &str,
        before: impl FnOnce() + Send + 'static,
        after: impl FnOnce() + Send + 'static,
    ) -> NodeAddress {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let reply = format!("HTTP/1.1 200 OK\r\n\r\n{{\"node\": \"{name}\", \"devices\": []}}");
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            before();
            stream.write_all(reply.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
            after();
        });
        address.parse().unwrap()
    }

    #[test]
    fn nodes_are_read_at_the_same_time_and_returned_in_their_order() {
        let (served, is_served) = mpsc::channel();
        let slow = node("slow", move || is_served.recv().unwrap(), || ());
        let fast = node("fast", || (), move || served.send(()).unwrap());
        let closed = "127.0.0.1:1".parse().unwrap();
        let addresses = [slow, closed, fast];
        let timeout = Duration::from_secs(60);
        let client = DaemonClient::new(&addresses, timeout, None, &TlsFiles::default()).unwrap();
        let readings = read_all(&client, &addresses, 2);
        assert!(readings.iter().map(|reading| &reading.address).eq(&addresses));
        let names: Vec<_> =
            readings.iter().map(|reading| reading.result.as_ref().ok().map(|report| &*report.node)).collect();
        assert_eq!(names, [Some("slow"), None, Some("fast")]);
    }
}
