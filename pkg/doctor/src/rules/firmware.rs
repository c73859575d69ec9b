//! Firmware of cards of the same model.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Finding, FindingId, NodeFacts};

const MIXED: FindingId =
    FindingId::new("firmware-mixed", "Cards of the same model have different firmware versions");

pub(super) const IDS: &[FindingId] = &[MIXED];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    let mut models: BTreeMap<String, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for device in &facts.devices {
        let function = device.function.as_deref().and_then(|address| facts.function(address));
        let (Some(firmware), Some(pf)) =
            (device.firmware.get(), function.filter(|function| function.pf.is_none()))
        else {
            continue;
        };
        // The site file says which version it has to have.
        if facts.role_of_function(&pf.address).is_some_and(|role| role.firmware.is_some()) {
            continue;
        }
        let model = device.board.get().unwrap_or(&pf.model).clone();
        models.entry(model).or_default().entry(firmware).or_default().push(&device.name);
    }
    for (model, versions) in models {
        if versions.len() < 2 {
            continue;
        }
        let names: BTreeSet<&str> = versions.values().flatten().copied().collect();
        let object = names.into_iter().collect::<Vec<_>>().join(", ");
        let finding = MIXED.warning(
            object,
            format!("cards of the model {model} have {} different firmware versions", versions.len()),
        );
        let evidence = versions.iter().map(|(version, names)| format!("{version}: {}", names.join(", ")));
        found.push(finding.because_all(evidence).fix("update all cards of a model to the same version"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use crate::Known;

    #[test]
    fn cards_of_one_model_have_one_firmware_version() {
        let change = |board: &'static str| {
            with(move |facts| {
                facts.devices[1].firmware = Known::Value("20.31.1014".into());
                facts.devices[1].board = Known::Value(board.into());
            })
        };
        assert_eq!(change("MT_0000000223"), ["warning firmware-mixed mlx5_0, mlx5_1"]);
        assert!(change("MT_0000000999").is_empty());
        let vf = with(|facts| facts.devices[2].firmware = Known::Value("20.31.1014".into()));
        assert!(vf.is_empty(), "{vf:?}");
    }
}
