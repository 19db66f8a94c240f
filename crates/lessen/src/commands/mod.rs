//! The commands, a file each.

mod access_args;
mod adapter_arg;
mod asked_model;
mod bench;
mod candidates;
mod chat_args;
pub mod completions;
mod condense;
mod convert;
mod converted_folder;
mod data;
mod device_args;
mod embed;
mod energy;
mod eval;
mod experiment;
mod export;
mod generate;
mod job_end;
mod job_request;
mod lines;
mod man;
mod model_args;
mod model_sizes;
mod output_place;
mod plan;
mod precision_args;
mod predict;
mod quantize;
mod quantize_onnx;
mod recipe_args;
mod recipes;
mod report;
mod run;
mod search;
mod serve;
mod train;

use crate::processes;
use clap::Subcommand;
use lessen_base::Result;

/// A command.
#[derive(Subcommand)]
pub enum Command {
    /// Train a model on --data, or by a recipe (by default the built-in adder), and leave a folder with the results
    Train(train::Train),
    /// Look at data: columns, task, lengths, balance, duplicates; what `lessen train --data` would learn
    Data(data::Data),
    /// Condense a data set of images into a few synthetic ones that teach nearly as much
    Condense(condense::Condense),
    /// Search for the architecture and the bits of a network together, under a cost of hardware
    Search(search::Search),
    /// Train a grid of runs that a file describes, and write a page with the results
    Experiment(experiment::Experiment),
    /// Score a model on a split of its data
    Eval(eval::Eval),
    /// Ask a classifier about a text, or about every line of a file
    Predict(predict::Predict),
    /// Write the vectors of texts: a Hugging Face model, a folder of sentence-transformers, or a run
    Embed(embed::Embed),
    /// Continue a text with a language model
    Generate(generate::Generate),
    /// Answer requests over HTTP: predictions, or continued texts as OpenAI's clients ask for them
    Serve(serve::Serve),
    /// Write a model as a Hugging Face folder of its own
    Export(export::Export),
    /// Write a model as a Hugging Face folder with the matrices of its linear layers as int8
    Quantize(quantize::Quantize),
    /// Turn the LayerNorms of an ONNX file or a Hugging Face folder into RMSNorm or CRMSNorm, with the same results
    Convert(convert::Convert),
    /// Run an ONNX file on inputs from NumPy's files, or on random ones
    Run(run::Run),
    /// Write a page with curves, memory, settings and results of one or several runs
    Report(report::Report),
    /// Forecast memory and time of a recipe without running it
    Plan(plan::Plan),
    /// Model cycles, energy and time of a model on an accelerator, layer by layer
    Energy(energy::Energy),
    /// Measure this machine: `lessen bench step`
    Bench(bench::Bench),
    /// List the built-in recipes, print the text of one, or list the keys of recipes
    Recipes(recipes::Recipes),
    /// Print the script with which a shell completes this command
    Completions(completions::Completions),
    /// Print the manual page, or write those of all commands into a folder
    Man(man::Man),
}

impl Command {
    /// Runs the command; the exit code. `cli` is the whole command line.
    pub fn run(self, cli: clap::Command) -> Result<u8> {
        let shared = matches!(
            self,
            Command::Train(_) | Command::Eval(_) | Command::Predict(_) | Command::Embed(_)
        );
        if !shared {
            processes::check_alone()?;
        }
        match self {
            Command::Train(command) => command.run(),
            Command::Data(command) => command.run(),
            Command::Condense(command) => command.run(),
            Command::Search(command) => command.run(),
            Command::Experiment(command) => command.run(),
            Command::Eval(command) => command.run(),
            Command::Predict(command) => command.run(),
            Command::Embed(command) => command.run(),
            Command::Generate(command) => command.run(),
            Command::Serve(command) => command.run(),
            Command::Export(command) => command.run(),
            Command::Quantize(command) => command.run(),
            Command::Convert(command) => command.run(),
            Command::Run(command) => command.run(),
            Command::Report(command) => command.run(),
            Command::Plan(command) => command.run(),
            Command::Energy(command) => command.run(),
            Command::Bench(command) => command.run(),
            Command::Recipes(command) => command.run(),
            Command::Completions(command) => command.run(&cli),
            Command::Man(command) => command.run(cli),
        }
    }
}
