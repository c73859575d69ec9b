//! The list of RDMA devices while one of them is moved. The kernel sends it one device at a time.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use ::rdma::{Device, Handle};
use netns::NetNs;
use silkrail_tests::machine::LabMachine;
use sysfs::Sysfs;

/// The time that the device stays where it is.
const PAUSE: Duration = Duration::from_millis(30);

/// Ends the moves, also if the test panics.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Moves a device to a pod and back until `end`, as pods come and go; returns how often.
fn move_to_and_fro(device: &Device, pod: &NetNs, end: &AtomicBool) -> usize {
    let (rdma, host) = (Handle::open(&Sysfs::system()).unwrap(), NetNs::current().unwrap());
    let mut moves = 0;
    while !end.load(Relaxed) {
        rdma.move_device(device, pod).unwrap();
        thread::sleep(PAUSE);
        ::rdma::move_device_from(pod, |inside| inside.find_device_by_index(device.index), &host).unwrap();
        thread::sleep(PAUSE);
        moves += 1;
    }
    moves
}

fn names(devices: &[Device]) -> Vec<&str> {
    devices.iter().map(|device| device.name.as_str()).collect()
}

#[test]
fn a_device_that_moves_neither_hides_nor_doubles_another() {
    let machine = LabMachine::exclusive();
    let pod = machine.node.pod("a");
    let netns = NetNs::open(pod.path()).unwrap();
    let rdma = Handle::open(&Sysfs::system()).unwrap();
    let all = rdma.devices().unwrap();
    let moving = all.iter().find(|device| device.name == machine.vf("eth0", 0).rdma).unwrap();
    let staying: Vec<_> = all.iter().filter(|device| device.index != moving.index).cloned().collect();
    let last = staying.last().unwrap();
    assert!(last.index > moving.index, "the device that moves must come before others in the kernel's list");

    let end = AtomicBool::new(false);
    let (mut lists, mut incomplete) = (0, 0);
    let moves = thread::scope(|scope| {
        let mover = scope.spawn(|| move_to_and_fro(moving, &netns, &end));
        let end_of_moves = EndOnDrop(&end);
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut compared = || {
            let mut listed = rdma.devices().unwrap();
            listed.retain(|device| device.index != moving.index);
            lists += 1;
            incomplete += usize::from(listed.len() < staying.len());
            let is_wrong =
                listed.iter().any(|device| !staying.contains(device)) || listed.len() > staying.len();
            if is_wrong { Err(names(&listed).join(", ")) } else { Ok(rdma.find_device(&last.name).unwrap()) }
        };
        let mut result = Ok(());
        while Instant::now() < deadline && result.is_ok() {
            result = match compared() {
                Ok(found) if found.as_ref() == Some(last) => Ok(()),
                other => Err(format!("{other:?}")),
            };
        }
        drop(end_of_moves);
        let moves = mover.join().unwrap();
        result.unwrap();
        moves
    });
    assert!(moves >= 20 && lists >= 50, "{moves} moves and {lists} lists are too few for a judgement");
    // A list is incomplete if the device moved during two dumps.
    assert!(incomplete * 50 <= lists, "{incomplete} of {lists} lists were incomplete during {moves} moves");
}
