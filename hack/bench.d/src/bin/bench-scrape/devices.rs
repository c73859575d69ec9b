//! The simulated RDMA devices in the namespaces of pods.

use std::{
    fs,
    io::{Read, Write},
    os::unix::fs::MetadataExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use podmap::{AttachMode, Entry, PodMap};

use crate::{DEVICES, NAMESPACES, QUEUE_PAIRS, Result};

fn tool(program: &str, arguments: &[&str]) -> Result<()> {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("{program} {arguments:?}: {status}").into()) }
}

/// Creates the devices.
pub(crate) fn create() -> Result<()> {
    tool("rdma", &["system", "set", "netns", "exclusive"])?;
    tool("lab-vfs", &["7", "eth0", "eth1"])?;
    set_all("twins", "15")?;
    let deadline = Instant::now() + Duration::from_secs(30);
    while names()?.len() < DEVICES {
        if Instant::now() > deadline {
            return Err(format!("expected {DEVICES} devices, got {}", names()?.len()).into());
        }
        sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Writes a debugfs setting of every simulated device.
pub(crate) fn set_all(setting: &str, value: &str) -> Result<()> {
    for device in fs::read_dir("/sys/kernel/debug/rdmasim")? {
        let file = device?.path().join(setting);
        if file.exists() {
            fs::write(file, value)?;
        }
    }
    Ok(())
}

fn names() -> Result<Vec<String>> {
    let entries = fs::read_dir("/sys/class/infiniband")?;
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name().display().to_string()).collect();
    names.sort();
    Ok(names)
}

/// Moves the devices into the pods, and writes a pod map entry for each pod, as the plugins do.
pub(crate) fn move_to_pods() -> Result<()> {
    let map = PodMap::below("/run/silkrail".as_ref());
    let boot_id = bootid::current()?;
    for (number, devices) in names()?.chunks(DEVICES / NAMESPACES).enumerate() {
        let name = format!("pod-{number}");
        tool("ip", &["netns", "add", &name])?;
        for device in devices {
            tool("rdma", &["dev", "set", device, "netns", &name])?;
        }
        let attachment = format!("c{number}@net1").parse()?;
        let mut entry = Entry::new("rdma", format!("c{number}@net1").parse()?);
        entry.boot_id = boot_id.into();
        entry.pod = Some(podmap::PodRef {
            namespace: "bench".into(),
            name: name.clone(),
            uid: Some(format!("00000000-0000-4000-8000-{number:012x}")),
        });
        entry.container.netns_path = PathBuf::from("/run/netns").join(&name);
        let meta = fs::metadata(&entry.container.netns_path)?;
        (entry.container.netns_dev, entry.container.netns_ino) = (meta.dev(), meta.ino());
        entry.rdma.mode = AttachMode::Exclusive;
        entry.rdma.ibdev = devices.first().cloned();
        map.write(&attachment, &entry)?;
    }
    Ok(())
}

/// Creates queue pairs on the devices in the arguments that follow their number, as libibverbs does for a device with a provider.
/// Then it prints a line, and creates one more on each device for each line of its input. The numbers are those of `rdma/ib_user_verbs.h`: a command, its length and that of its reply in
/// words of four bytes.
const CREATE_QUEUE_PAIRS: &str = r#"
    my ($count, @devices) = @ARGV;
    my @open;
    sub request {
        my ($verbs, $command, $words, $arguments) = @_;
        my $reply = "\0" x (4 * $words);
        my $body = pack("Q", unpack("Q", pack("p", $reply))) . $arguments;
        my $request = pack("L S S", $command, (8 + length $body) / 4, $words) . $body;
        syswrite($verbs, $request) == length $request or die "command $command: $!";
        return unpack("L", $reply);
    }
    for my $device (@devices) {
        open(my $verbs, "+<", $device) or die "$device: $!";
        request($verbs, 0, 2, "");
        my $domain = request($verbs, 3, 1, "");
        my $completions = request($verbs, 18, 2, pack("Q L L l L", 0, 1, 0, -1, 0));
        push @open, [$verbs, pack("Q L9 C4", 0, $domain, $completions, $completions, 0, 1, 1, 1, 1, 0, 0, 2, 0, 0)];
        request($verbs, 24, 8, $open[-1][1]) for 1 .. $count;
    }
    $| = 1;
    print "created\n";
    while (<STDIN>) {
        request($_->[0], 24, 8, $_->[1]) for @open;
        print "created\n";
    }
"#;

/// Processes that have queue pairs, which are killed on drop.
pub(crate) struct QueuePairs(Vec<Child>);

impl QueuePairs {
    /// Creates queue pairs in each pod.
    pub(crate) fn create() -> Result<Self> {
        let mut all = Self(Vec::new());
        for number in 0..NAMESPACES {
            let pod = format!("pod-{number}");
            let mut command = Command::new("ip");
            command.args(["netns", "exec", &pod, "sh", "-c", CREATE_IN_POD, "sh"]);
            command.args([&(QUEUE_PAIRS / DEVICES).to_string(), CREATE_QUEUE_PAIRS]);
            all.0.push(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
        }
        all.wait_until_created()?;
        Ok(all)
    }

    /// Creates one more on each device.
    pub(crate) fn add_one_each(&mut self) -> Result<()> {
        for child in &mut self.0 {
            child.stdin.as_mut().ok_or("no input")?.write_all(b"\n")?;
        }
        self.wait_until_created()
    }

    fn wait_until_created(&mut self) -> Result<()> {
        for child in &mut self.0 {
            let mut line = [0; 8];
            child.stdout.as_mut().ok_or("no output")?.read_exact(&mut line)?;
            if &line != b"created\n" {
                return Err(format!("unexpected output: {}", String::from_utf8_lossy(&line)).into());
            }
        }
        Ok(())
    }
}

/// Runs the program for the devices of the pod: `/sys` of the namespace shows no others.
const CREATE_IN_POD: &str = r#"
    count=$1 program=$2
    shift 2
    for uverbs in /sys/class/infiniband_verbs/uverbs*; do
        [ -e "/sys/class/infiniband/$(cat "$uverbs/ibdev")" ] && set -- "$@" "/dev/infiniband/${uverbs##*/}"
    done
    exec perl -e "$program" "$count" "$@"
"#;

impl Drop for QueuePairs {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
