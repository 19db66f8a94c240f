//! `lessen embed`

mod input;
mod output;

use self::input::Input;
use self::output::Output;
use super::asked_model::AskedModel;
use crate::{processes, stdout, tell};
use clap::Args;
use lessen_base::{Error, Result};
use lessen_comm::Group;
use lessen_saved::embedding::{EmbedOptions, Embedder, Prompt, parse_pooling};
use std::path::{Path, PathBuf};

/// Flags of `lessen embed`.
#[derive(Args)]
pub struct Embed {
    #[command(flatten)]
    asked: AskedModel,
    #[command(flatten)]
    texts: Texts,
    /// Column of the texts in a file with named columns [default: text, sentence or another usual name]
    #[arg(long, value_name = "NAME", requires = "input")]
    column: Option<String>,
    /// File to write to: JSON lines (.jsonl), or an array for NumPy with a row for each text (.npy) [default: JSON
    /// lines on stdout]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Text to put before each text, in place of the model's default prompt; an empty one is none
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with = "prompt_name"
    )]
    prompt: Option<String>,
    /// Name of one of the model's prompts, such as query, to put before each text
    #[arg(long, value_name = "NAME")]
    prompt_name: Option<String>,
    /// How the states of a text's tokens become its vector: cls, mean, max, mean_sqrt_len_tokens, weightedmean or
    /// lasttoken, or several with + between [default: as the model's folder says, else mean]
    #[arg(long, value_name = "WAY")]
    pooling: Option<String>,
    /// Whether vectors are divided by their lengths [default: as the model's folder says, else false]
    #[arg(long, value_name = "BOOL")]
    normalize: Option<bool>,
    /// Most tokens of a text; what is beyond is cut off [default: as the model's folder says]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_length: Option<usize>,
}

/// The texts to embed.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Texts {
    /// A text; may be repeated
    #[arg(long, allow_hyphen_values = true)]
    text: Vec<String>,
    /// File with a text on each line, or with named columns (.csv, .tsv, .jsonl); - is stdin
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    input: Option<PathBuf>,
}

impl Embed {
    /// Embeds the texts, with the other processes that a launcher has started; the exit code.
    pub fn run(self) -> Result<u8> {
        processes::alone_or_together(None, |group| self.embed(group))
    }

    /// Embeds the texts with the processes of a group; the exit code.
    fn embed(&self, group: &Group) -> Result<u8> {
        if group.size() > 1 && self.texts.input.as_deref() == Some(Path::new("-")) {
            return Err(Error::user(
                "several processes embed the texts of a file, not of stdin; start this command without the launcher",
            ));
        }
        let options = self.asked.embed_options()?;
        let options = EmbedOptions {
            pooling: self.pooling.as_deref().map(parse_pooling).transpose()?,
            normalize: self.normalize,
            max_length: self.max_length,
            ..options
        };
        let output = Output::of(self.output.as_deref().filter(|_| !stdout::is_dropped()))?;
        let read: Vec<PathBuf> = self.texts.input.iter().cloned().collect();
        self.output
            .as_deref()
            .map_or(Ok(()), |out| self.asked.model.check_output(out, &read))?;
        let mut input = match &self.texts.input {
            Some(path) => Input::open(path, self.column.as_deref())?,
            None => Input::given(self.texts.text.clone()),
        };
        let embedder = self.asked.embedder(&options)?.shared_by(group.clone());
        for note in embedder.notes() {
            tell(&format!("note: {note}"));
        }
        if embedder.widens_bf16() {
            self.asked.precision.warn();
        }
        if embedder.multiplies_integers() {
            self.asked.device.warn_of_integers()?;
        }
        let prompt = match (&self.prompt, &self.prompt_name) {
            (Some(text), _) => Prompt::Text(text),
            (None, Some(name)) => Prompt::Named(name),
            (None, None) => Prompt::Default,
        };
        let width = embedder.dim();
        output.write(width, |sink| embed_all(&embedder, prompt, &mut input, sink))?;
        Ok(0)
    }
}

/// Takes each text and its vector; whether somebody still listens.
type Sink<'a> = dyn FnMut(&str, &[f32]) -> Result<bool> + 'a;

/// Embeds all texts, some at a time.
fn embed_all(embedder: &Embedder, prompt: Prompt<'_>, input: &mut Input, sink: &mut Sink<'_>) -> Result<()> {
    let (mut count, mut cut) = (0, 0);
    let normalize = embedder.normalizes();
    loop {
        let texts = input.next(embedder.at_once())?;
        if texts.is_empty() {
            break;
        }
        let shown: Vec<&str> = texts.iter().map(String::as_str).collect();
        let found = embedder
            .embed_with(&shown, prompt, normalize)
            .map_err(|error| input.name().map_or(error.clone(), |name| error.at(name)))?;
        for (text, row) in texts.iter().zip(&found.rows) {
            if let Some(element) = row.iter().find(|element| !element.is_finite()) {
                return Err(Error::user(format!(
                    "the vector of text {} has the element {element}; the model's weights are damaged, or its precision is \
                     too low",
                    count + 1
                )));
            }
            count += 1;
            if !sink(text, row)? {
                return Ok(());
            }
        }
        cut += found.cut;
    }
    if cut > 0 {
        let share = 100.0 * cut as f64 / count as f64;
        tell(&format!(
            "warning: {cut} of {count} texts ({share:.1} %) were cut at {} tokens",
            embedder.max_length()
        ));
    }
    Ok(())
}
