//! The keys of a recipe: name, type, default and meaning, in one table that makes the structures, their reading and the
//! list of `lessen recipes --keys`.

mod choices;
mod data_formats;
mod field;
mod kinds;
mod macros;
mod model_kind;

pub use self::choices::{OptimizerKind, RecordSplit, SearchMethod, SpaceKind};
pub use self::data_formats::DataFormat;
pub(crate) use self::data_formats::data_formats;
pub(crate) use self::model_kind::transformers;
pub use self::model_kind::{ModelKind, Transformer};

use self::field::Field;
use self::kinds::{
    ACTIVATION, ATTENTION, AUGMENTATIONS, BITS, CHANNEL_NUMBERS, COLUMNS, DISTANCE, INNER_EPOCHS, LOSS, NAMES,
    NOT_NEGATIVE, PATH, RANGES, SHARE, STRATEGY, WEIGHTS,
};
use self::macros::keys;
use super::class_weights::ClassWeights;
use super::column_names::ColumnNames;
use super::image_lists::{Augmentations, ChannelNumbers};
use super::names;
use super::value::{SettingValue, ValueKind};
use super::warmup::Warmup;
use lessen_base::word::Word;
use lessen_compile::{CostSource, Placement, Precision};
use lessen_condense::{Distance, InnerEpochs, Level, Method, Start, Strategy};
use lessen_data::{Documents, Problem};
use lessen_graph::ops::attention::Weighting;
use lessen_nn::checkpoint::WeightDtype;
use lessen_nn::layers::Spread;
use lessen_nn::models::vision::Network;
use lessen_nn::{Activation, Bits, Loss, LrScheduleKind, NormKind, Patterns, Position, Ranges};
use lessen_search::{CostGradient, CostKind};
use std::path::PathBuf;

/// A key that recipes and `--set` may give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// Section and name, such as `train.lr`.
    pub name: &'static str,
    /// The values that it takes.
    pub kind: ValueKind,
    /// The default, as TOML; none where the key is optional.
    pub default: Option<&'static str>,
    /// Its meaning.
    pub meaning: &'static str,
}

