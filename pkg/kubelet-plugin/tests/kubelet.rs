//! A plugin and a double of the kubelet, which restarts and deletes the sockets of plugins.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use std::{
    env, fs,
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use kubelet_api::deviceplugin::{
    AllocateRequest, ContainerAllocateRequest, ContainerAllocateResponse,
    ContainerPreferredAllocationRequest, Empty, PreStartContainerRequest, PreferredAllocationRequest,
};
use kubelet_checkpoint::KubeletDirectory;
use kubelet_double::Kubelet;
use kubelet_plugin::{Device, DeviceList, Resource, ResourceError, ServeError, serve};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    sync::watch,
    task::JoinHandle,
    time::timeout,
};
use tonic::Code;

const SECOND: Duration = Duration::from_secs(1);

/// How long an answer may take: it comes at once, unless this machine is busy.
const LIMIT: Duration = Duration::from_secs(60);

struct Devices(watch::Sender<DeviceList>);

impl Resource for Devices {
    fn name(&self) -> String {
        "a.io/vf".into()
    }

    fn socket_name(&self) -> String {
        "silkrail_a.io_vf.sock".into()
    }

    fn devices(&self) -> watch::Receiver<DeviceList> {
        self.0.subscribe()
    }

    fn preferred(
        &self,
        available: &[String],
        included: &[String],
        size: usize,
    ) -> Result<Option<Vec<String>>, ResourceError> {
        let rest = available.iter().rev().filter(|id| !included.contains(id));
        Ok(Some(included.iter().chain(rest).take(size).cloned().collect()))
    }

    fn allocate(&self, ids: &[String]) -> Result<ContainerAllocateResponse, ResourceError> {
        if ids.iter().any(|id| id == "gone") {
            return Err(ResourceError("device gone does not exist".into()));
        }
        let envs = [("DEVICES".to_owned(), ids.join(","))].into();
        Ok(ContainerAllocateResponse { envs, ..ContainerAllocateResponse::default() })
    }

    fn check(&self, ids: &[String]) -> Result<(), ResourceError> {
        if ids == ["a"] { Ok(()) } else { Err(ResourceError("not in the pod".into())) }
    }
}

/// A plugin in the directory of a kubelet.
struct Plugin {
    devices: Arc<Devices>,
    ends: watch::Sender<bool>,
    task: JoinHandle<Result<(), ServeError>>,
}

impl Plugin {
    fn start(directory: &Path) -> Self {
        let device = |id: &str, numa_node| Device { id: id.into(), is_healthy: true, numa_node };
        let devices = Arc::new(Devices(watch::Sender::new(vec![device("a", Some(1)), device("b", None)])));
        let (ends, has_ended) = watch::channel(false);
        let (directory, resource) = (KubeletDirectory(directory.to_owned()), Arc::clone(&devices));
        let task = tokio::spawn(async move { serve(&directory, resource, has_ended).await });
        Self { devices, ends, task }
    }

    async fn end(self) {
        self.ends.send(true).unwrap();
        timeout(LIMIT, self.task).await.expect("it ends").unwrap().unwrap();
    }
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test]
async fn a_resource_is_registered_and_its_devices_are_watched() {
    let directory = directory();
    let mut kubelet = Kubelet::start(directory.path(), 0);
    let plugin = Plugin::start(directory.path());
    let request = kubelet.registration().await;
    assert_eq!((request.version.as_str(), request.resource_name.as_str()), ("v1beta1", "a.io/vf"));
    assert_eq!(request.endpoint, "silkrail_a.io_vf.sock", "a file name");
    let options = request.options.unwrap();
    let mut client = kubelet.plugin(&request.endpoint).await;
    assert_eq!(client.get_device_plugin_options(Empty {}).await.unwrap().into_inner(), options);
    assert!(options.pre_start_required && options.get_preferred_allocation_available);
    let mut lists = client.list_and_watch(Empty {}).await.unwrap().into_inner();
    let list = lists.message().await.unwrap().unwrap().devices;
    let facts: Vec<_> = list.iter().map(|device| (device.id.as_str(), device.health.as_str())).collect();
    assert_eq!(facts, [("a", "Healthy"), ("b", "Healthy")]);
    assert_eq!(list[0].topology.as_ref().unwrap().nodes[0].id, 1);
    assert_eq!(list[1].topology, None);
    plugin.devices.0.send_modify(|devices| devices[1].is_healthy = false);
    let list = timeout(LIMIT, lists.message()).await.unwrap().unwrap().unwrap().devices;
    assert_eq!((list.len(), list[1].health.as_str()), (2, "Unhealthy"), "always all devices");
    plugin.end().await;
    assert!(!matches!(timeout(LIMIT, lists.message()).await.unwrap(), Ok(Some(_))), "the stream ends");
    let left: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["kubelet.sock"]);
}

