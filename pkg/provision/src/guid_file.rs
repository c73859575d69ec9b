//! Assigned GUIDs of InfiniBand VFs, in the file format of the SR-IOV network operator.

use identifiers::PciAddress;
use inventory::Pf;
use serde::Deserialize;

use crate::InvalidNodeFile;

/// The GUIDs of VFs, by PF.
///
/// ```json
/// [
///   {"pciAddress": "0000:af:00.0", "guids": ["02:00:00:00:00:00:00:01", "02:00:00:00:00:00:00:02"]},
///   {"pfGuid": "0x0c42a10300651234", "guidsRange": {"start": "02:…:10", "end": "02:…:2f"}}
/// ]
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuidFile {
    entries: Vec<GuidFileEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct GuidFileEntry {
    /// The operator's code reads `pciAddress`; its documentation contains `pci_address`.
    #[serde(default, alias = "pci_address", rename = "pciAddress")]
    pci: Option<PciAddress>,
    #[serde(default, alias = "pf_guid", rename = "pfGuid")]
    pf: Option<GuidText>,
    #[serde(default)]
    guids: Vec<GuidText>,
    #[serde(default, alias = "guids_range", rename = "guidsRange")]
    range: Option<GuidRange>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct GuidRange {
    start: GuidText,
    end: GuidText,
}

/// Eight bytes, with or without colons, with or without `0x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct GuidText(u64);

impl TryFrom<String> for GuidText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let plain = text.trim_start_matches("0x").replace(':', "");
        let number = (plain.len() == 16).then(|| u64::from_str_radix(&plain, 16).ok()).flatten();
        match number {
            Some(number) if number != 0 && number != u64::MAX => Ok(Self(number)),
            _ => Err(format!(
                "{text:?} is not a GUID: expected 16 hexadecimal digits, neither all 0 nor all f"
            )),
        }
    }
}

impl GuidFile {
    /// Parses the JSON text of a GUID file.
    ///
    /// # Errors
    /// [`InvalidNodeFile::Content`], also if a GUID is listed twice, for one PF or for two.
    pub fn parse(text: &str) -> Result<Self, InvalidNodeFile> {
        let wrong = |path: String, what: String| InvalidNodeFile::Content { path, what };
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let entries: Vec<GuidFileEntry> = serde_path_to_error::deserialize(&mut deserializer)
            .map_err(|error| wrong(error.path().to_string(), error.inner().to_string()))?;
        let mut seen = std::collections::BTreeSet::new();
        for (number, entry) in entries.iter().enumerate() {
            let at = |what: &str| wrong(format!("[{number}]"), what.to_owned());
            if entry.pci.is_some() == entry.pf.is_some() {
                return Err(at("expected one of pciAddress and pfGuid"));
            }
            if entry.guids.is_empty() == entry.range.is_none() {
                return Err(at("expected one of guids and guidsRange"));
            }
            if entry
                .range
                .is_some_and(|range| range.end < range.start || range.end.0 - range.start.0 > MAX_RANGE_LEN)
            {
                return Err(at(
                    "guidsRange: expected an end not before its start, and not more than 65536 GUIDs",
                ));
            }
            if entries[..number].iter().any(|other| (other.pci, other.pf) == (entry.pci, entry.pf)) {
                return Err(at("the same PF is listed twice"));
            }
            if let Some(twice) = entry.all().find(|guid| !seen.insert(*guid)) {
                return Err(at(&format!("GUID {twice:016x} is listed twice")));
            }
        }
        Ok(Self { entries })
    }

    /// Returns the GUIDs of the first `count` VFs of a PF.
    ///
    /// # Errors
    /// If the PF is not listed, or has fewer GUIDs.
    pub(crate) fn of(&self, pf: &Pf, count: u32) -> Result<Vec<u64>, String> {
        let is_guid = |guid: GuidText| pf.guid == Some(guid.0);
        let entry =
            self.entries.iter().find(|entry| entry.pci == Some(pf.pci) || entry.pf.is_some_and(is_guid));
        let entry = entry.ok_or_else(|| format!("the GUID file has no entry for PF {}", pf.pci))?;
        let guids: Vec<u64> = entry.all().take(count as usize).collect();
        match guids.len() == count as usize {
            true => Ok(guids),
            false => {
                Err(format!("the GUID file has {} GUIDs for PF {}, expected {count}", guids.len(), pf.pci))
            }
        }
    }
}