keys! {
    /// The run itself.
    run: RunKeys {
        recipe: Option<String> [ValueKind::Text], "name of the recipe (default: that of its file)";
        budget: Option<usize> [ValueKind::Budget],
            "most memory for the whole process (--budget): a size such as \"512M\" or \"2GiB\", a share such as \"80%\" of the \
             control group's limit or else of the machine's memory, or \"auto\", that limit or else the memory that is \
             available; `lessen plan` says what it is for";
        cost: Option<CostSource> [ValueKind::Choice(CostSource::WORDS)],
            "times that the memory planner goes by (--cost): rates of a usual device, with which plans are the same on every \
             machine, or what operations take on this one, measured in a few seconds and kept in the user's cache folder; results \
             are the same (default: measured where there is a budget, else analytic)";
    }
    /// What a model is built from.
    model: ModelKeys {
        init: Option<PathBuf> [PATH], "Hugging Face folder, or ONNX file of a classifier of images, to start from (--init); its sizes replace those below";
        expects_init: bool [ValueKind::Switch] = "false",
            "whether the recipe is meant for a folder to start from; training without one says that it begins from scratch";
        base: Option<PathBuf> [PATH],
            "folder of the model that the adapters in model.init belong to (--base; default: the one that they name)";
        kind: ModelKind [ValueKind::Choice(ModelKind::WORDS)] = "\"gpt2\"",
            "language model, classifier of texts, or (vit, deit and convolutional networks) of images";
        architecture: Option<PathBuf> [PATH],
            "file with the blocks of mixed-mobilenet and their bits, such as architecture.json of `lessen search` (default: those \
             of MobileNetV2 with 8 bits)";
        layers: usize [ValueKind::Count(1)] = "2", "Transformer blocks";
        width: usize [ValueKind::Count(1)] = "128", "size of the hidden states";
        heads: usize [ValueKind::Count(1)] = "4", "attention heads; they share the width";
        ffn: usize [ValueKind::Count(1)] = "512", "inner size of the feed-forward layers";
        patch: usize [ValueKind::Count(1)] = "16", "rows and columns of the patches that vit and deit cut images into";
        kv_heads: Option<usize> [ValueKind::Count(1)],
            "attention heads of keys and values, a divisor of model.heads; llama and encoder only (default: as many as \
             model.heads)";
        reversible: Option<bool> [ValueKind::Switch],
            "whether layers have two streams, so that their input follows from their output, as in the Reformer; encoder only \
             (default: false)";
        buckets: Option<usize> [ValueKind::Count(0)],
            "rows of the table of pairs of tokens that follow each other, to which pairs are hashed: a power of two, or 0 for \
             tokens alone; linear only (default: 65536, or fewer for more than 61 classes)";
        ngrams: Option<usize> [ValueKind::Count(0)],
            "rows of such a table, whose sums, with those of a table of tokens, are added to the logits of the layers; encoder only \
             (default: none of these tables)";
        shared: Option<bool> [ValueKind::Switch],
            "whether tokens that both texts of a pair have count by rows of a table of their own, and by their share of all \
             tokens; linear, and encoder with model.ngrams, only (default: false)";
        attention: Option<Weighting> [ATTENTION],
            "how scores become weights, also of a checkpoint's model (default: the checkpoint's, else softmax)";
        position: Option<Position> [ValueKind::Choice(Position::WORDS)],
            "how the order of tokens is known, also of a checkpoint's model; a length is limited with learned ones only \
             (default: the checkpoint's, else rope for llama, gpt_neox and gptj, and learned for the others)";
        fire_width: Option<usize> [ValueKind::Count(1)],
            "hidden size of the function of model.position = \"fire\" (default: the checkpoint's, else 32)";
        fire_shared: Option<bool> [ValueKind::Switch],
            "whether all layers share that function (default: the checkpoint's, else true)";
        norm: Option<NormKind> [ValueKind::Choice(NormKind::WORDS)],
            "how layer norms are computed, also of a checkpoint's model: rms and crms subtract no mean and keep parameters recentred \
             instead, auto does where that spares means; the function of the model is the same (default: the checkpoint's, else layer)";
        batch_norm: Option<Spread> [ValueKind::Choice(Spread::WORDS)],
            "how batch normalization measures the spread of a channel, of a convolutional network: by the variance, or by the range \
             over the root of 2 ln n, for n numbers (default: the checkpoint's, else variance)";
        quantize: Option<Bits> [BITS],
            "bits of the weights and inputs of layers, such as w8a8 or w4a8, for which the model is trained: both are rounded in every \
             step, and in evaluations (default: the checkpoint's, else none)";
        quantize_ends: Option<Bits> [BITS],
            "bits of the first layer and of the head, or of the last layer where there is no head (default: w8a8)";
        quantize_except: Option<Patterns> [NAMES], "layers that are not quantized, such as *.c_proj";
        activation: Option<Activation> [ACTIVATION],
            "function of the feed-forward layers, or of all layers of a convolutional network, also of a checkpoint's model \
             (default: the checkpoint's, else gelu_new for gpt2 and gptj, silu for llama, the network's own, and gelu for the \
             others)";
        dropout: Option<f64> [SHARE],
            "share of dropped values, for llama of attention weights, also of a checkpoint's model (default: the checkpoint's, \
             else 0 for llama, gpt_neox, gptj, vit and deit, the convolutional network's own, and 0.1 for the others)";
        vocab: usize [ValueKind::Count(1)] = "4096", "tokens that `plan` assumes when it is given no data";
        classes: usize [ValueKind::Count(2)] = "2", "classes that `plan` assumes when it is given no data";
    }
    /// Where batches come from.
    data: DataKeys {
        path: Option<PathBuf> [PATH], "file or folder of the data (--data), or a pattern for files such as train-*.csv";
        dev: Option<PathBuf> [PATH],
            "file, or pattern for files, to evaluate on (default: that in the folder, else a share of the training data)";
        test: Option<PathBuf> [PATH], "file, or pattern for files, of the split test (default: that in the folder)";
        format: DataFormat [ValueKind::Choice(DataFormat::WORDS)] = "\"labelled\"", "what the data is";
        text: Option<String> [ValueKind::Text],
            "column of the text in CSV, TSV or JSON lines, or its number from 1 where there is no header line (default: text, \
             sentence and other usual names)";
        text_pair: Option<String> [ValueKind::Text],
            "column of the second text of a pair (default: sentence2, hypothesis and other usual names beside their first)";
        label: Option<ColumnNames> [COLUMNS],
            "column of the label (default: label, class and other usual names); of several labels a column with all of them, or \
             columns of 0 and 1 (default: all that are no texts)";
        inputs: Option<ColumnNames> [COLUMNS],
            "columns to learn from (data.format = \"table\"; default: all that say something)";
        problem: Option<Problem> [ValueKind::Choice(Problem::WORDS)],
            "what the labels of data.format = \"labelled\" are: a class for each text, any number of classes, or a number \
             (default: that of the model to evaluate, else single_label_classification)";
        separator: String [ValueKind::Text] = "\",\"",
            "what stands between the labels of a text where one column has all of them";
        threshold: f64 [SHARE] = "0.5", "probability from which on one of several labels counts as predicted";
        task: Option<String> [ValueKind::Text], "task of GLUE, such as CoLA (default: the name of the data's folder)";
        tokenizer: Option<String> [ValueKind::Path(&[CHARACTERS, WORD_PIECE, BYTE_PAIRS])],
            "folder of a tokenizer, or one that is learned of the training texts: `characters`, `wordpiece` as BERT has it (in \
             lower case, but for words with labels and language models), or `bpe` of bytes as GPT-2 has it; a folder of such a \
             name is ./wordpiece (default: the checkpoint's, else `characters`)";
        vocab: usize [ValueKind::Count(1)] = "8000", "most tokens of a vocabulary of wordpiece or bpe that is learned";
        min_count: usize [ValueKind::Count(1)] = "1", "a character that occurs more seldom counts as unknown";
        max_length: usize [ValueKind::Count(1)] = "128", "tokens of an example; longer ones are cut";
        stride: Option<usize> [ValueKind::Count(0)],
            "tokens that a window of a long context shares with the next one (data.format = \"squad\"; default: a \
             third of data.max_length)";
        answer_length: Option<usize> [ValueKind::Count(1)],
            "most tokens of an answer (data.format = \"squad\"; default: 30)";
        null_threshold: Option<f64> [ValueKind::Number(f64::MIN, f64::MAX)],
            "by how much the score of no answer must be above that of the best answer for a question to go unanswered \
             (data.format = \"squad\"; default: 0 where the data has questions without answers, else all are answered)";
        mask: f64 [SHARE] = "0.15",
            "share of the tokens that a masked language model is to predict (data.format = \"masked\"), drawn anew at each \
             step";
        lines: bool [ValueKind::Switch] = "false",
            "whether a masked language model reads each line as a text of its own, instead of windows over all lines";
        held_out: f64 [SHARE] = "0.1",
            "share of the data that is kept for validation where there is no dev file: the end of a text, or examples of each \
             class";
        held_out_seed: u64 [ValueKind::Count(0)] = "1", "decides which examples these are";
        group_by: Option<String> [ValueKind::Text],
            "column by which these are held out, such as a user: rows with the same value are on one side (data.format = \
             \"labelled\" or \"table\")";
        time_by: Option<String> [ValueKind::Text],
            "column of dates, times or numbers by which these are held out: they are the latest rows (data.format = \
             \"labelled\" or \"table\")";
        group: bool [ValueKind::Switch] = "false",
            "whether batches are of texts of similar lengths, which changes with every epoch";
        cache: Option<PathBuf> [PATH], "folder for the tokens of large data (default: lessen in the user's cache folder)";
        cache_from: usize [ValueKind::Size] = "\"32MiB\"",
            "data of at least so many bytes is tokenized into that folder once and is never in memory as a whole";
        documents: Documents [ValueKind::Choice(Documents::WORDS)] = "\"off\"",
            "what a language model keeps apart in a text: files, lines, paragraphs, or what the text has marked by end-of-text \
             tokens; each begins with that token, attention and positions do not reach beyond";
        shuffle: bool [ValueKind::Switch] = "true", "whether every epoch has an order of its own";
    }
    /// How images become what a model sees (data.format = "images").
    image: ImageKeys {
        size: Option<usize> [ValueKind::Count(1)],
            "rows and columns that the model sees (default: those of the images where all have the same, else 224)";
        channels: Option<usize> [ValueKind::Count(1)],
            "1 for grey images, 3 for colours (default: those of the data; grey ones among colours are converted)";
        crop: Option<f64> [SHARE],
            "share of the shorter side of an image that its middle has, which is seen in evaluations and predictions (default: 1 \
             where all images have the size that is seen, else 0.875)";
        augment: Option<Augmentations> [AUGMENTATIONS],
            "changes of training images, one after another, drawn anew for every image in every epoch, such as crop:4,flip";
        mixup: f64 [NOT_NEGATIVE] = "0.0",
            "images of a batch are mixed in pairs, with shares of Beta(a, a) for this a, and so are their labels; 0 is none";
        cutmix: f64 [NOT_NEGATIVE] = "0.0",
            "a rectangle of an image is that of another one of the batch, of a share of Beta(a, a) for this a; beside image.mixup \
             every other batch in the mean; 0 is none";
        mean: Option<ChannelNumbers> [CHANNEL_NUMBERS],
            "mean of each channel, with values from 0 to 1, that is subtracted (default: that of the training images)";
        std: Option<ChannelNumbers> [CHANNEL_NUMBERS],
            "deviation of each channel that is divided by (default: that of the training images)";
    }
    /// How long and how fast.
    train: TrainKeys {
        batch: usize [ValueKind::Count(1)] = "32", "examples in a batch";
        tokens: usize [ValueKind::Count(0)] = "0",
            "most tokens in a batch, in place of train.batch; batches are then of texts of similar lengths, and the loss is the \
             mean over the examples of each (0: examples are counted)";
        accumulate: usize [ValueKind::Count(1)] = "1", "batches whose gradients make one step";
        steps: u64 [ValueKind::Count(0)] = "0", "steps to train (--steps); 0 means as many as the epochs take";
        epochs: u64 [ValueKind::Count(1)] = "1", "times to see all the data, when no steps are given";
        lr: f64 [NOT_NEGATIVE] = "0.001", "learning rate, at its highest";
        schedule: LrScheduleKind [ValueKind::Choice(LrScheduleKind::WORDS)] = "\"constant\"",
            "shape of the learning rate after the warm-up";
        warmup: Warmup [ValueKind::CountOrShare] = "0",
            "steps in which the learning rate rises, or their share of all: from 0, with one-cycle from a 25th of its highest; a \
             number of steps that is more than half of all is replaced by a tenth of them, a share is kept";
        layer_decay: f64 [SHARE] = "1.0",
            "factor of the learning rate from each block of layers to the one before it; 1 is the same rate for all";
        loss: Loss [LOSS] = "\"softmax\"",
            "cross entropy: that of the logits, or of logits divided by their deviation (norm_softmax) or root mean square \
             (logit_norm); evaluations report the same loss";
        label_smoothing: f64 [SHARE] = "0.0",
            "probability that is spread over all classes or tokens, in the loss of training only";
        class_weights: Option<ClassWeights> [WEIGHTS],
            "how much the examples of each class count, in the loss of training only; with train.label_smoothing as in PyTorch: \
             the part that is spread counts each class by its weight";
        weight_decay: f64 [NOT_NEGATIVE] = "0.0",
            "decay of matrices; biases, norms and other vectors have none. It is per step and unit of the learning rate with adamw, \
             adamw_8bit, lion and adafactor, and a term of the gradient (L2 penalty) with the others";
        no_decay: Option<Patterns> [NAMES], "parameters without weight decay, too";
        freeze: Option<Patterns> [NAMES], "parameters that stay as they are";
        qat_ranges: Option<Ranges> [RANGES],
            "ranges of quantized inputs (model.quantize): a running greatest magnitude (running), one that a factor is learned for \
             (learned), or each row's and image's own (dynamic; default: the checkpoint's, else running)";
        qat_start: u64 [ValueKind::Count(0)] = "0",
            "steps before anything is rounded (model.quantize), in which ranges are taken";
        ema: f64 [SHARE] = "0.0",
            "decay of an exponential moving average of the parameters, with which it is evaluated and which is saved; 0 is none";
        clip_norm: f64 [NOT_NEGATIVE] = "0.0", "greatest norm of the gradient over all parameters; 0 is no limit";
        seed: u64 [ValueKind::Count(0)] = "1", "decides initial parameters, order of the data and dropout";
        eval_every: u64 [ValueKind::Count(0)] = "500", "steps between evaluations; 0 is at the end only";
        best: Option<String> [ValueKind::Text],
            "score that tells which evaluation is best, such as f1 or loss; model/ is then the best model (default: the \
             first score of the data, and model/ is the last one)";
        patience: u64 [ValueKind::Count(0)] = "0",
            "evaluations without a new best one after which training, or its phase, ends; 0 is never";
        checkpoint_every: u64 [ValueKind::Count(0)] = "500", "steps between checkpoints; 0 is at the end only";
        checkpoint_minutes: f64 [NOT_NEGATIVE] = "10.0",
            "minutes between checkpoints, beside those by steps, and a first one early; 0 is none of them";
        keep: usize [ValueKind::Count(1)] = "2", "checkpoints that are kept";
        save_optimizer: bool [ValueKind::Switch] = "true",
            "whether checkpoints hold the optimizer's state; without it, a run does not resume exactly";
        precision: Precision [ValueKind::Choice(Precision::WORDS)] = "\"f32\"",
            "what products of matrices read: f32, or bf16 added up in f32, which is faster on CPUs with instructions for it; parameters, \
             optimizer, norms, softmax and loss are f32 in any case, and no loss is scaled";
        allow_error: f64 [NOT_NEGATIVE] = "0.0",
            "greatest error, for values of magnitude 1, of what backward may have in an inexact way where that saves memory \
             (--allow-error): 1e-6 has inputs of reversible layers from their outputs, 0.002 keeps values as bf16, 0.004 in 8 bits; \
             0 is none, and no budget changes a result";
        save_dtype: WeightDtype [ValueKind::Choice(WeightDtype::WORDS)] = "\"f32\"",
            "dtype of saved weights; training and resuming use f32 in any case";
    }
    /// The rule of the update.
    optimizer: OptimizerKeys {
        kind: OptimizerKind [ValueKind::Choice(OptimizerKind::WORDS)] = "\"adamw\"",
            "what makes a step of a gradient; adamw_8bit has moments of 8 bits, adafactor of rows and columns, and adadelta's \
             train.lr is usually 1";
        placement: Placement [ValueKind::Choice(Placement::WORDS)] = "\"backward-fused\"",
            "update after backward, each parameter as soon as its gradient is complete, or each at the beginning of the next step, which \
             train.accumulate does not go with; planned: for each parameter the one or the other of these two, as the estimated time and \
             memory of plans say; the results are the same";
        beta1: Option<f64> [SHARE],
            "AdamW, Adam: decay of the mean gradient; Lion: share of it in a step (default: 0.9)";
        beta2: Option<f64> [SHARE],
            "AdamW, Adam: decay of the mean squared gradient (default: 0.999); Lion: decay of the mean gradient (default: 0.99)";
        epsilon: Option<f64> [NOT_NEGATIVE],
            "added to what is divided by (default: 1e-8, adagrad 1e-10, adadelta 1e-6); Adafactor: least root of a mean square \
             (default: 2^-23)";
        momentum: Option<f64> [SHARE], "SGD, RMSprop: share of the last step that is kept (default: sgd 0.9, rmsprop 0)";
        nesterov: Option<bool> [ValueKind::Switch], "SGD: whether a step looks ahead along the momentum (default: false)";
        alpha: Option<f64> [SHARE], "RMSprop: decay of the mean squared gradient (default: 0.99)";
        rho: Option<f64> [SHARE], "Adadelta: decay of the mean squares of gradients and steps (default: 0.9)";
        lr_decay: Option<f64> [NOT_NEGATIVE],
            "Adagrad: the learning rate of step t is divided by 1 + (t - 1) times this (default: 0)";
        initial_accumulator: Option<f64> [NOT_NEGATIVE], "Adagrad: what sums of squares begin with (default: 0)";
        beta2_decay: Option<f64> [ValueKind::Number(-1.0, 0.0)],
            "Adafactor: step t has the share t^beta2_decay in the mean squares (default: -0.8)";
        least_scale: Option<f64> [NOT_NEGATIVE],
            "Adafactor: least root mean square of a parameter that its step is multiplied by (default: 0.001)";
        clip_threshold: Option<f64> [NOT_NEGATIVE],
            "Adafactor: greatest root mean square of a step, before it is multiplied (default: 1)";
    }
    /// LoRA: small adapters are trained beside the weights of a checkpoint (model.init), which stay as they are.
    lora: LoraKeys {
        rank: usize [ValueKind::Count(0)] = "0", "rank of the adapters; 0 is no LoRA";
        alpha: f64 [NOT_NEGATIVE] = "16.0", "factor of the adapters, times their rank";
        rank_stabilized: bool [ValueKind::Switch] = "false", "whether the factor is alpha over the root of the rank (rsLoRA)";
        targets: Option<Patterns> [NAMES],
            "layers that get adapters, such as query,value; all-linear is all of them, but for those that are trained whole";
        dropout: f64 [SHARE] = "0.0", "share of dropped values before the adapters";
        whole: Option<Patterns> [NAMES],
            "parameters that are trained beside the adapters, with those that the checkpoint lacks (default: the head, but for that \
             of a model that continues texts)";
    }
    /// Statistics of values inside the model, which change nothing of the training.
    record: RecordKeys {
        every: u64 [ValueKind::Count(0)] = "0",
            "steps between recordings, each before its step; the last step has one too, 0 is none at all";
        what: String [ValueKind::Text] = "\"*\"",
            "values, separated by commas: activations, attention, or names, in which * stands for any characters";
        split: RecordSplit [ValueKind::Choice(RecordSplit::WORDS)] = "\"train\"",
            "recorded on the batch of the step, with its dropout, on the first one of the split dev, or both";
    }
    /// Condensation of a data set of images (`lessen condense`).
    condense: CondenseKeys {
        per_class: Option<usize> [ValueKind::Count(1)], "synthetic images of each class (--per-class; default: 1)";
        network: Option<Network> [ValueKind::Choice(&Network::NAMES)],
            "network that is matched (default: convnet-3)";
        width: Option<usize> [ValueKind::Count(1)], "channels of each convolution of convnet-3 (default: 128)";
        depth: Option<usize> [ValueKind::Count(1)], "blocks of convnet-3 (default: 3)";
        method: Option<Method> [ValueKind::Choice(Method::WORDS)],
            "settings by name (--method), which decide the defaults of the keys below: of Jiang (2023) gradients of each class, their \
             angle and a fixed schedule (baseline), gradients of several levels (m), also their magnitude (md), and the network \
             trained until it overfits (mdo) or by an adaptive schedule (mda); of others the baseline with siamese augmentation \
             (dsa), means of features (dm), and ways of networks that are trained on the real images (mtt); or real images that are \
             chosen (random, herding, k-center, forgetting; default: mda)";
        iterations: Option<usize> [ValueKind::Count(1)],
            "outer iterations, each with a new network (--iterations; default: as many as fill condense.minutes, settled after half \
             of them)";
        minutes: Option<f64> [NOT_NEGATIVE], "minutes to fill where no number of iterations is given (default: 5)";
        updates: Option<usize> [ValueKind::Count(1)],
            "updates of the images in an outer iteration (default: those of the papers for the number of images of a class)";
        epochs: Option<InnerEpochs> [INNER_EPOCHS],
            "epochs of the network over the synthetic images between two updates of these; of a coreset over all images (default: the \
             method's)";
        level: Option<Level> [ValueKind::Choice(Level::WORDS)],
            "gradients that are matched: of each class, of all classes together, of both in turns, of both in each update \
             (default: multi, of the baseline intra)";
        lambda: Option<f64> [NOT_NEGATIVE],
            "weight of the gradients of all classes together (default: the number of classes)";
        distance: Option<Distance> [DISTANCE],
            "distance of gradients: one less the cosine (d1), Euclidean (d2), squared (d3), mean squared (d4) (default: d1+d2, of \
             the baseline and m d1)";
        image_rate: Option<f64> [NOT_NEGATIVE], "learning rate of the images (default: 0.1, for network mlp 0.01, of dm 1, of mtt 1000)";
        image_momentum: Option<f64> [SHARE], "momentum of the images' updates, below 1 (default: 0.5)";
        network_rate: Option<f64> [NOT_NEGATIVE], "learning rate of the network (default: 0.01)";
        network_momentum: Option<f64> [SHARE], "momentum of the network's updates, below 1 (default: 0.5, of dsa and mtt 0)";
        real_batch: Option<usize> [ValueKind::Count(1)],
            "real images of a class in an update of the images, at most all of the smallest class (default: 256, and 16 where gradients \
             are matched and a time is to be filled)";
        network_batch: Option<usize> [ValueKind::Count(1)],
            "synthetic images in a step of the network, of mtt real images in a step of an expert (default: 256)";
        start: Option<Start> [ValueKind::Choice(Start::WORDS)],
            "first values of the images: normal noise, or real images of the class (default: noise, of dsa, dm and mtt real)";
        augment: Option<Strategy> [STRATEGY],
            "siamese augmentation of real and synthetic images (default: none, of dsa, dm and mtt all of these, without flip for the \
             recipe mnist)";
        soft_labels: Option<f64> [NOT_NEGATIVE],
            "learning rate of soft labels, which are learned with the images; 0 is none (default: none)";
        experts: Option<usize> [ValueKind::Count(1)], "mtt: networks that are trained on the real images (default: 5)";
        expert_epochs: Option<usize> [ValueKind::Count(1)], "mtt: epochs of each of them (default: 10)";
        start_epochs: Option<usize> [ValueKind::Count(1)],
            "mtt: epochs of an expert after which a student begins are below this number (default: 8)";
        target_epochs: Option<usize> [ValueKind::Count(1)],
            "mtt: epochs of the expert from there to what the student is to reach (default: 3)";
        student_steps: Option<usize> [ValueKind::Count(1)], "mtt: steps of a student (default: 20)";
        student_batch: Option<usize> [ValueKind::Count(1)],
            "mtt: synthetic images in a step of a student (default: all of them)";
        student_rate: Option<f64> [NOT_NEGATIVE],
            "mtt: learning rate of students at first, which is learned with the images (default: 0.01)";
        student_rate_rate: Option<f64> [NOT_NEGATIVE], "mtt: learning rate of that learning rate (default: 1e-5)";
        seed: Option<u64> [ValueKind::Count(0)],
            "seed of the images, the networks and all batches (--seed; default: 1)";
        precision: Option<Precision> [ValueKind::Choice(Precision::WORDS)],
            "dtype that products and convolutions read (default: f32)";
        checkpoint_minutes: Option<f64> [NOT_NEGATIVE],
            "minutes between checkpoints, the first after half a minute at most; 0 is none of them (default: 5)";
    }
    /// Search for architecture and precision on a data set of images (`lessen search`).
    search: SearchKeys {
        method: Option<SearchMethod> [ValueKind::Choice(SearchMethod::WORDS)],
            "architecture and bits together (joint), the architecture alone with bits of search.bits everywhere (architecture), or the \
             bits of search.architecture: exactly by measured sensitivities (allocation) or by reinforcement learning (haq; default: \
             joint)";
        space: Option<SpaceKind> [ValueKind::Choice(SpaceKind::WORDS)],
            "blocks of table 2.10 of Jiang (2023), for images of 224 pixels or of CIFAR (default: cifar up to 64 pixels)";
        width: Option<f64> [NOT_NEGATIVE], "factor of all channels, rounded to multiples of 4 (default: 1)";
        depth: Option<usize> [ValueKind::Count(1)], "most blocks of a row of the table (default: all)";
        kernels: Option<String> [ValueKind::Text], "kernels of a block (default: 3,5,7)";
        expansions: Option<String> [ValueKind::Text], "factors of the channels inside a block (default: 1,3,6)";
        bits: Option<String> [ValueKind::Text],
            "bits of the layers of a block (default: 2,4,6,8; of search.method = \"architecture\" 8)";
        architecture: Option<PathBuf> [PATH],
            "file with the network whose bits are searched, such as architecture.json of a search (default: MobileNetV2)";
        cost: Option<CostKind> [ValueKind::Choice(CostKind::WORDS)],
            "what a network costs (--cost): energy in mJ, latency in ms or size of the weights in MB (default: energy)";
        limit: Option<String> [ValueKind::Text],
            "most that the network may cost (--limit), such as 1.2mJ, 3ms or 0.5MB; only the mean cost beyond it counts (default: none, \
             every cost counts)";
        lambda: Option<f64> [NOT_NEGATIVE],
            "weight of the mean cost beyond the limit in the loss of the architecture, for a cost in mJ, ms or MB (default: 0.1)";
        accelerator: Option<String> [ValueKind::Path(&["bf_e", "bf_s", "haq"])],
            "hardware (--accelerator): bf_e or bf_s, which are BitFusion in two sizes, haq, the bit-serial latencies of HAQ's code, or a \
             TOML file of an accelerator (default: bf_e)";
        depthwise: Option<String> [ValueKind::Text],
            "how BitFusion computes convolutions with groups, as --depthwise of `lessen energy` (default: that of per-group, columns, \
             taps and dense with which the cheapest network costs least)";
        cost_batch: Option<usize> [ValueKind::Count(1)],
            "images that go through a network together where its cost is told; it is of one of them (default: 16)";
        epochs: Option<usize> [ValueKind::Count(1)],
            "epochs of the search, or of the training with 8 bits before bits are searched (--epochs; default: 60)";
        frozen_epochs: Option<usize> [ValueKind::Count(0)], "epochs at first in which only weights move (default: 10)";
        batch: Option<usize> [ValueKind::Count(1)], "images of a step (default: 64)";
        validation: Option<f64> [SHARE],
            "share of the training images by which the architecture is updated, or bits are judged (default: 0.2)";
        weight_rate: Option<f64> [NOT_NEGATIVE],
            "learning rate of the weights at first, which falls to 0 by a cosine (default: 0.1)";
        weight_momentum: Option<f64> [SHARE], "momentum of the weights, below 1 (default: 0.9)";
        weight_decay: Option<f64> [NOT_NEGATIVE], "decay of the weights, a term of the gradient (default: 4e-5)";
        clip: Option<f64> [NOT_NEGATIVE], "greatest magnitude of an element of a gradient of the weights (default: 5)";
        logit_rate: Option<f64> [NOT_NEGATIVE], "learning rate of the architecture, by Adam (default: 0.01)";
        logit_decay: Option<f64> [NOT_NEGATIVE], "decay of the architecture's logits (default: 5e-4)";
        temperature: Option<f64> [NOT_NEGATIVE], "temperature of the Gumbel softmax in the first epoch (default: 5)";
        cooling: Option<f64> [NOT_NEGATIVE],
            "each epoch has exp(-cooling) of the temperature before (default: 0.045)";
        unrolled: Option<bool> [ValueKind::Switch],
            "whether the architecture is updated by the loss after one step of the weights (equation 2.31), with second derivatives; \
             else by that of the present weights (default: false)";
        samples: Option<usize> [ValueKind::Count(1)],
            "samples of the Gumbel softmax in an update of the architecture (default: 1)";
        cost_gradient: Option<CostGradient> [ValueKind::Choice(CostGradient::WORDS)],
            "derivative of the mean cost: by REINFORCE, or exact from the table of costs (default: reinforce)";
        cost_samples: Option<usize> [ValueKind::Count(1)], "networks that REINFORCE draws in an update (default: 16)";
        spread: Option<Spread> [ValueKind::Choice(Spread::WORDS)],
            "how the norms of the supernet measure the spread of a channel (default: range)";
        label_smoothing: Option<f64> [SHARE], "probability that is spread over all classes (default: 0.1)";
        mixup: Option<f64> [NOT_NEGATIVE],
            "images of a batch are mixed in pairs, with shares of Beta(a, a) for this a; 0 is none (default: 0.2)";
        augment: Option<bool> [ValueKind::Switch],
            "whether images are shifted by up to 4 pixels and mirrored (default: true)";
        episodes: Option<usize> [ValueKind::Count(1)], "haq: networks that are tried (default: 600)";
        tune_epochs: Option<usize> [ValueKind::Count(0)],
            "haq: epochs of training with other bits before they are judged (default: 1)";
        seed: Option<u64> [ValueKind::Count(0)], "seed of weights, images and samples (--seed; default: 1)";
        precision: Option<Precision> [ValueKind::Choice(Precision::WORDS)],
            "dtype that products and convolutions read (default: f32)";
        checkpoint_minutes: Option<f64> [NOT_NEGATIVE],
            "minutes between checkpoints, the first after half a minute at most; 0 is none of them (default: 5)";
    }
}