#[tokio::test]
async fn calls_are_answered_and_errors_have_texts() {
    let directory = directory();
    let mut kubelet = Kubelet::start(directory.path(), 0);
    let plugin = Plugin::start(directory.path());
    let endpoint = kubelet.registration().await.endpoint;
    let mut client = kubelet.plugin(&endpoint).await;
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
    let container = ContainerPreferredAllocationRequest {
        available_device_i_ds: ids(&["a", "b", "c"]),
        must_include_device_i_ds: ids(&["b"]),
        allocation_size: 2,
    };
    let other = ContainerPreferredAllocationRequest { allocation_size: 1, ..container.clone() };
    let request = PreferredAllocationRequest { container_requests: vec![container, other] };
    let answer = client.get_preferred_allocation(request).await.unwrap().into_inner();
    let preferred: Vec<_> = answer.container_responses.into_iter().map(|it| it.device_i_ds).collect();
    assert_eq!(preferred, [ids(&["b", "c"]), ids(&["b"])]);
    let containers = |lists: &[&[&str]]| AllocateRequest {
        container_requests: lists
            .iter()
            .map(|list| ContainerAllocateRequest { devices_ids: ids(list) })
            .collect(),
    };
    let answer = client.allocate(containers(&[&["a", "b"], &["c"]])).await.unwrap().into_inner();
    let devices: Vec<_> =
        answer.container_responses.iter().map(|answer| answer.envs["DEVICES"].as_str()).collect();
    assert_eq!(devices, ["a,b", "c"]);
    let error = client.allocate(containers(&[&["a"], &["gone"]])).await.unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::FailedPrecondition, "device gone does not exist"));
    client.pre_start_container(PreStartContainerRequest { devices_ids: ids(&["a"]) }).await.unwrap();
    let error =
        client.pre_start_container(PreStartContainerRequest { devices_ids: ids(&["b"]) }).await.unwrap_err();
    assert_eq!(error.message(), "not in the pod");
    plugin.end().await;
}

/// The open files are counted in a process in which no other test opens any: the test starts itself.
#[tokio::test]
async fn a_restarted_kubelet_gets_the_resource_at_once() {
    const ALONE: &str = "KUBELET_PLUGIN_TEST_ALONE";
    if env::var_os(ALONE).is_none() {
        let mut test = Command::new(env::current_exe().unwrap());
        test.args(["--exact", "a_restarted_kubelet_gets_the_resource_at_once"]).env(ALONE, "1");
        let output = test.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
        return;
    }
    let directory = directory();
    let mut kubelet = Kubelet::start(directory.path(), 0);
    let plugin = Plugin::start(directory.path());
    kubelet.registration().await;
    let open_files = || fs::read_dir("/proc/self/fd").unwrap().count();
    let mut counts = Vec::new();
    for _ in 0..20 {
        kubelet.stop();
        kubelet = Kubelet::start(directory.path(), 0);
        let request = kubelet.registration().await;
        let mut client = kubelet.plugin(&request.endpoint).await;
        let mut lists = client.list_and_watch(Empty {}).await.unwrap().into_inner();
        assert_eq!(lists.message().await.unwrap().unwrap().devices.len(), 2);
        counts.push(open_files());
    }
    assert!(counts[19] <= counts[4] + 2, "{counts:?}");
    assert!(!kubelet.has_registration(), "registered once by each kubelet");
    plugin.end().await;
}

