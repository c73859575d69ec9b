//! The plan of a collective test: operation, hosts, processes and message sizes.

use std::{fmt, str::FromStr};

use serde::Serialize;

use crate::InvalidTestSpec;

/// A collective communication library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CollectiveLibrary {
    /// NVIDIA's NCCL, tested by nccl-tests.
    Nccl,
    /// Huawei Ascend's HCCL, tested by `hccl_test`.
    Hccl,
}

/// A collective operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Collective {
    /// `all_reduce`
    AllReduce,
    /// `all_gather`
    AllGather,
    /// `reduce_scatter`
    ReduceScatter,
    /// `alltoall`
    Alltoall,
    /// `broadcast`
    Broadcast,
}

const NAMES: [(&str, Collective); 5] = [
    ("all_reduce", Collective::AllReduce),
    ("all_gather", Collective::AllGather),
    ("reduce_scatter", Collective::ReduceScatter),
    ("alltoall", Collective::Alltoall),
    ("broadcast", Collective::Broadcast),
];

impl Collective {
    /// Returns the name of the program that tests this operation.
    pub fn program(self, library: CollectiveLibrary) -> &'static str {
        match (library, self) {
            (CollectiveLibrary::Nccl, Self::AllReduce) => "all_reduce_perf",
            (CollectiveLibrary::Nccl, Self::AllGather) => "all_gather_perf",
            (CollectiveLibrary::Nccl, Self::ReduceScatter) => "reduce_scatter_perf",
            (CollectiveLibrary::Nccl, Self::Alltoall) => "alltoall_perf",
            (CollectiveLibrary::Nccl, Self::Broadcast) => "broadcast_perf",
            (CollectiveLibrary::Hccl, Self::AllReduce) => "all_reduce_test",
            (CollectiveLibrary::Hccl, Self::AllGather) => "all_gather_test",
            (CollectiveLibrary::Hccl, Self::ReduceScatter) => "reduce_scatter_test",
            (CollectiveLibrary::Hccl, Self::Alltoall) => "alltoall_test",
            (CollectiveLibrary::Hccl, Self::Broadcast) => "broadcast_test",
        }
    }

    fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter)
    }
}

impl FromStr for Collective {
    type Err = InvalidTestSpec;