/// The maximum of the last GUID of a range minus the first.
const MAX_RANGE_LEN: u64 = 65_535;

impl GuidFileEntry {
    fn all(&self) -> impl Iterator<Item = u64> {
        let range = self.range.into_iter().flat_map(|range| range.start.0..=range.end.0);
        self.guids.iter().map(|guid| guid.0).chain(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        GuidFile::parse(text).unwrap_err().to_string()
    }

    /// study case V22: both spellings, and a PF by its 8-byte GUID.
    #[test]
    fn both_spellings_of_the_operator_are_read() {
        let text = r#"[
            {"pciAddress": "0000:af:00.0", "guids": ["02:00:00:00:00:00:00:01"]},
            {"pci_address": "0000:af:00.1", "guidsRange": {"start": "0200000000000010", "end": "0200000000000012"}},
            {"pfGuid": "0x0c42a10300651234", "guids": ["0200000000000021", "0200000000000022"]}
        ]"#;
        let file = GuidFile::parse(text).unwrap();
        let pf = |pci: &str, guid| Pf { pci: pci.parse().unwrap(), guid, ..crate::tests::pf(0) };
        assert_eq!(file.of(&pf("0000:af:00.0", None), 1).unwrap(), [0x0200_0000_0000_0001]);
        assert_eq!(file.of(&pf("0000:af:00.1", None), 3).unwrap()[2], 0x0200_0000_0000_0012);
        assert_eq!(file.of(&pf("0000:b0:00.0", Some(0x0c42_a103_0065_1234)), 2).unwrap().len(), 2);
        let missing = file.of(&pf("0000:b1:00.0", None), 1).unwrap_err();
        assert!(missing.contains("has no entry for PF 0000:b1:00.0"), "{missing}");
        // study case V24.
        let few = file.of(&pf("0000:af:00.0", None), 2).unwrap_err();
        assert_eq!(few, "the GUID file has 1 GUIDs for PF 0000:af:00.0, expected 2");
    }

    #[test]
    fn duplicates_and_invalid_guids_are_errors() {
        let guids = |guids: &str| format!(r#"[{{"pciAddress": "0000:af:00.0", "guids": [{guids}]}}]"#);
        assert!(
            error(&guids(r#""0200000000000001", "02:00:00:00:00:00:00:01""#)).contains("is listed twice")
        );
        for bad in [r#""0000000000000000""#, r#""ffffffffffffffff""#, r#""0200""#, r#""02000000000000zz""#] {
            assert!(error(&guids(bad)).contains("is not a GUID"), "{bad}");
        }
        let two = r#"[{"pciAddress": "0000:af:00.0", "guids": ["0200000000000001"]},
                      {"pci_address": "0000:af:00.0", "guids": ["0200000000000002"]}]"#;
        assert_eq!(error(two), "[1]: the same PF is listed twice");
        let backwards = r#"[{"pfGuid": "0200000000000009",
                            "guidsRange": {"start": "0200000000000002", "end": "0200000000000001"}}]"#;
        assert!(error(backwards).contains("expected an end not before its start"));
        assert!(error(r#"[{"guids": []}]"#).contains("expected one of pciAddress and pfGuid"));
        let entry = |pf: &str, guids: &str| format!(r#"{{{pf}, {guids}}}"#);
        let (pf, other) = (r#""pciAddress": "0000:af:00.0""#, r#""pciAddress": "0000:af:00.1""#);
        let (list, range) = (r#""guids": ["0200000000000002"]"#, |end: &str| {
            format!(r#""guidsRange": {{"start": "0200000000000001", "end": "{end}"}}"#)
        });
        let of_two = error(&format!("[{}, {}]", entry(pf, list), entry(other, &range("0200000000000003"))));
        assert_eq!(of_two, "[1]: GUID 0200000000000002 is listed twice");
        let both = error(&format!("[{}]", entry(pf, &format!("{list}, {}", range("0200000000000003")))));
        assert!(both.contains("expected one of guids and guidsRange"), "{both}");
        let two_pfs = error(&format!("[{}]", entry(&format!(r#"{pf}, "pfGuid": "0200000000000009""#), list)));
        assert!(two_pfs.contains("expected one of pciAddress and pfGuid"), "{two_pfs}");
        GuidFile::parse(&format!("[{}]", entry(pf, &range("0200000000010000")))).unwrap();
        assert!(error(&format!("[{}]", entry(pf, &range("0200000000010001")))).contains("65536 GUIDs"));
    }
}
