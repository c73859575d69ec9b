//! The files of the `rdma` cgroup controller: `rdma.current` and `rdma.max`.

/// The usage of one RDMA device by a cgroup and its descendants: a line of `rdma.current`.
///
/// The kernel counts only objects that were created after the controller was enabled for the cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdmaUsage {
    /// The RDMA device, such as `mlx5_0`.
    pub device: String,
    /// Number of open contexts (`hca_handle`).
    pub handles: u64,
    /// Number of objects of all types (`hca_object`): queue pairs, memory regions and others.
    pub objects: u64,
}

/// The limits of a cgroup and its descendants for one RDMA device: a line of `rdma.max`. `None` means unlimited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdmaLimit {
    /// The RDMA device, such as `mlx5_0`.
    pub device: String,
    /// Maximum number of open contexts (`hca_handle`).
    pub handles: Option<u64>,
    /// Maximum number of objects of all types (`hca_object`).
    pub objects: Option<u64>,
}

impl RdmaUsage {
    /// Parses `rdma.current`. Lines of another format are ignored.
    pub fn parse(text: &str) -> Vec<Self> {
        let usage = |line| {
            let (device, [handles, objects]) = fields(line)?;
            Some(Self { device, handles: handles.parse().ok()?, objects: objects.parse().ok()? })
        };
        text.lines().filter_map(usage).collect()
    }
}

impl RdmaLimit {
    /// Parses `rdma.max`. Lines of another format are ignored.
    pub fn parse(text: &str) -> Vec<Self> {
        let limited = |line| {
            let (device, [handles, objects]) = fields(line)?;
            Some(Self { device, handles: limit(handles)?, objects: limit(objects)? })
        };
        text.lines().filter_map(limited).collect()
    }
}

fn limit(text: &str) -> Option<Option<u64>> {
    match text {
        "max" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

/// Splits `mlx5_0 hca_handle=2 hca_object=2000`. Unknown resources of later kernels are ignored.
fn fields(line: &str) -> Option<(String, [&str; 2])> {
    let (device, resources) = line.split_once(' ')?;
    let value = |key| resources.split(' ').find_map(|resource| resource.strip_prefix(key)?.strip_prefix('='));
    Some((device.to_owned(), [value("hca_handle")?, value("hca_object")?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_devices() {
        let text = "mlx5_0 hca_handle=2 hca_object=2000 \nmlx5_1 hca_handle=0 hca_object=0\n";
        let usage = |device: &str, handles, objects| RdmaUsage { device: device.into(), handles, objects };
        assert_eq!(RdmaUsage::parse(text), [usage("mlx5_0", 2, 2000), usage("mlx5_1", 0, 0)]);
        assert_eq!(RdmaUsage::parse(""), []);
    }

    #[test]
    fn malformed_lines_and_unknown_resources_are_ignored() {
        let text = "mlx5_0\nmlx5_1 hca_handle=1\nmlx5_2 hca_handle=-1 hca_object=3\nmlx5_3 new=7 hca_object=3 hca_handle=1\n";
        let usage = RdmaUsage { device: "mlx5_3".into(), handles: 1, objects: 3 };
        assert_eq!(RdmaUsage::parse(text), [usage]);
    }

    #[test]
    fn max_is_no_limit() {
        let text = "mlx5_0 hca_handle=2 hca_object=max\nmlx5_1 hca_handle=max hca_object=many\n";
        assert_eq!(
            RdmaLimit::parse(text),
            [RdmaLimit { device: "mlx5_0".into(), handles: Some(2), objects: None }]
        );
        assert_eq!(RdmaUsage::parse(text), [], "max is not a usage value");
    }
}
