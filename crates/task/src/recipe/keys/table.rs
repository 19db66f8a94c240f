//! The sections of a run: what it learns, from what, and how.

use super::{
    BUDGET, COUNT_OR_SHARE, DataFormat, ModelKind, NOT_NEGATIVE, OptimizerKind, RecordSplit, SHARE, SIZE, SWITCH, TEXT,
    choice, count, form, list, number, path,
};
use super::{BYTE_PAIRS, CHARACTERS, WORD_PIECE};
use crate::recipe::class_weights::ClassWeights;
use crate::recipe::column_names::ColumnNames;
use crate::recipe::image_lists::{Augmentations, ChannelNumbers};
use crate::recipe::warmup::Warmup;
use crate::settings;
use lessen_compile::{CostSource, Placement, Precision};
use lessen_data::{Documents, Problem};
use lessen_graph::ops::attention::Weighting;
use lessen_nn::checkpoint::WeightDtype;
use lessen_nn::layers::Spread;
use lessen_nn::{Activation, Bits, Loss, LrScheduleKind, NormKind, Patterns, Position, Ranges};
use std::path::PathBuf;

settings! {
    /// The run itself.
    run: RunKeys {
        recipe: Option<String> [TEXT], "name of the recipe (default: that of its file)";
        budget: Option<usize> [BUDGET],
            "most memory for the whole process (--budget): a size such as \"512M\" or \"2GiB\", a share such as \
             \"80%\" of the control group's limit or else of the machine's memory, or \"auto\", that limit or else \
             the memory that is available; `lessen plan` says what it is for";
        cost: Option<CostSource> [choice()],
            "times that the memory planner goes by (--cost): rates of a usual device, with which plans are the same \
             on every machine, or what operations take on this one, measured in a few seconds and kept in the user's \
             cache folder; results are the same (default: measured where there is a budget, else analytic)";
    }
    /// What a model is built from.
    model: ModelKeys {
        init: Option<PathBuf> [path(&[])],
            "Hugging Face folder, or ONNX file of a classifier of images, to start from (--init); its sizes replace \
             those below";
        expects_init: bool [SWITCH] = "false",
            "whether the recipe is meant for a folder to start from; training without one says that it begins from \
             scratch";
        base: Option<PathBuf> [path(&[])],
            "folder of the model that the adapters in model.init belong to (--base; default: the one that they name)";
        kind: ModelKind [choice()] = "\"gpt2\"",
            "language model, classifier of texts, or (vit, deit and convolutional networks) of images";
        architecture: Option<PathBuf> [path(&[])],
            "file with the blocks of mixed-mobilenet and their bits, such as architecture.json of `lessen search` \
             (default: those of MobileNetV2 with 8 bits)";
        layers: usize [count(1)] = "2", "Transformer blocks";
        width: usize [count(1)] = "128", "size of the hidden states";
        heads: usize [count(1)] = "4", "attention heads; they share the width";
        ffn: usize [count(1)] = "512", "inner size of the feed-forward layers";
        patch: usize [count(1)] = "16", "rows and columns of the patches that vit and deit cut images into";
        kv_heads: Option<usize> [count(1)],
            "attention heads of keys and values, a divisor of model.heads; llama and encoder only (default: as many \
             as model.heads)";
        reversible: Option<bool> [SWITCH],
            "whether layers have two streams, so that their input follows from their output, as in the Reformer; \
             encoder only (default: false)";
        buckets: Option<usize> [count(0)],
            "rows of the table of pairs of tokens that follow each other, to which pairs are hashed: a power of two, \
             or 0 for tokens alone; linear only (default: 65536, or fewer for more than 61 classes)";
        ngrams: Option<usize> [count(0)],
            "rows of such a table, whose sums, with those of a table of tokens, are added to the logits of the \
             layers; encoder only (default: none of these tables)";
        shared: Option<bool> [SWITCH],
            "whether tokens that both texts of a pair have count by rows of a table of their own, and by their share of all \
             tokens; linear, and encoder with model.ngrams, only (default: false)";
        attention: Option<Weighting> [form(Weighting::words)],
            "how scores become weights, also of a checkpoint's model (default: the checkpoint's, else softmax)";
        position: Option<Position> [choice()],
            "how the order of tokens is known, also of a checkpoint's model; a length is limited with learned ones \
             only (default: the checkpoint's, else rope for llama, gpt_neox and gptj, and learned for the others)";
        fire_width: Option<usize> [count(1)],
            "hidden size of the function of model.position = \"fire\" (default: the checkpoint's, else 32)";
        fire_layers: Option<usize> [count(1)],
            "hidden layers of that function, 1 or 2, as the authors of FLARE have it; with 2 attention is not fused, and \
             scores are in memory (default: the checkpoint's, else 1)";
        fire_length: Option<f64> [number(1.0, 1e9)],
            "position up to which that function divides distances by the same number, in tokens (default: the \
             checkpoint's, else 512)";
        fire_length_learned: Option<bool> [SWITCH],
            "whether that length is learned, beginning there (default: the checkpoint's, else true)";
        fire_shared: Option<bool> [SWITCH],
            "whether all layers share that function (default: the checkpoint's, else true)";
        norm: Option<NormKind> [choice()],
            "how layer norms are computed, also of a checkpoint's model: rms and crms subtract no mean and keep \
             parameters recentred instead, auto does where that spares means; the function of the model is the same \
             (default: the checkpoint's, else layer)";
        batch_norm: Option<Spread> [choice()],
            "how batch normalization measures the spread of a channel, of a convolutional network: by the variance of \
             a micro-batch, by that of all micro-batches of a step on all processes (synchronized), by the range over \
             the root of 2 ln n, for n numbers, or by that of inputs that are rounded to 8 bits (range8; default: the \
             checkpoint's, else variance)";
        quantize: Option<Bits> [form(Bits::words)],
            "bits of the weights and inputs of layers, such as w8a8 or w4a8, for which the model is trained: both are \
             rounded in every step, and in evaluations (default: the checkpoint's, else none)";
        quantize_ends: Option<Bits> [form(Bits::words)],
            "bits of the first layer and of the head, or of the last layer where there is no head (default: w8a8)";
        quantize_except: Option<Patterns> [list(Patterns::words)], "layers that are not quantized, such as *.c_proj";
        activation: Option<Activation> [form(Activation::words)],
            "function of the feed-forward layers, or of all layers of a convolutional network, also of a checkpoint's \
             model (default: the checkpoint's, else gelu_new for gpt2 and gptj, silu for llama, the network's own, \
             and gelu for the others)";
        dropout: Option<f64> [SHARE],
            "share of dropped values, for llama of attention weights, also of a checkpoint's model (default: the \
             checkpoint's, else 0 for llama, gpt_neox, gptj, vit and deit, the convolutional network's own, and 0.1 \
             for the others)";
        vocab: usize [count(1)] = "4096", "tokens that `plan` assumes when it is given no data";
        classes: usize [count(2)] = "2", "classes that `plan` assumes when it is given no data";
    }
    /// Where batches come from.
    data: DataKeys {
        path: Option<PathBuf> [path(&[])],
            "file or folder of the data (--data), or a pattern for files such as train-*.csv";
        dev: Option<PathBuf> [path(&[])],
            "file, or pattern for files, to evaluate on (default: that in the folder, else a share of the training \
             data)";
        test: Option<PathBuf> [path(&[])],
            "file, or pattern for files, of the split test (default: that in the folder)";
        format: DataFormat [choice()] = "\"labelled\"", "what the data is";
        text: Option<String> [TEXT],
            "column of the text in CSV, TSV or JSON lines, or its number from 1 where there is no header line \
             (default: text, sentence and other usual names)";
        text_pair: Option<String> [TEXT],
            "column of the second text of a pair (default: sentence2, hypothesis and other usual names beside their \
             first)";
        label: Option<ColumnNames> [list(ColumnNames::words)],
            "column of the label (default: label, class and other usual names); of several labels a column with all \
             of them, or columns of 0 and 1 (default: all that are no texts)";
        inputs: Option<ColumnNames> [list(ColumnNames::words)],
            "columns to learn from (data.format = \"table\"; default: all that say something)";
        problem: Option<Problem> [choice()],
            "what the labels of data.format = \"labelled\" are: a class for each text, any number of classes, or a \
             number (default: that of the model to evaluate, else single_label_classification)";
        separator: String [TEXT] = "\",\"", "what stands between the labels of a text where one column has all of them";
        threshold: f64 [SHARE] = "0.5", "probability from which on one of several labels counts as predicted";
        task: Option<String> [TEXT], "task of GLUE, such as CoLA (default: the name of the data's folder)";
        tokenizer: Option<String> [path(&[CHARACTERS, WORD_PIECE, BYTE_PAIRS])],
            "folder of a tokenizer, or one that is learned of the training texts: `characters`, `wordpiece` as BERT \
             has it (in lower case, but for words with labels and language models), or `bpe` of bytes as GPT-2 has \
             it; a folder of such a name is ./wordpiece (default: the checkpoint's, else `characters`)";
        vocab: usize [count(1)] = "8000", "most tokens of a vocabulary of wordpiece or bpe that is learned";
        min_count: usize [count(1)] = "1", "a character that occurs more seldom counts as unknown";
        max_length: usize [count(1)] = "128", "tokens of an example; longer ones are cut";
        stride: Option<usize> [count(0)],
            "tokens that a window of a long context shares with the next one (data.format = \"squad\"; default: a \
             third of data.max_length)";
        answer_length: Option<usize> [count(1)], "most tokens of an answer (data.format = \"squad\"; default: 30)";
        null_threshold: Option<f64> [number(f64::MIN, f64::MAX)],
            "by how much the score of no answer must be above that of the best answer for a question to go unanswered \
             (data.format = \"squad\"; default: 0 where the data has questions without answers, else all are \
             answered)";
        mask: f64 [SHARE] = "0.15",
            "share of the tokens that a masked language model is to predict (data.format = \"masked\"), drawn anew at \
             each step";
        lines: bool [SWITCH] = "false",
            "whether a masked language model reads each line as a text of its own, instead of windows over all lines";
        held_out: f64 [SHARE] = "0.1",
            "share of the data that is kept for validation where there is no dev file: the end of a text, or examples \
             of each class";
        held_out_seed: u64 [count(0)] = "1", "decides which examples these are";
        group_by: Option<String> [TEXT],
            "column by which these are held out, such as a user: rows with the same value are on one side \
             (data.format = \"labelled\" or \"table\")";
        time_by: Option<String> [TEXT],
            "column of dates, times or numbers by which these are held out: they are the latest rows (data.format = \
             \"labelled\" or \"table\")";
        group: bool [SWITCH] = "false",
            "whether batches are of texts of similar lengths, which changes with every epoch";
        cache: Option<PathBuf> [path(&[])],
            "folder for the tokens of large data (default: lessen in the user's cache folder)";
        cache_from: usize [SIZE] = "\"32MiB\"",
            "data of at least so many bytes is tokenized into that folder once and is never in memory as a whole";
        documents: Documents [choice()] = "\"off\"",
            "what a language model keeps apart in a text: files, lines, paragraphs, or what the text has marked by \
             end-of-text tokens; each begins with that token, attention and positions do not reach beyond";
        shuffle: bool [SWITCH] = "true", "whether every epoch has an order of its own";
    }
    /// How images become what a model sees (data.format = "images").
    image: ImageKeys {
        size: Option<usize> [count(1)],
            "rows and columns that the model sees (default: those of the images where all have the same, else 224)";
        channels: Option<usize> [count(1)],
            "1 for grey images, 3 for colours (default: those of the data; grey ones among colours are converted)";
        crop: Option<f64> [SHARE],
            "share of the shorter side of an image that its middle has, which is seen in evaluations and predictions \
             (default: 1 where all images have the size that is seen, else 0.875)";
        augment: Option<Augmentations> [list(Augmentations::words)],
            "changes of training images, one after another, drawn anew for every image in every epoch, such as \
             crop:4,flip";
        mixup: f64 [NOT_NEGATIVE] = "0.0",
            "images of a batch are mixed in pairs, with shares of Beta(a, a) for this a, and so are their labels; 0 \
             is none";
        cutmix: f64 [NOT_NEGATIVE] = "0.0",
            "a rectangle of an image is that of another one of the batch, of a share of Beta(a, a) for this a; beside \
             image.mixup every other batch in the mean; 0 is none";
        mean: Option<ChannelNumbers> [list(ChannelNumbers::words)],
            "mean of each channel, with values from 0 to 1, that is subtracted (default: that of the training images)";
        std: Option<ChannelNumbers> [list(ChannelNumbers::words)],
            "deviation of each channel that is divided by (default: that of the training images)";
    }
    /// How long and how fast.
    train: TrainKeys {
        batch: usize [count(1)] = "32", "examples in a batch";
        tokens: usize [count(0)] = "0",
            "most tokens in a batch, in place of train.batch; batches are then of texts of similar lengths, and the \
             loss is the mean over the examples of each (0: examples are counted)";
        accumulate: usize [count(1)] = "1", "batches whose gradients make one step";
        ranks: usize [count(0)] = "0",
            "groups of the batches of a step, whose gradients are added by a binary tree; the result depends on it, and \
             not on how many processes (at most as many) share the groups. 0 is the number of processes of the first \
             start. With train.accumulate = 1, each batch is cut into as many parts";
        shard_parameters: bool [SWITCH] = "false",
            "whether each of several processes has a piece of each large parameter alone, and gathers the whole while \
             it is read (ZeRO, stage 3); it takes less memory and more messages, and the results are the same";
        steps: u64 [count(0)] = "0", "steps to train (--steps); 0 means as many as the epochs take";
        epochs: u64 [count(1)] = "1", "times to see all the data, when no steps are given";
        lr: f64 [NOT_NEGATIVE] = "0.001", "learning rate, at its highest";
        schedule: LrScheduleKind [choice()] = "\"constant\"", "shape of the learning rate after the warm-up";
        warmup: Warmup [COUNT_OR_SHARE] = "0",
            "steps in which the learning rate rises, or their share of all: from 0, with one-cycle from a 25th of its \
             highest; a number of steps that is more than half of all is replaced by a tenth of them, a share is kept";
        layer_decay: f64 [SHARE] = "1.0",
            "factor of the learning rate from each block of layers to the one before it; 1 is the same rate for all";
        loss: Loss [form(Loss::words)] = "\"softmax\"",
            "cross entropy: that of the logits, or of logits divided by their deviation (norm_softmax) or root mean \
             square (logit_norm); evaluations report the same loss";
        label_smoothing: f64 [SHARE] = "0.0",
            "probability that is spread over all classes or tokens, in the loss of training only";
        class_weights: Option<ClassWeights> [list(ClassWeights::words)],
            "how much the examples of each class count, in the loss of training only; with train.label_smoothing as \
             in PyTorch: the part that is spread counts each class by its weight";
        weight_decay: f64 [NOT_NEGATIVE] = "0.0",
            "decay of matrices; biases, norms and other vectors have none. It is per step and unit of the learning \
             rate with adamw, adamw_8bit, lion and adafactor, and a term of the gradient (L2 penalty) with the others";
        no_decay: Option<Patterns> [list(Patterns::words)], "parameters without weight decay, too";
        freeze: Option<Patterns> [list(Patterns::words)], "parameters that stay as they are";
        qat_ranges: Option<Ranges> [form(Ranges::words)],
            "ranges of quantized inputs (model.quantize): a running greatest magnitude (running), one that a factor \
             is learned for (learned), or each row's and image's own (dynamic; default: the checkpoint's, else \
             running)";
        qat_start: u64 [count(0)] = "0", "steps before anything is rounded (model.quantize), in which ranges are taken";
        ema: f64 [SHARE] = "0.0",
            "decay of an exponential moving average of the parameters, with which it is evaluated and which is saved; \
             0 is none";
        clip_norm: f64 [NOT_NEGATIVE] = "0.0", "greatest norm of the gradient over all parameters; 0 is no limit";
        seed: u64 [count(0)] = "1", "decides initial parameters, order of the data and dropout";
        eval_every: u64 [count(0)] = "500", "steps between evaluations; 0 is at the end only";
        best: Option<String> [TEXT],
            "score that tells which evaluation is best, such as f1 or loss; model/ is then the best model (default: \
             the first score of the data, and model/ is the last one)";
        patience: u64 [count(0)] = "0",
            "evaluations without a new best one after which training, or its phase, ends; 0 is never";
        checkpoint_every: u64 [count(0)] = "500", "steps between checkpoints; 0 is at the end only";
        checkpoint_minutes: f64 [NOT_NEGATIVE] = "10.0",
            "minutes between checkpoints, beside those by steps, and a first one early; 0 is none of them";
        keep: usize [count(1)] = "2", "checkpoints that are kept";
        save_optimizer: bool [SWITCH] = "true",
            "whether checkpoints hold the optimizer's state; without it, a run does not resume exactly";
        precision: Precision [choice()] = "\"f32\"",
            "what products of matrices read: f32, or bf16 added up in f32, which is faster on CPUs with instructions \
             for it; parameters, optimizer, norms, softmax and loss are f32 in any case, and no loss is scaled";
        allow_error: f64 [NOT_NEGATIVE] = "0.0",
            "greatest error, for values of magnitude 1, of what backward may have in an inexact way where that saves \
             memory (--allow-error): 1e-6 has inputs of reversible layers from their outputs, 0.002 keeps values as \
             bf16, 0.004 in 8 bits; 0 is none, and no budget changes a result";
        save_dtype: WeightDtype [choice()] = "\"f32\"",
            "dtype of saved weights; training and resuming use f32 in any case";
    }
    /// The rule of the update.
    optimizer: OptimizerKeys {
        kind: OptimizerKind [choice()] = "\"adamw\"",
            "what makes a step of a gradient; adamw_8bit has moments of 8 bits, adafactor of rows and columns, and \
             adadelta's train.lr is usually 1";
        placement: Placement [choice()] = "\"backward-fused\"",
            "update after backward, each parameter as soon as its gradient is complete, or each at the beginning of \
             the next step; planned: for each parameter the one or the other of these two, as the estimated time and memory \
             of plans say, and the former with train.accumulate; the results are the same";
        beta1: Option<f64> [SHARE] of adamw adamw_8bit adam lion,
            "AdamW, Adam: decay of the mean gradient; Lion: share of it in a step (default: 0.9)";
        beta2: Option<f64> [SHARE] of adamw adamw_8bit adam lion,
            "AdamW, Adam: decay of the mean squared gradient (default: 0.999); Lion: decay of the mean gradient \
             (default: 0.99)";
        epsilon: Option<f64> [NOT_NEGATIVE] of adamw adamw_8bit adam adagrad adadelta rmsprop adafactor,
            "added to what is divided by (default: 1e-8, adagrad 1e-10, adadelta 1e-6); Adafactor: least root of a \
             mean square (default: 2^-23)";
        momentum: Option<f64> [SHARE] of sgd rmsprop,
            "SGD, RMSprop: share of the last step that is kept (default: sgd 0.9, rmsprop 0)";
        nesterov: Option<bool> [SWITCH] of sgd, "SGD: whether a step looks ahead along the momentum (default: false)";
        alpha: Option<f64> [SHARE] of rmsprop, "RMSprop: decay of the mean squared gradient (default: 0.99)";
        rho: Option<f64> [SHARE] of adadelta,
            "Adadelta: decay of the mean squares of gradients and steps (default: 0.9)";
        lr_decay: Option<f64> [NOT_NEGATIVE] of adagrad,
            "Adagrad: the learning rate of step t is divided by 1 + (t - 1) times this (default: 0)";
        initial_accumulator: Option<f64> [NOT_NEGATIVE] of adagrad,
            "Adagrad: what sums of squares begin with (default: 0)";
        beta2_decay: Option<f64> [number(-1.0, 0.0)] of adafactor,
            "Adafactor: step t has the share t^beta2_decay in the mean squares (default: -0.8)";
        least_scale: Option<f64> [NOT_NEGATIVE] of adafactor,
            "Adafactor: least root mean square of a parameter that its step is multiplied by (default: 0.001)";
        clip_threshold: Option<f64> [NOT_NEGATIVE] of adafactor,
            "Adafactor: greatest root mean square of a step, before it is multiplied (default: 1)";
    }
    /// LoRA: small adapters are trained beside the weights of a checkpoint (model.init), which stay as they are.
    lora: LoraKeys {
        rank: usize [count(0)] = "0", "rank of the adapters; 0 is no LoRA";
        alpha: f64 [NOT_NEGATIVE] = "16.0", "factor of the adapters, times their rank";
        rank_stabilized: bool [SWITCH] = "false", "whether the factor is alpha over the root of the rank (rsLoRA)";
        targets: Option<Patterns> [list(Patterns::words)],
            "layers that get adapters, such as query,value; all-linear is all of them, but for those that are trained \
             whole";
        dropout: f64 [SHARE] = "0.0", "share of dropped values before the adapters";
        whole: Option<Patterns> [list(Patterns::words)],
            "parameters that are trained beside the adapters, with those that the checkpoint lacks (default: the \
             head, but for that of a model that continues texts)";
    }
    /// Statistics of values inside the model, which change nothing of the training.
    record: RecordKeys {
        every: u64 [count(0)] = "0",
            "steps between recordings, each before its step; the last step has one too, 0 is none at all";
        what: String [TEXT] = "\"*\"",
            "values, separated by commas: activations, attention, or names, in which * stands for any characters";
        split: RecordSplit [choice()] = "\"train\"",
            "recorded on the batch of the step, with its dropout, on the first one of the split dev, or both";
    }
}
