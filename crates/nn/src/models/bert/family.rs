//! BERT, RoBERTa, DistilBERT and MPNet: their differences, as transformers has them.

use crate::activation::Activation;

/// A family of post-norm encoders, which differ in names, positions, token types and heads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Family {
    /// BERT (Devlin et al. 2019).
    Bert,
    /// RoBERTa (Liu et al. 2019): BERT with one token type, and positions that begin after the padding id.
    Roberta,
    /// DistilBERT (Sanh et al. 2019): BERT without token types, and without dropout after attention.
    DistilBert,
    /// MPNet (Song et al. 2020): RoBERTa without token types, and with a bias of scores by the distance of tokens.
    MPNet,
}

/// Head of the encoder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Head {
    /// Classes of a text, or with one class a number, from the state of its first token.
    SequenceClassification,
    /// Classes of all tokens.
    TokenClassification,
    /// The first and the last token of an answer.
    QuestionAnswering,
    /// Masked tokens; its matrix is that of the word embeddings.
    MaskedLM,
}

impl Head {
    /// All heads.
    pub const ALL: [Head; 4] = [
        Head::SequenceClassification,
        Head::TokenClassification,
        Head::QuestionAnswering,
        Head::MaskedLM,
    ];
}

impl Family {
    /// All families.
    pub const ALL: [Family; 4] = [Family::Bert, Family::Roberta, Family::DistilBert, Family::MPNet];

    /// The family in `model_type`.
    pub fn model_type(self) -> &'static str {
        self.description().model_type
    }

    /// The name in `architectures` of the model with this head.
    pub fn class(self, head: Head) -> &'static str {
        let classes = self.description().classes;
        match head {
            Head::SequenceClassification => classes.sequence_classification,
            Head::TokenClassification => classes.token_classification,
            Head::QuestionAnswering => classes.question_answering,
            Head::MaskedLM => classes.masked_lm,
        }
    }

    pub(crate) fn description(self) -> &'static Description {
        match self {
            Family::Bert => &BERT,
            Family::Roberta => &ROBERTA,
            Family::DistilBert => &DISTILBERT,
            Family::MPNet => &MPNET,
        }
    }
}

/// Differences between a family and the others.
pub(crate) struct Description {
    pub model_type: &'static str,
    pub classes: Classes,
    pub fields: FieldNames,
    /// Prefix of the names of the encoder's parameters.
    pub prefix: &'static str,
    /// Scope, in the encoder, of the parameters that all layers share.
    pub stack: &'static str,
    /// Name there of the table of biases by distance, where there is one.
    pub relative_bias: Option<&'static str>,
    pub layer: LayerNames,
    /// Whether dropout follows the output of attention.
    pub attention_output_dropout: bool,
    /// Whether a classifier of tokens has the classifier's dropout, too; otherwise it has the dropout of the hidden
    /// states.
    pub classifier_dropout_of_tokens: bool,
    /// The padding id of a `config.json` without one.
    pub pad_token_id: usize,
    pub positions: Counting,
    pub classifier: ClassifierNames,
    pub masked: MaskedNames,
}

impl Description {
    /// The name of the word embeddings.
    pub fn words(&self) -> String {
        format!("{}.embeddings.word_embeddings.weight", self.prefix)
    }
}

/// How tokens are counted to find their rows in the table of positions.
#[derive(Clone, Copy)]
pub(crate) enum Counting {
    /// All tokens count, from row 0 on.
    All,
    /// Tokens other than the padding token count, from the row after its id on; padding tokens have the row of its id.
    AfterPadding,
    /// The same with this token, whatever the padding token is.
    After(usize),
}

/// Names of classes in `architectures`, by their heads.
#[derive(Clone, Copy)]
pub(crate) struct Classes {
    pub sequence_classification: &'static str,
    pub token_classification: &'static str,
    pub question_answering: &'static str,
    pub masked_lm: &'static str,
}