    fn from_str(text: &str) -> Result<Self, InvalidTestSpec> {
        let known = NAMES.iter().find(|(name, _)| *name == text).map(|(_, collective)| *collective);
        known.ok_or_else(|| invalid(text, "all_reduce, all_gather, reduce_scatter, alltoall or broadcast"))
    }
}

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, $is:expr, $expected:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name(String);

        impl $name {
            /// As it was written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidTestSpec;

            fn from_str(text: &str) -> Result<Self, InvalidTestSpec> {
                let is: fn(&str) -> bool = $is;
                if is(text) { Ok(Self(text.to_owned())) } else { Err(invalid(text, $expected)) }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

fn is_plain(text: &str, more: &str) -> bool {
    text.len() < 256
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
}

text!(
    /// A host name or an IPv4 address.
    Host, |text| is_plain(text, ".-") && !text.starts_with('/'), "a host name or an IPv4 address"
);
text!(
    /// A container image reference, for example `registry/name:tag`.
    Image, |text| is_plain(text, "._-/:@"), "a container image, like registry/name:tag"
);
text!(
    /// An environment variable for the processes, for example `NCCL_IB_GID_INDEX=3`.
    Variable,
    |text| text.split_once('=').is_some_and(|(name, value)| {
        is_plain(name, "_") && !name.starts_with('/') && (value.is_empty() || value.chars().all(|c| c.is_ascii_graphic() && !"\"'\\$`;&|<>(){}*?!#~".contains(c)))
    }),
    "NAME=VALUE without spaces, quotes or other shell metacharacters"
);

text!(
    /// An option of `mpirun`, or the value of one.
    MpirunOption,
    |text| {
        let allowed = |c: char| c.is_ascii_graphic() && !"\"'\\$`;&|<>(){}*?!#~".contains(c);
        !text.is_empty() && text.len() < 256 && text.chars().all(allowed)
    },
    "an option without spaces, quotes or other shell metacharacters"
);

/// Maximum message size: 1 TiB.
const MAX_MESSAGE_SIZE: u64 = 1 << 40;

/// A test of a collective communication library.
#[derive(Debug, Clone)]
pub struct CollectivePlan {
    /// The library to test.
    pub library: CollectiveLibrary,
    /// The collective operation.
    pub collective: Collective,
    /// The hosts to run on.
    pub hosts: Vec<Host>,
    /// Processes per host: one for each GPU or NPU.
    pub per_node: u16,
    /// The smallest message size, in bytes.
    pub first: u64,
    /// The largest message size, in bytes.
    pub last: u64,
    /// The directory of the test programs on the hosts; `None` for `PATH`.
    pub directory: Option<Image>,
    /// Environment variables for the processes.
    pub environment: Vec<Variable>,
    /// Further options of `mpirun`.
    pub mpirun_options: Vec<MpirunOption>,
}

impl CollectivePlan {
    /// Default of the smallest message size: 8 MiB.
    pub const FIRST: u64 = 8 << 20;
    /// Default of the largest message size: 1 GiB.
    pub const LAST: u64 = 1 << 30;

    /// Returns the total number of processes.
    pub fn processes(&self) -> usize {
        self.hosts.len() * usize::from(self.per_node)
    }

    /// Returns the arguments of `mpirun`: of Open MPI for NCCL, of MPICH for HCCL.
    pub fn mpirun(&self) -> Vec<String> {
        let slots: Vec<String> = self.hosts.iter().map(|host| format!("{host}:{}", self.per_node)).collect();
        let processes = self.processes().to_string();
        let mut words: Vec<String> = match self.library {
            CollectiveLibrary::Nccl => {
                let fixed =
                    ["--allow-run-as-root", "--bind-to", "none", "--map-by", "slot", "-np", &processes, "-H"];
                fixed.into_iter().map(str::to_owned).chain([slots.join(",")]).collect()
            }
            CollectiveLibrary::Hccl => {
                ["-hosts", &slots.join(","), "-n", &processes].map(str::to_owned).to_vec()
            }
        };
        words.extend(self.variables());
        words.extend(self.mpirun_options.iter().map(ToString::to_string));
        words.extend(self.program());
        words
    }

    /// Whether the environment has a variable of this name.
    pub(super) fn has_variable(&self, name: &str) -> bool {
        self.environment.iter().any(|variable| variable.as_str().split('=').next() == Some(name))
    }

    /// Returns the `mpirun` command as a shell command line. No argument has shell metacharacters; an empty one is quoted.
    pub fn command(&self) -> String {
        let quoted = |word: String| if word.is_empty() { "''".to_owned() } else { word };
        let words = self.mpirun().into_iter().map(quoted);
        std::iter::once("mpirun".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Returns the environment variables as options of `mpirun`.
    pub(super) fn variables(&self) -> Vec<String> {
        let of = |variable: &Variable| match (self.library, variable.as_str().split_once('=')) {
            (CollectiveLibrary::Hccl, Some((name, value))) => vec!["-genv".into(), name.into(), value.into()],
            _ => vec!["-x".into(), variable.to_string()],
        };
        self.environment.iter().flat_map(of).collect()
    }

    /// Returns the test program and its arguments.
    pub fn program(&self) -> Vec<String> {
        let name = self.collective.program(self.library);
        let path = match &self.directory {
            Some(directory) => format!("{}/{name}", directory.as_str().trim_end_matches('/')),
            None => name.to_owned(),
        };
        let mut words = vec![path, "-b".into(), self.first.to_string(), "-e".into(), self.last.to_string()];
        words.extend(["-f".into(), "2".into()]);
        match self.library {
            CollectiveLibrary::Nccl => words.extend(["-g".into(), "1".into()]),
            CollectiveLibrary::Hccl => {
                words.extend(["-p".into(), self.per_node.to_string(), "-d".into(), "fp32".into()])
            }
        }
        if self.library == CollectiveLibrary::Hccl && self.collective.reduces() {
            words.extend(["-o".into(), "sum".into()]);
        }
        words
    }
}

/// Parses a message size such as `64K`, `8M` or `8G`, up to 1 TiB.
///
/// # Errors
/// [`InvalidTestSpec`].
pub fn size(text: &str) -> Result<u64, InvalidTestSpec> {
    let units = [('K', 1 << 10), ('M', 1 << 20), ('G', 1u64 << 30)];
    let with_unit = units.iter().find_map(|(sign, unit)| Some((text.strip_suffix(*sign)?, *unit)));
    let (digits, unit) = with_unit.unwrap_or((text, 1));
    let number =
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>().ok()).flatten();
    let size = number
        .and_then(|number| number.checked_mul(unit))
        .filter(|size| (1..=MAX_MESSAGE_SIZE).contains(size));
    size.ok_or_else(|| invalid(text, "a size like 64K, 8M or 8G"))
}

fn invalid(value: &str, expected: &'static str) -> InvalidTestSpec {
    InvalidTestSpec::new(value, expected)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two nodes with eight devices each.
    pub(crate) fn plan(library: CollectiveLibrary) -> CollectivePlan {
        CollectivePlan {
            library,
            collective: Collective::AllReduce,
            hosts: ["10.1.30.41", "10.1.30.42"].map(|host| host.parse().unwrap()).to_vec(),
            per_node: 8,
            first: size("32M").unwrap(),
            last: size("8G").unwrap(),
            directory: Some("/opt/nccl-tests/build/".parse().unwrap()),
            environment: vec!["NCCL_IB_GID_INDEX=3".parse().unwrap(), "NCCL_IB_HCA=^mlx5_8".parse().unwrap()],
            mpirun_options: Vec::new(),
        }
    }

    #[test]
    fn a_plan_for_nccl_is_an_open_mpi_command() {
        let expected = "--allow-run-as-root --bind-to none --map-by slot -np 16 -H 10.1.30.41:8,10.1.30.42:8 \
            -x NCCL_IB_GID_INDEX=3 -x NCCL_IB_HCA=^mlx5_8 \
            /opt/nccl-tests/build/all_reduce_perf -b 33554432 -e 8589934592 -f 2 -g 1";
        assert_eq!(plan(CollectiveLibrary::Nccl).mpirun().join(" "), expected);
    }

    #[test]
    fn a_plan_for_hccl_is_an_mpich_command() {
        let plan = CollectivePlan { directory: None, ..plan(CollectiveLibrary::Hccl) };
        let expected = "-hosts 10.1.30.41:8,10.1.30.42:8 -n 16 \
            -genv NCCL_IB_GID_INDEX 3 -genv NCCL_IB_HCA ^mlx5_8 \
            all_reduce_test -b 33554432 -e 8589934592 -f 2 -p 8 -d fp32 -o sum";
        assert_eq!(plan.mpirun().join(" "), expected);
        let gather = CollectivePlan { collective: Collective::AllGather, ..plan };
        assert!(!gather.program().contains(&"-o".into()), "nothing is reduced");
    }

    #[test]
    fn each_operation_has_its_program_and_only_some_reduce() {
        for (name, reduces) in [
            ("all_reduce", true),
            ("all_gather", false),
            ("reduce_scatter", true),
            ("alltoall", false),
            ("broadcast", false),
        ] {
            let collective: Collective = name.parse().unwrap();
            let program = |library| CollectivePlan { collective, directory: None, ..plan(library) }.program();
            assert_eq!(program(CollectiveLibrary::Nccl)[0], format!("{name}_perf"));
            let hccl = program(CollectiveLibrary::Hccl);
            assert_eq!((&*hccl[0], hccl.contains(&"-o".into())), (&*format!("{name}_test"), reduces));
        }
        assert!("all_to_all".parse::<Collective>().is_err());
    }

    #[test]
    fn a_variable_without_a_value_is_an_empty_argument() {
        let plan =
            CollectivePlan { environment: vec!["A=".parse().unwrap()], ..plan(CollectiveLibrary::Hccl) };
        assert!(plan.command().contains("-genv A '' /opt"), "{}", plan.command());
    }

    #[test]
    fn names_cannot_be_options_or_shell_code() {
        for bad in ["", "-x", "a b", "a;b", "a,b", "$(x)", "/etc", "a\n"] {
            assert!(bad.parse::<Host>().is_err(), "{bad:?}");
        }
        for bad in ["", "A", "=x", "A=$(x)", "A=a b", "A=\"", "-x A=1", "A=`x`"] {
            assert!(bad.parse::<Variable>().is_err(), "{bad:?}");
        }
        assert!("A=".parse::<Variable>().is_ok() && "r/x:v2.13@sha256:00".parse::<Image>().is_ok());
        assert!("--privileged".parse::<Image>().is_err());
    }

    #[test]
    fn sizes_have_units_and_bounds() {
        assert_eq!(["8", "64K", "8M", "8G"].map(|text| size(text).unwrap()), [8, 65_536, 8 << 20, 8 << 30]);
        assert_eq!((size("1").unwrap(), size("1024G").unwrap()), (1, 1 << 40));
        assert!(size("1099511627777").is_err());
        for bad in ["", "G", "0", "-1", "1T", "2048G", "99999999999999999999"] {
            assert!(size(bad).is_err(), "{bad:?}");
        }
    }
}
