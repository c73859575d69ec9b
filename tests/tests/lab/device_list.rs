//! The list of RDMA devices while one of them is moved. The kernel sends it one device at a time.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
    time::Duration,
};

use ::rdma::{Device, Handle};
use netns::NetNs;
use silkrail_tests::machine::LabMachine;
use sysfs::Sysfs;

/// The number of moves to a pod and back.
const MOVES: usize = 100;

/// The number of lists for which the device stays where it is.
const LISTS: usize = 5;

/// The lists of one thread, and whether they have ended.
#[derive(Default)]
struct ListsSoFar {
    number: AtomicUsize,
    have_ended: AtomicBool,
}

impl ListsSoFar {
    /// Waits for the next few lists.
    fn wait(&self) {
        let last = self.number.load(Relaxed) + LISTS;
        while self.number.load(Relaxed) < last && !self.have_ended.load(Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Ends the moves, also if the test panics.
struct EndOnDrop<'a>(&'a ListsSoFar);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.have_ended.store(true, Relaxed);
    }
}

/// Moves a device to a pod and back, as pods come and go.
fn move_to_and_fro(device: &Device, pod: &NetNs, lists: &ListsSoFar) {
    let (rdma, host) = (Handle::open(&Sysfs::system()).unwrap(), NetNs::current().unwrap());
    for _ in (0..MOVES).take_while(|_| !lists.have_ended.load(Relaxed)) {
        rdma.move_device(device, pod).unwrap();
        lists.wait();
        ::rdma::move_device_from(pod, |inside| inside.find_device_by_index(device.index), &host).unwrap();
        lists.wait();
    }
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

    let lists = ListsSoFar::default();
    let mut incomplete = 0;
    thread::scope(|scope| {
        let mover = scope.spawn(|| move_to_and_fro(moving, &netns, &lists));
        let end_of_moves = EndOnDrop(&lists);
        let mut compared = || {
            let mut listed = rdma.devices().unwrap();
            listed.retain(|device| device.index != moving.index);
            lists.number.fetch_add(1, Relaxed);
            incomplete += usize::from(listed.len() < staying.len());
            let is_wrong =
                listed.iter().any(|device| !staying.contains(device)) || listed.len() > staying.len();
            if is_wrong { Err(names(&listed).join(", ")) } else { Ok(rdma.find_device(&last.name).unwrap()) }
        };
        let mut result = Ok(());
        while !mover.is_finished() && result.is_ok() {
            result = match compared() {
                Ok(found) if found.as_ref() == Some(last) => Ok(()),
                other => Err(format!("{other:?}")),
            };
        }
        drop(end_of_moves);
        mover.join().unwrap();
        result.unwrap();
    });
    let lists = lists.number.into_inner();
    // A list is incomplete if the device moved during two dumps.
    assert!(incomplete * 50 <= lists, "{incomplete} of {lists} lists were incomplete during {MOVES} moves");
}