/// Names of fields in `config.json`.
pub(crate) struct FieldNames {
    pub hidden_size: &'static str,
    pub num_hidden_layers: &'static str,
    pub num_attention_heads: &'static str,
    pub intermediate_size: &'static str,
    pub hidden_act: &'static str,
    pub hidden_dropout_prob: &'static str,
    pub attention_probs_dropout_prob: &'static str,
    /// None where the classifier has the dropout of the hidden states.
    pub classifier_dropout: Option<&'static str>,
    /// The classifier's dropout where the field is missing; none takes the dropout of the hidden states.
    pub default_classifier_dropout: Option<f64>,
    /// Name of the field, and the dropout where the field is missing; without a name the dropout is 0.
    pub qa_dropout: Option<(&'static str, f64)>,
    /// None where there are no token types.
    pub type_vocab_size: Option<&'static str>,
    /// None where epsilon is always the default.
    pub layer_norm_eps: Option<&'static str>,
    /// Rows of the table of biases by distance; none where there is no such table.
    pub relative_attention_num_buckets: Option<&'static str>,
}

/// Names of parameters, in a layer.
pub(crate) struct LayerNames {
    /// Scope of all layers, in the encoder; a layer's number follows it.
    pub layers: &'static str,
    pub query: &'static str,
    pub key: &'static str,
    pub value: &'static str,
    pub attention_output: &'static str,
    pub attention_norm: &'static str,
    pub up: &'static str,
    pub down: &'static str,
    pub output_norm: &'static str,
}

/// The head of a classifier of texts: a layer with an activation, and the classes.
pub(crate) struct ClassifierNames {
    pub dense: &'static str,
    pub activation: Activation,
    pub classes: &'static str,
    /// Whether dropout precedes the first layer too.
    pub dropout_before: bool,
}

/// The head of a masked language model: a layer with activation and norm, and the tied matrix.
pub(crate) struct MaskedNames {
    pub dense: &'static str,
    /// None where the head has the encoder's activation.
    pub activation: Option<Activation>,
    pub norm: &'static str,
    /// The bias of the tied matrix, a parameter.
    pub bias: &'static str,
    /// The copy of the word embeddings in checkpoints.
    pub decoder: &'static str,
    /// The copy of the bias in checkpoints, where there is one.
    pub decoder_bias: Option<&'static str>,
}

static BERT: Description = Description {
    model_type: "bert",
    classes: Classes {
        sequence_classification: "BertForSequenceClassification",
        token_classification: "BertForTokenClassification",
        question_answering: "BertForQuestionAnswering",
        masked_lm: "BertForMaskedLM",
    },
    fields: BERT_FIELDS,
    prefix: "bert",
    stack: "encoder",
    relative_bias: None,
    layer: BERT_LAYER,
    attention_output_dropout: true,
    classifier_dropout_of_tokens: true,
    pad_token_id: 0,
    positions: Counting::All,
    classifier: ClassifierNames {
        dense: "bert.pooler.dense",
        activation: Activation::Tanh,
        classes: "classifier",
        dropout_before: false,
    },
    masked: MaskedNames {
        dense: "cls.predictions.transform.dense",
        activation: None,
        norm: "cls.predictions.transform.LayerNorm",
        bias: "cls.predictions.bias",
        decoder: "cls.predictions.decoder.weight",
        decoder_bias: Some("cls.predictions.decoder.bias"),
    },
};

const ROBERTA: Description = Description {
    model_type: "roberta",
    classes: Classes {
        sequence_classification: "RobertaForSequenceClassification",
        token_classification: "RobertaForTokenClassification",
        question_answering: "RobertaForQuestionAnswering",
        masked_lm: "RobertaForMaskedLM",
    },
    fields: BERT_FIELDS,
    prefix: "roberta",
    stack: "encoder",
    relative_bias: None,
    layer: BERT_LAYER,
    attention_output_dropout: true,
    classifier_dropout_of_tokens: true,
    pad_token_id: 1,
    positions: Counting::AfterPadding,
    classifier: ClassifierNames {
        dense: "classifier.dense",
        activation: Activation::Tanh,
        classes: "classifier.out_proj",
        dropout_before: true,
    },
    masked: MaskedNames {
        dense: "lm_head.dense",
        activation: Some(Activation::Gelu),
        norm: "lm_head.layer_norm",
        bias: "lm_head.bias",
        decoder: "lm_head.decoder.weight",
        decoder_bias: Some("lm_head.decoder.bias"),
    },
};

static DISTILBERT: Description = Description {
    model_type: "distilbert",
    classes: Classes {
        sequence_classification: "DistilBertForSequenceClassification",
        token_classification: "DistilBertForTokenClassification",
        question_answering: "DistilBertForQuestionAnswering",
        masked_lm: "DistilBertForMaskedLM",
    },
    fields: FieldNames {
        hidden_size: "dim",
        num_hidden_layers: "n_layers",
        num_attention_heads: "n_heads",
        intermediate_size: "hidden_dim",
        hidden_act: "activation",
        hidden_dropout_prob: "dropout",
        attention_probs_dropout_prob: "attention_dropout",
        classifier_dropout: Some("seq_classif_dropout"),
        default_classifier_dropout: Some(0.2),
        qa_dropout: Some(("qa_dropout", 0.1)),
        type_vocab_size: None,
        layer_norm_eps: None,
        relative_attention_num_buckets: None,
    },
    prefix: "distilbert",
    stack: "transformer",
    relative_bias: None,
    layer: LayerNames {
        layers: "transformer.layer",
        query: "attention.q_lin",
        key: "attention.k_lin",
        value: "attention.v_lin",
        attention_output: "attention.out_lin",
        attention_norm: "sa_layer_norm",
        up: "ffn.lin1",
        down: "ffn.lin2",
        output_norm: "output_layer_norm",
    },
    attention_output_dropout: false,
    classifier_dropout_of_tokens: false,
    pad_token_id: 0,
    positions: Counting::All,
    classifier: ClassifierNames {
        dense: "pre_classifier",
        activation: Activation::Relu,
        classes: "classifier",
        dropout_before: false,
    },
    masked: MaskedNames {
        dense: "vocab_transform",
        activation: None,
        norm: "vocab_layer_norm",
        bias: "vocab_projector.bias",
        decoder: "vocab_projector.weight",
        decoder_bias: None,
    },
};

static MPNET: Description = Description {
    model_type: "mpnet",
    classes: Classes {
        sequence_classification: "MPNetForSequenceClassification",
        token_classification: "MPNetForTokenClassification",
        question_answering: "MPNetForQuestionAnswering",
        masked_lm: "MPNetForMaskedLM",
    },
    fields: FieldNames {
        classifier_dropout: None,
        type_vocab_size: None,
        relative_attention_num_buckets: Some("relative_attention_num_buckets"),
        ..BERT_FIELDS
    },
    prefix: "mpnet",
    relative_bias: Some("relative_attention_bias"),
    layer: LayerNames {
        query: "attention.attn.q",
        key: "attention.attn.k",
        value: "attention.attn.v",
        attention_output: "attention.attn.o",
        attention_norm: "attention.LayerNorm",
        ..BERT_LAYER
    },
    positions: Counting::After(1),
    ..ROBERTA
};

const BERT_FIELDS: FieldNames = FieldNames {
    hidden_size: "hidden_size",
    num_hidden_layers: "num_hidden_layers",
    num_attention_heads: "num_attention_heads",
    intermediate_size: "intermediate_size",
    hidden_act: "hidden_act",
    hidden_dropout_prob: "hidden_dropout_prob",
    attention_probs_dropout_prob: "attention_probs_dropout_prob",
    classifier_dropout: Some("classifier_dropout"),
    default_classifier_dropout: None,
    qa_dropout: None,
    type_vocab_size: Some("type_vocab_size"),
    layer_norm_eps: Some("layer_norm_eps"),
    relative_attention_num_buckets: None,
};

const BERT_LAYER: LayerNames = LayerNames {
    layers: "encoder.layer",
    query: "attention.self.query",
    key: "attention.self.key",
    value: "attention.self.value",
    attention_output: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    up: "intermediate.dense",
    down: "output.dense",
    output_norm: "output.LayerNorm",
};
