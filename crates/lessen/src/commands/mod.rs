//! The commands, a file each.

mod bench;
mod eval;
mod experiment;
mod generate;
mod plan;
mod predict;
mod recipe_args;
mod recipes;
mod report;
mod train;

use clap::Subcommand;
use lessen_run::Result;

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Train a model by a recipe (by default the built-in adder) and leave a folder with all that came out
    Train(train::Train),
    /// Train the runs of a grid, as a file describes it, and write a page with what came out
    Experiment(experiment::Experiment),
    /// Score the model of a run on a split of its data
    Eval(eval::Eval),
    /// Ask the classifier of a run about a text
    Predict(predict::Predict),
    /// Continue a text with the language model of a run
    Generate(generate::Generate),
    /// Write a page with curves, memory, settings and results of one or several runs
    Report(report::Report),
    /// Say what a recipe would take in memory, without running it
    Plan(plan::Plan),
    /// Measure this machine: `lessen bench step`
    Bench(bench::Bench),
    /// List the built-in recipes, or the text of one, or the keys that recipes have
    Recipes(recipes::Recipes),
}

impl Command {
    /// Does it; the exit code.
    pub fn run(self) -> Result<u8> {
        match self {
            Command::Train(command) => command.run(),
            Command::Experiment(command) => command.run(),
            Command::Eval(command) => command.run(),
            Command::Predict(command) => command.run(),
            Command::Generate(command) => command.run(),
            Command::Report(command) => command.run(),
            Command::Plan(command) => command.run(),
            Command::Bench(command) => command.run(),
            Command::Recipes(command) => command.run(),
        }
    }
}
