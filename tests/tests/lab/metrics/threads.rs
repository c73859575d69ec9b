//! Objects whose maker has ended: the kernel then names nobody.

use std::fs;

use silkrail_tests::{
    daemon::Daemon,
    kube_pod::KubePod,
    rxe::{DEVICE, Rxe, RxeProgram},
    scrape::Scrape,
};
use testkit::wait_until;

const UID: &str = "0c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3";

/// Makes a context, a protection domain, a completion queue and a queue pair: the context in the main thread if so told, the
/// others in a thread of its own, which ends when the file of its third argument is there. The commands are those of
/// `ib_user_verbs.h`; behind each answer there is room for what rxe adds to it.
const WORKER: &str = r#"
    use threads;
    my ($device, $maker, $go) = @ARGV;
    open(my $verbs, "+<", $device) or die "$device: $!";
    sub ask {
        my ($what, $number, $room, $arguments) = @_;
        my $answer = "\0" x $room;
        my $words = (16 + length $arguments) / 4;
        my $command = pack("L S S Q", $number, $words, $room / 4, unpack("Q", pack("p", $answer))) . $arguments;
        syswrite($verbs, $command) == length $command or die "make a $what: $!";
        return unpack("L", $answer);
    }
    sub context { ask("context", 0, 8, "") }
    sub others {
        my $domain = ask("protection domain", 3, 4, "");
        my $queue = ask("completion queue", 18, 8 + 16, pack("Q L L l L", 0, 16, 0, -1, 0));
        ask("queue pair", 24, 32 + 32, pack("Q L4 L5 C4", 0, $domain, $queue, $queue, 0, 4, 4, 1, 1, 0, 1, 2, 0, 0));
    }
    context() if $maker eq "main";
    threads->create(sub {
        context() if $maker eq "worker";
        others();
        select(undef, undef, undef, 0.02) until -e $go;
    })->join;
    sleep 600;
"#;

fn uverbs() -> String {
    let devices = fs::read_dir("/sys/class/infiniband_verbs").unwrap().flatten();
    let is_ours = |path: &std::path::Path| {
        fs::read_to_string(path.join("ibdev")).is_ok_and(|name| name.trim() == DEVICE)
    };
    let found = devices.map(|entry| entry.path()).find(|path| is_ours(path)).unwrap();
    format!("/dev/infiniband/{}", found.file_name().unwrap().to_str().unwrap())
}

fn counts(scrape: &Scrape, pod: &KubePod) -> Vec<(String, String)> {
    let samples = scrape.of("rdma_pod_resources", &pod.labels());
    samples.iter().map(|sample| (sample.label("resource").to_owned(), sample.value.clone())).collect()
}

/// How many queue pairs of which the kernel knows the maker.
fn with_maker(rxe: &Rxe) -> usize {
    rxe.printed("qp").iter().filter(|one| one["pid"].as_u64().is_some_and(|pid| pid > 0)).count()
}

#[test]
fn objects_of_a_thread_that_has_ended_are_still_the_pod_s() {
    let rxe = Rxe::new();
    let all: Vec<_> = ["ctx", "pd", "cq", "qp"].map(|kind| (kind.to_owned(), "1".to_owned())).into();
    let sorted = |mut counts: Vec<_>| {
        counts.sort();
        counts
    };
    for maker in ["main", "worker"] {
        let pod = KubePod::new("train", maker, UID);
        let go = rxe.machine.node.state_dir().with_file_name(format!("go-{maker}"));
        let daemon = daemon(&rxe);
        let program: RxeProgram = pod.run("perl", &["-e", WORKER, &uverbs(), maker, go.to_str().unwrap()]);
        wait_until("the queue pair is there", || with_maker(&rxe) == 1);
        assert_eq!(sorted(counts(&daemon.scrape(), &pod)), sorted(all.clone()), "{maker}: while it runs");
        fs::write(&go, "").unwrap();
        wait_until("the kernel knows the maker no more", || with_maker(&rxe) == 0);
        assert_eq!(sorted(counts(&daemon.scrape(), &pod)), sorted(all.clone()), "{maker}: after its end");
        if maker == "main" {
            // A silkraild that has not seen the thread goes by the context alone.
            assert_eq!(sorted(counts(&self::daemon(&rxe).scrape(), &pod)), sorted(all.clone()));
        }
        drop(program);
        wait_until("its objects are gone", || rxe.printed("qp").len() == 1);
        assert!(counts(&daemon.scrape(), &pod).is_empty(), "{maker}");
    }
}

fn daemon(rxe: &Rxe) -> Daemon {
    Daemon::start(&["--state-dir", rxe.machine.node.state_dir().to_str().unwrap()])
}
