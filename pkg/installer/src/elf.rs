//! The processor architecture of an ELF executable.

/// Values of `e_machine` in elf(5), with the names of [`std::env::consts::ARCH`].
const MACHINES: [(u16, &str); 6] =
    [(62, "x86_64"), (183, "aarch64"), (21, "powerpc64"), (22, "s390x"), (243, "riscv64"), (40, "arm")];

/// Returns the architecture as in [`std::env::consts::ARCH`]; `None` if the content is not an ELF file, or truncated.
pub(crate) fn machine(content: &[u8]) -> Option<String> {
    let header = content.strip_prefix(b"\x7fELF")?;
    let bytes: [u8; 2] = header.get(14..16)?.try_into().ok()?;
    let number = match header.get(1)? {
        2 => u16::from_be_bytes(bytes),
        _ => u16::from_le_bytes(bytes),
    };
    let known = MACHINES.iter().find(|(known, _)| *known == number);
    Some(known.map_or_else(|| format!("machine {number}"), |(_, name)| (*name).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_program_is_for_this_processor() {
        let content = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(machine(&content).as_deref(), Some(std::env::consts::ARCH));
    }

    #[test]
    fn a_header_is_read_in_its_own_byte_order() {
        let mut header = [0; 20];
        header[..4].copy_from_slice(b"\x7fELF");
        (header[5], header[18], header[19]) = (1, 183, 0);
        assert_eq!(machine(&header).as_deref(), Some("aarch64"));
        (header[5], header[18], header[19]) = (2, 0, 22);
        assert_eq!(machine(&header).as_deref(), Some("s390x"));
        (header[18], header[19]) = (1, 1);
        assert_eq!(machine(&header).as_deref(), Some("machine 257"));
    }

    #[test]
    fn a_file_other_than_elf_has_no_architecture() {
        for content in [&b""[..], b"#!/bin/sh\nexit 0\n", b"\x7fELF", b"\x7fELF\x02\x01"] {
            assert_eq!(machine(content), None);
        }
    }
}
