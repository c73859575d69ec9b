//! What the `rdma` controller of cgroups tells: `rdma.current` and `rdma.max`.

/// How much of an RDMA device a cgroup and those below it use: a line of `rdma.current`.
///
/// Only what was made after the controller was enabled there is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdmaUsage {
    /// The device, like `mlx5_0`.
    pub device: String,
    /// Open contexts (`hca_handle`).
    pub handles: u64,
    /// Objects of all kinds (`hca_object`): queue pairs, memory regions, and so on.
    pub objects: u64,
}

/// How much of an RDMA device a cgroup and those below it may use: a line of `rdma.max`. `None` is no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdmaLimit {
    /// The device.
    pub device: String,
    /// Open contexts.
    pub handles: Option<u64>,
    /// Objects of all kinds.
    pub objects: Option<u64>,
}

impl RdmaUsage {
    /// Reads `rdma.current`. A line that is none is left out.
    pub fn parse(text: &str) -> Vec<Self> {
        let usage = |line| {
            let (device, [handles, objects]) = fields(line)?;
            Some(Self { device, handles: handles.parse().ok()?, objects: objects.parse().ok()? })
        };
        text.lines().filter_map(usage).collect()
    }
}

impl RdmaLimit {
    /// Reads `rdma.max`. A line that is none is left out.
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

/// The parts of `mlx5_0 hca_handle=2 hca_object=2000`. Resources that a later kernel adds are not looked at.
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
    fn what_is_not_understood_is_left_out() {
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
        assert_eq!(RdmaUsage::parse(text), [], "a limit is no usage");
    }
}