/// The default of `data.threshold`.
pub(crate) const THRESHOLD: f64 = 0.5;

/// The default of `data.separator`.
pub(crate) const SEPARATOR: &str = ",";

/// The word for a tokenizer made of the characters of the training texts.
pub const CHARACTERS: &str = "characters";

/// The word for a tokenizer with a vocabulary of word pieces that is learned of the training texts.
pub const WORD_PIECE: &str = "wordpiece";

/// The word for a tokenizer with pairs of bytes that are learned of the training texts.
pub const BYTE_PAIRS: &str = "bpe";

/// The key of this name, which is in the table.
fn known(name: &str) -> &'static Key {
    KEYS.iter().find(|key| key.name == name).unwrap_or(&KEYS[0])
}

/// The key of this name.
///
/// # Errors
/// The name of the most similar key, by its own name or by its names in other programs.
pub fn find(name: &str) -> Result<&'static Key, &'static str> {
    let exact = KEYS.iter().find(|key| key.name == name);
    exact.ok_or_else(|| names::nearest(name, KEYS.iter().map(|key| key.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (index, key) in KEYS.iter().enumerate() {
            assert!(KEYS[..index].iter().all(|other| other.name != key.name), "{}", key.name);
        }
        for (key, others) in names::OTHER_NAMES {
            assert!(find(key).is_ok(), "{key}");
            assert!(others.iter().all(|other| find(other) == Err(*key)), "{others:?}");
        }
    }
}
