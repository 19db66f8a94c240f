//! The folder of a search.
//!
//! ```text
//! search.toml        the settings of the recipe, all of them
//! manifest.json      data, classes, epochs
//! architecture.json  the network that was found, block by block
//! recipe.toml        a recipe that trains it: `lessen train FOLDER/recipe.toml --data DIR`
//! choices.json       the probability of every possibility of every block (searches by a supernet)
//! report.json        what the network costs, in numbers; report.md says it in words
//! curves.svg         losses and costs over the epochs (searches by a supernet)
//! metrics.jsonl      the numbers of each epoch; events.out.tfevents.* has them for TensorBoard
//! sessions.json      time and memory of all sessions
//! checkpoint/        the state after an epoch, or after a test of bits, from which a killed search is resumed
//! .lock              while a process works on it
//! ```

/// The file of the network.
pub(crate) const ARCHITECTURE: &str = "architecture.json";
/// The file of the recipe that trains the network.
pub(crate) const RECIPE: &str = "recipe.toml";
/// The file of the numbers that a search ends with; it says that the search has ended.
pub(crate) const REPORT: &str = "report.json";
/// The file of the probabilities.
pub(crate) const CHOICES: &str = "choices.json";
