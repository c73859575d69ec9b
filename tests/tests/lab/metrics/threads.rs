//! Objects whose creating thread has ended: the kernel then reports no PID for them.

use std::fs;

use silkrail_tests::{
    daemon::Daemon,
    kube_pod::KubePod,
    rxe::{DEVICE, Rxe, RxeProgram},
    scrape::Scrape,
};
use testkit::wait_until;

const UID: &str = "0c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3";

/// Creates a context, a protection domain, a completion queue and a queue pair: the context in the main thread if the second
/// argument is `main`, the others in a worker thread, which ends when the file of the third argument exists. The commands are
/// those of `ib_user_verbs.h`; each response has room for the fields that rxe appends.
const WORKER: &str = r#"
    use threads;
    my ($device, $creator, $end) = @ARGV;
    open(my $verbs, "+<", $device) or die "$device: $!";
    sub command {
        my ($what, $number, $room, $arguments) = @_;
        my $response = "\0" x $room;
        my $words = (16 + length $arguments) / 4;
        my $command = pack("L S S Q", $number, $words, $room / 4, unpack("Q", pack("p", $response))) . $arguments;
        syswrite($verbs, $command) == length $command or die "create a $what: $!";
        return unpack("L", $response);
    }
    sub context { command("context", 0, 8, "") }
    sub others {
        my $domain = command("protection domain", 3, 4, "");
        my $queue = command("completion queue", 18, 8 + 16, pack("Q L L l L", 0, 16, 0, -1, 0));
        command("queue pair", 24, 32 + 32, pack("Q L4 L5 C4", 0, $domain, $queue, $queue, 0, 4, 4, 1, 1, 0, 1, 2, 0, 0));
    }
    context() if $creator eq "main";
    threads->create(sub {
        context() if $creator eq "worker";
        others();
        select(undef, undef, undef, 0.02) until -e $end;
    })->join;
    sleep 600;
"#;

fn uverbs() -> String {
    let devices = fs::read_dir("/sys/class/infiniband_verbs").unwrap().flatten();
    let is_rxe = |path: &std::path::Path| {
        fs::read_to_string(path.join("ibdev")).is_ok_and(|name| name.trim() == DEVICE)
    };
    let found = devices.map(|entry| entry.path()).find(|path| is_rxe(path)).unwrap();
    format!("/dev/infiniband/{}", found.file_name().unwrap().to_str().unwrap())
}

fn counts(scrape: &Scrape, pod: &KubePod) -> Vec<(String, String)> {
    let samples = scrape.of("rdma_pod_resources", &pod.labels());
    samples.iter().map(|sample| (sample.label("resource").to_owned(), sample.value.clone())).collect()
}

/// Returns the number of queue pairs with a PID.
fn with_pid(rxe: &Rxe) -> usize {
    rxe.printed("qp").iter().filter(|one| one["pid"].as_u64().is_some_and(|pid| pid > 0)).count()
}

#[test]
fn objects_created_by_an_ended_thread_still_belong_to_the_pod() {
    let rxe = Rxe::new();
    let all: Vec<_> = ["ctx", "pd", "cq", "qp"].map(|kind| (kind.to_owned(), "1".to_owned())).into();
    let sorted = |mut counts: Vec<_>| {
        counts.sort();
        counts
    };
    for creator in ["main", "worker"] {
        let pod = KubePod::new("train", creator, UID);
        let end = rxe.machine.node.state_dir().with_file_name(format!("end-{creator}"));
        let daemon = daemon(&rxe);
        let program: RxeProgram = pod.run("perl", &["-e", WORKER, &uverbs(), creator, end.to_str().unwrap()]);
        wait_until("the queue pair exists", || with_pid(&rxe) == 1);
        assert_eq!(
            sorted(counts(&daemon.scrape(), &pod)),
            sorted(all.clone()),
            "{creator}: while the thread runs"
        );
        fs::write(&end, "").unwrap();
        wait_until("the kernel reports no PID", || with_pid(&rxe) == 0);
        assert_eq!(
            sorted(counts(&daemon.scrape(), &pod)),
            sorted(all.clone()),
            "{creator}: after the thread has ended"
        );
        if creator == "main" {
            // A silkraild that has not seen the thread uses the context alone.
            assert_eq!(sorted(counts(&self::daemon(&rxe).scrape(), &pod)), sorted(all.clone()));
        }
        drop(program);
        wait_until("the objects are gone", || rxe.printed("qp").len() == 1);
        assert!(counts(&daemon.scrape(), &pod).is_empty(), "{creator}");
    }
}

fn daemon(rxe: &Rxe) -> Daemon {
    Daemon::start(&["--state-dir", rxe.machine.node.state_dir().to_str().unwrap()])
}
