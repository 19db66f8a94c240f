//! Names that training gives to inputs, states and results of its graphs.
//!
//! All of them begin with [`RESERVED`], and a name of a model function that begins so is refused: neither can shadow
//! the other. Files hold the names without it; see [`in_files`].

use std::borrow::Cow;

/// The first character of all names that training gives, and of no name of a model function.
pub const RESERVED: char = '@';

/// Data input with the random key, `u32[2]`, another one at every step; see [`Cx::key`](crate::Cx::key).
pub const KEY: &str = "@key";

/// Data input with the share of a micro-batch in the loss of its step, `f32[]`.
pub const SHARE: &str = "@share";

/// Data input of the last micro-batch of a process in a step that skips updates: the sum of the losses before it,
/// `f32[]`.
pub const LOSS_BEFORE: &str = "@loss_before";

/// Result of a step: the loss, a scalar of any float dtype.
pub const LOSS: &str = "@loss";

/// Result of a step that clips: the norm of the gradient before it is clipped, `f32[]`.
pub const GRADIENT_NORM: &str = "@gradient_norm";

/// Result of a step that skips updates of numbers that are not finite: 1 if all are finite, else 0, `f32[]`.
pub const FINITE: &str = "@finite";

/// Data input with the images of a batch.
pub(crate) const IMAGES: &str = "images";

/// Data input with the classes of a batch.
pub(crate) const LABELS: &str = "labels";

/// Data input with the numbers that a batch is to be given, or shares of classes.
pub(crate) const TARGETS: &str = "targets";

/// Data input with the weights of a batch's examples in its loss.
pub(crate) const WEIGHTS: &str = "weights";

/// First part of the names of optimizer states, gradient sums and moving averages.
const PREFIXES: [&str; 3] = ["@optimizer.", "@gradient.", "@ema."];

/// Prefix, in a file, of a name of the model function that looks like a name of training.
const OF_MODEL: &str = "model:";

/// Data input with the learning rate of a parameter group, `f32[]`: 0 for parameters of no group, and the groups of
/// [`UpdateRule::groups`](crate::UpdateRule::groups) from 1 on.
pub fn lr_input(group: usize) -> String {
    match group {
        0 => "@lr".to_string(),
        group => format!("@lr.{group}"),
    }
}

/// Data input with the number of the step, `f32[]`, counted from 1, for parameters that joined after `joined` steps:
/// the step number less `joined`.
pub fn steps_input(joined: u64) -> String {
    match joined {
        0 => "@t".to_string(),
        after => format!("@t.{after}"),
    }
}

/// State with the moving average of a parameter.
pub fn average_of(param: &str) -> String {
    format!("@ema.{param}")
}

/// State with the sum of a parameter's gradients.
pub fn gradient_sum_of(param: &str) -> String {
    format!("@gradient.{param}")
}

/// State that keeps the sum of a parameter's gradients over finished groups of micro-batches, number `slot` of them,
/// while later groups are computed; `sum` is the state that sums the gradients of a group.
pub fn held_sum_of(sum: &str, slot: usize) -> String {
    format!("{HELD}{slot}.{}", sum.trim_start_matches(RESERVED))
}

/// State with the sum of a parameter's gradients over all ranks, or this rank's piece of it, which waits for its update
/// in the next step; `sum` is the state that sums the gradients of a group.
pub fn waiting_sum_of(sum: &str) -> String {
    format!("{WAITING}{}", sum.trim_start_matches(RESERVED))
}

/// Whether a state is one of [`held_sum_of`] or [`waiting_sum_of`], which mean nothing where no update waits.
pub fn is_momentary(state: &str) -> bool {
    state.starts_with(HELD) || state.starts_with(WAITING)
}

/// The beginning of the names of held sums.
const HELD: &str = "@held.";

/// The beginning of the names of sums that wait.
const WAITING: &str = "@waiting.";

/// State of a parameter's optimizer.
pub fn optimizer_state(state: &str, param: &str) -> String {
    format!("@optimizer.{state}.{param}")
}

/// Name of a data input or result of a group of a step whose groups run side by side, from its name in the group.
pub fn of_group(name: &str, group: usize) -> String {
    format!("{name} of group {group}")
}

/// Result of such a group: the value of a state that it assigns.
pub fn assigned_of(state: &str) -> String {
    format!("@assigned.{state}")
}

/// Whether a name belongs to training, and so to no model function.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with(RESERVED)
}

/// Whether a parameter of a network of images cannot have a name: it belongs to training, or to a data input of models
/// of images.
pub fn is_taken(name: &str) -> bool {
    is_reserved(name) || [IMAGES, LABELS, TARGETS, WEIGHTS].contains(&name)
}

/// Whether a state belongs to an optimizer, or is a moving average.
pub fn is_of_optimizer(state: &str) -> bool {
    state.starts_with("@optimizer.") || state.starts_with("@ema.")
}

/// The name of a state in files that hold both states of training and states of the model function: different states
/// have different names there.
pub fn in_files(state: &str) -> Cow<'_, str> {
    match state.strip_prefix(RESERVED) {
        Some(own) => Cow::Borrowed(own),
        None if looks_reserved(state) => Cow::Owned(format!("{OF_MODEL}{state}")),
        None => Cow::Borrowed(state),
    }
}

/// Whether a name of the model function could be the name of another state in a file.
fn looks_reserved(name: &str) -> bool {
    let of_training = PREFIXES.map(|prefix| &prefix[1..]);
    of_training
        .into_iter()
        .chain([OF_MODEL])
        .any(|start| name.starts_with(start))
}

/// Sentence that refuses a name of a model function because it belongs to training.
pub fn refusal(name: &str) -> String {
    format!("the name `{name}` begins with `{RESERVED}`, which Lessen keeps for names of its own; choose another name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_training_have_plain_names_in_files_and_all_names_differ() {
        assert_eq!(in_files(&optimizer_state("m", "w")), "optimizer.m.w");
        assert_eq!(in_files(&average_of("w")), "ema.w");
        assert_eq!(in_files(&gradient_sum_of("w")), "gradient.w");
        let own = [
            "w",
            "lr",
            "@ema.w",
            "ema.w",
            "model:ema.w",
            "model:w",
            "optimizer.m.w",
            "@optimizer.m.w",
        ];
        let mut stored: Vec<_> = own.iter().map(|name| in_files(name)).collect();
        stored.sort();
        stored.dedup();
        assert_eq!(stored.len(), own.len());
    }
}
