//! The bytes of messages as the kubelet's own code writes them: both ends of other tests have the code of this crate.

use kubelet_api::{
    deviceplugin::{
        AllocateRequest, AllocateResponse, CdiDevice, ContainerAllocateRequest, ContainerAllocateResponse,
        ContainerPreferredAllocationRequest, ContainerPreferredAllocationResponse, Device,
        DevicePluginOptions, DeviceSpec, ListAndWatchResponse, Mount, NumaNode, PreStartContainerRequest,
        PreferredAllocationRequest, PreferredAllocationResponse, RegisterRequest, TopologyInfo,
    },
    podresources::{
        AllocatableResourcesResponse, ContainerDevices, ContainerResources, ListPodResourcesResponse,
        PodResources,
    },
};
use prost::Message;

/// A field with bytes: a text, or another message.
fn field(number: u8, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    let length = u8::try_from(content.len()).unwrap_or(u8::MAX);
    assert!(length < 0x80, "a longer field has several bytes of length");
    [&[number << 3 | 2, length], content].concat()
}

/// A field with a number below 128.
fn number(field: u8, value: u8) -> Vec<u8> {
    vec![field << 3, value]
}

fn texts(items: &[&str]) -> Vec<String> {
    items.iter().map(|text| (*text).to_owned()).collect()
}

#[track_caller]
fn is(message: &(impl Message + std::fmt::Debug), fields: &[Vec<u8>]) {
    assert_eq!(message.encode_to_vec(), fields.concat(), "{message:?}");
}

#[test]
fn a_registration_and_a_list_of_devices() {
    let options = DevicePluginOptions { pre_start_required: true, get_preferred_allocation_available: false };
    is(&options, &[number(1, 1)]);
    is(
        &DevicePluginOptions { get_preferred_allocation_available: true, ..Default::default() },
        &[number(2, 1)],
    );
    let request = RegisterRequest {
        version: "v".into(),
        endpoint: "e".into(),
        resource_name: "r".into(),
        options: Some(options),
    };
    is(&request, &[field(1, "v"), field(2, "e"), field(3, "r"), field(4, number(1, 1))]);
    let topology = TopologyInfo { nodes: vec![NumaNode { id: 0 }, NumaNode { id: 1 }] };
    let device = Device { id: "a".into(), health: "Healthy".into(), topology: Some(topology) };
    let nodes = [field(1, []), field(1, number(1, 1))].concat();
    let bytes = [field(1, "a"), field(2, "Healthy"), field(3, nodes)];
    is(&device, &bytes);
    is(&ListAndWatchResponse { devices: vec![device] }, &[field(1, bytes.concat())]);
}

#[test]
fn an_allocation() {
    let container = ContainerAllocateRequest { devices_ids: texts(&["a", "b"]) };
    let ids = [field(1, "a"), field(1, "b")].concat();
    is(&AllocateRequest { container_requests: vec![container] }, &[field(1, &ids)]);
    is(&PreStartContainerRequest { devices_ids: texts(&["a", "b"]) }, &[ids]);
    let pair = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
    let mount = Mount { container_path: "c".into(), host_path: "h".into(), read_only: true };
    let node = DeviceSpec { container_path: "c".into(), host_path: "h".into(), permissions: "rw".into() };
    let answer = ContainerAllocateResponse {
        envs: pair("k", "v"),
        mounts: vec![mount],
        devices: vec![node],
        annotations: pair("x", "y"),
        cdi_devices: vec![CdiDevice { name: "vendor/class=a".into() }],
    };
    let fields = [
        field(1, [field(1, "k"), field(2, "v")].concat()),
        field(2, [field(1, "c"), field(2, "h"), number(3, 1)].concat()),
        field(3, [field(1, "c"), field(2, "h"), field(3, "rw")].concat()),
        field(4, [field(1, "x"), field(2, "y")].concat()),
        field(5, field(1, "vendor/class=a")),
    ];
    is(&answer, &fields);
    is(&AllocateResponse { container_responses: vec![answer] }, &[field(1, fields.concat())]);
}

#[test]
fn a_preferred_allocation() {
    let container = ContainerPreferredAllocationRequest {
        available_device_i_ds: texts(&["a", "b"]),
        must_include_device_i_ds: texts(&["b"]),
        allocation_size: 2,
    };
    let fields = [field(1, "a"), field(1, "b"), field(2, "b"), number(3, 2)].concat();
    is(&PreferredAllocationRequest { container_requests: vec![container] }, &[field(1, fields)]);
    let answer = ContainerPreferredAllocationResponse { device_i_ds: texts(&["a"]) };
    is(&PreferredAllocationResponse { container_responses: vec![answer] }, &[field(1, field(1, "a"))]);
}

#[test]
fn the_devices_of_pods() {
    let devices = ContainerDevices { resource_name: "r".into(), device_ids: texts(&["a", "b"]) };
    let of_container = [field(1, "r"), field(2, "a"), field(2, "b")].concat();
    is(&AllocatableResourcesResponse { devices: vec![devices.clone()] }, &[field(1, &of_container)]);
    let container = ContainerResources { name: "c".into(), devices: vec![devices] };
    let pod = PodResources { name: "p".into(), namespace: "n".into(), containers: vec![container] };
    let container = [field(1, "c"), field(2, of_container)].concat();
    let pod_fields = [field(1, "p"), field(2, "n"), field(3, container)].concat();
    is(&ListPodResourcesResponse { pod_resources: vec![pod] }, &[field(1, pod_fields)]);
}

#[test]
fn both_ends_have_the_paths_of_the_kubelet() {
    let code = concat!(include_str!("../src/generated/v1beta1.rs"), include_str!("../src/generated/v1.rs"));
    for path in [
        "v1beta1.Registration/Register",
        "v1beta1.DevicePlugin/GetDevicePluginOptions",
        "v1beta1.DevicePlugin/ListAndWatch",
        "v1beta1.DevicePlugin/GetPreferredAllocation",
        "v1beta1.DevicePlugin/Allocate",
        "v1beta1.DevicePlugin/PreStartContainer",
        "v1.PodResourcesLister/List",
        "v1.PodResourcesLister/GetAllocatableResources",
    ] {
        assert_eq!(code.matches(&format!("\"/{path}\"")).count(), 2, "{path}");
    }
    assert_eq!(kubelet_api::DEVICE_PLUGIN_VERSION, "v1beta1");
}
