//! The hardware that a recipe names.

use crate::schema::SearchKeys;
use lessen_base::{Error, Result};
use lessen_hardware::bitfusion::{Accelerator, BitFusion, GroupMapping};
use lessen_hardware::{BitSerial, CostModel};
use lessen_task::recipe::config::Config;
use std::path::Path;

/// The accelerator where a recipe names none.
const ACCELERATOR: &str = "bf_e";

/// The key of the mapping of groups.
pub(crate) const MAPPING: &str = "search.depthwise";

/// A model of hardware, with the word of its mapping of groups where it has several.
pub(super) struct Candidate {
    pub hardware: Box<dyn CostModel>,
    pub mapping: Option<GroupMapping>,
}

/// The hardware of `search.accelerator`: with the mapping of groups of `search.depthwise`, or, where that is not given,
/// with each mapping that computes whole convolutions.
///
/// # Errors
/// A name that is none, and no file; an accelerator file with a mistake; a mapping of groups that is none, or where the
/// hardware has one of its own.
pub(super) fn candidates(config: &Config) -> Result<Vec<Candidate>> {
    let keys = config.settings.section::<SearchKeys>()?;
    let name = keys.accelerator.as_deref().unwrap_or(ACCELERATOR);
    let groups = keys.depthwise.as_deref().map(GroupMapping::parse).transpose();
    let groups = groups.map_err(|error| error.at(config.place(MAPPING)))?;
    if name == BitSerial::HAQ {
        return match groups {
            None => Ok(vec![Candidate {
                hardware: Box::new(BitSerial::haq()),
                mapping: None,
            }]),
            Some(_) => Err(Error::user(format!(
                "{} has no part in search.accelerator = \"{name}\"; leave it out",
                config.place(MAPPING)
            ))),
        };
    }
    let accelerator = match Accelerator::named(name) {
        Some(own) => own,
        None => {
            Accelerator::from_file(Path::new(name)).map_err(|error| error.at(config.place("search.accelerator")))?
        }
    };
    let mappings = groups.map_or(GroupMapping::WHOLE.to_vec(), |groups| vec![groups]);
    let candidate = |mapping| Candidate {
        hardware: Box::new(BitFusion::new(accelerator.clone(), mapping)),
        mapping: Some(mapping),
    };
    Ok(mappings.into_iter().map(candidate).collect())
}
