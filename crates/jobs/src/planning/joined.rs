//! When parameters joined the training of a run with several phases.

use lessen_nn::Joined;
use lessen_task::CheckedTask;

/// The number of steps after which each parameter of a training phase joined. A parameter joins after `step` steps if
/// the phase before did not train it, or if its optimizer state begins anew.
pub fn joined_after(before: &Joined, old: &CheckedTask, new: &CheckedTask, step: u64) -> Joined {
    let (optimizer, other) = (&new.config().optimizer, &old.config().optimizer);
    let known = old.parameters();
    let is_frozen = |name: &str| {
        let frozen = old.config().train.freeze.as_ref();
        frozen.is_some_and(|frozen| frozen.contains(name))
    };
    let stays = |name: &str, shape: &[usize]| {
        let has_states = !optimizer.counts_steps() || optimizer.states(shape) == other.states(shape);
        has_states && !is_frozen(name) && known.iter().any(|param| param.name == name && param.shape == shape)
    };
    let since = new.parameters().into_iter().map(|param| {
        let since = if stays(&param.name, &param.shape) {
            before.get(&param.name).copied().unwrap_or(0)
        } else {
            step
        };
        (param.name, since)
    });
    since.filter(|(_, since)| *since > 0).collect()
}
