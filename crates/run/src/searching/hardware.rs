//! The hardware that a recipe names.

use crate::recipe::config::Config;
use lessen_base::{Error, Result};
use lessen_hardware::bitfusion::{Accelerator, BitFusion, GroupMapping};
use lessen_hardware::{BitSerial, CostModel};
use std::path::Path;

/// The accelerator where a recipe names none.
const ACCELERATOR: &str = "bf_e";

/// The hardware of `search.accelerator` and `search.depthwise`.
///
/// # Errors
/// A name that is none, and no file; an accelerator file with a mistake; a mapping of groups that is none, or where the
/// hardware has one of its own.
pub(super) fn hardware(config: &Config) -> Result<Box<dyn CostModel>> {
    let keys = &config.search;
    let name = keys.accelerator.as_deref().unwrap_or(ACCELERATOR);
    let groups = keys.depthwise.as_deref().map(GroupMapping::parse).transpose();
    let groups = groups.map_err(|error| error.at(config.place("search.depthwise")))?;
    if name == BitSerial::HAQ {
        return match groups {
            None => Ok(Box::new(BitSerial::haq())),
            Some(_) => Err(Error::user(format!(
                "{} has no part in search.accelerator = \"{name}\"; leave it out",
                config.place("search.depthwise")
            ))),
        };
    }
    let accelerator = match Accelerator::named(name) {
        Some(own) => own,
        None => {
            Accelerator::from_file(Path::new(name)).map_err(|error| error.at(config.place("search.accelerator")))?
        }
    };
    Ok(Box::new(BitFusion::new(accelerator, groups.unwrap_or_default())))
}
