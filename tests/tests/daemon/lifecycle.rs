//! Termination, and errors at start.

use std::{
    io::Write,
    net::{TcpListener, TcpStream},
};

use silkrail_tests::daemon;

use crate::DaemonFixture;

#[test]
fn sigterm_ends_it_with_success_while_clients_are_connected() {
    let node = DaemonFixture::new();
    let daemon = node.serve(&[]);
    let silent = TcpStream::connect(daemon.address()).unwrap();
    let mut slow = TcpStream::connect(daemon.address()).unwrap();
    slow.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n").unwrap();
    assert_eq!(daemon.request("GET /healthz", &[]).status, 200, "both connections are accepted");
    assert_eq!(daemon.terminate().0, Some(0));
    drop((silent, slow));
}

#[test]
fn the_error_of_a_port_in_use_has_a_remedy() {
    let node = DaemonFixture::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, free) = (taken.local_addr().unwrap().to_string(), "127.0.0.1:0");
    for (option, ports) in
        [("--listen", [address.as_str(), free]), ("--health.listen", [free, address.as_str()])]
    {
        let ports = ["--listen", ports[0], "--health.listen", ports[1]];
        let output = daemon::run(&[&node.options()[..], &ports].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        for part in [address.as_str(), "Address already in use", &format!("with {option}")] {
            assert!(stderr.contains(part), "{stderr}");
        }
        assert!(!stderr.contains("serving"), "{stderr}");
    }
}
