//! The option of perftest for data in the memory of a GPU. Only builds with CUDA or ROCm have one, and list it in their help.

use crate::GpuIndex;

/// The option and its GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuMemory {
    option: &'static str,
    gpu: GpuIndex,
}

/// The options of builds with NVIDIA's CUDA and with AMD's ROCm.
const OPTIONS: [&str; 2] = ["--use_cuda=", "--use_rocm="];

impl GpuMemory {
    /// Returns the option that this help of a program lists; `None` if it lists neither.
    pub fn in_help(help: &str, gpu: GpuIndex) -> Option<Self> {
        let option = OPTIONS.into_iter().find(|option| help.contains(option))?;
        Some(Self { option, gpu })
    }

    /// Returns the argument, for example `--use_cuda=0`.
    pub(super) fn argument(self) -> String {
        format!("{}{}", self.option, self.gpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_found_in_the_help_of_a_build_that_has_it() {
        let find = |help| GpuMemory::in_help(help, "3".parse().unwrap()).map(GpuMemory::argument);
        let cuda = "      --use_cuda=<cuda device id> Use CUDA specific device\n      --use_cuda_bus_id=<cuda full BUS id>";
        assert_eq!(find(cuda).unwrap(), "--use_cuda=3");
        assert_eq!(
            find("      --use_rocm=<rocm device id> Use selected ROCm device").unwrap(),
            "--use_rocm=3"
        );
        assert_eq!(find("      --use_hugepages  Use Hugepages\n --use_cuda_bus_id=<x>"), None);
    }
}