#[tokio::test]
async fn a_kubelet_that_no_longer_watches_gets_the_resource_again() {
    let directory = directory();
    let mut kubelet = Kubelet::start(directory.path(), 0);
    let plugin = Plugin::start(directory.path());
    let endpoint = kubelet.registration().await.endpoint;
    let mut began = Instant::now();
    for _ in 0..2 {
        let mut client = kubelet.plugin(&endpoint).await;
        let mut lists = client.list_and_watch(Empty {}).await.unwrap().into_inner();
        lists.message().await.unwrap();
        tokio::time::sleep(6 * SECOND).await;
        assert!(!kubelet.has_registration(), "it watches");
        drop((client, lists));
        began = Instant::now();
        kubelet.registration().await;
    }
    tokio::time::sleep(2 * SECOND).await;
    assert!(!kubelet.has_registration() || began.elapsed() >= 5 * SECOND, "it has time to watch");
    plugin.end().await;
}

#[tokio::test]
async fn a_kubelet_that_is_not_there_is_waited_for() {
    let root = directory();
    let directory = root.path().join("kubelet/device-plugins");
    let plugin = Plugin::start(&directory);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut kubelet = Kubelet::start(&directory, 3);
    kubelet.registration().await;
    // The directory is deleted with the kubelet's root, and created again.
    kubelet.stop();
    fs::remove_dir_all(root.path().join("kubelet")).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut kubelet = Kubelet::start(&directory, 0);
    kubelet.registration().await;
    plugin.end().await;
}

#[tokio::test]
async fn a_socket_that_was_deleted_is_created_again() {
    let directory = directory();
    let mut kubelet = Kubelet::start(directory.path(), 0);
    let plugin = Plugin::start(directory.path());
    let endpoint = kubelet.registration().await.endpoint;
    // A kubelet that does not watch would get the resource again anyway.
    let mut client = kubelet.plugin(&endpoint).await;
    let mut lists = client.list_and_watch(Empty {}).await.unwrap().into_inner();
    lists.message().await.unwrap();
    fs::remove_file(directory.path().join(&endpoint)).unwrap();
    timeout(LIMIT, kubelet.registration()).await.unwrap();
    kubelet.plugin(&endpoint).await.get_device_plugin_options(Empty {}).await.unwrap();
    plugin.end().await;
}

#[tokio::test]
async fn during_an_update_the_socket_of_the_new_process_stays() {
    let directory = directory();
    let mut kubelet = Kubelet::start(directory.path(), 0);
    let old = Plugin::start(directory.path());
    let endpoint = kubelet.registration().await.endpoint;
    old.task.abort();
    let new = Plugin::start(directory.path());
    kubelet.registration().await;
    assert!(directory.path().join(&endpoint).exists());
    new.end().await;
    assert!(!directory.path().join(&endpoint).exists());
    // An old process that ends just after the new one has created its socket.
    let mut kubelet = Kubelet::start(directory.path(), 0);
    let old = Plugin::start(directory.path());
    let path = directory.path().join(kubelet.registration().await.endpoint);
    fs::remove_file(&path).unwrap();
    fs::write(&path, "of the new process").unwrap();
    old.end().await;
    assert_eq!(fs::read_to_string(path).unwrap(), "of the new process");
}

/// Before Kubernetes 1.26 the kubelet sends the path of the socket as authority, which no URI can have.
#[tokio::test]
async fn a_kubelet_that_sends_the_path_of_the_socket_as_authority_is_answered() {
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    let directory = directory();
    let mut kubelet = Kubelet::start(directory.path(), 0);
    let plugin = Plugin::start(directory.path());
    let path = directory.path().join(kubelet.registration().await.endpoint);
    let authority = path.to_str().unwrap().as_bytes();
    let fields: [(&[u8], &[u8]); 6] = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/v1beta1.DevicePlugin/GetDevicePluginOptions"),
        (b":authority", authority),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    ];
    let block = loona_hpack::Encoder::new().encode(fields);
    let length = u8::try_from(block.len()).unwrap();
    let (head, empty_message) =
        ([0, 0, length, HEADERS, 4, 0, 0, 0, 1], [0, 0, 5, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let mut stream = UnixStream::connect(&path).await.unwrap();
    let request =
        [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings, &head, &block, &empty_message].concat();
    stream.write_all(&request).await.unwrap();
    let answer = async {
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await.unwrap();
            let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
            stream.read_exact(&mut payload).await.unwrap();
            if matches!(head[3], HEADERS | RST_STREAM) {
                return head[3];
            }
        }
    };
    assert_eq!(timeout(LIMIT, answer).await.unwrap(), HEADERS);
    plugin.end().await;
}
