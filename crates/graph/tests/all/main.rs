//! Tests of the crate. Every operation: evaluation, derivatives of first and second order, decomposition, row-wise
//! structure, views, derivatives and inputs from outputs, text form. Graphs: evaluation, lowering, names, the verifier,
//! size, messages for mistakes.

mod along;
mod along_rows;
mod attentions;
mod builder;
mod cases;
mod check;
mod compositions;
mod decompositions;
mod derivatives;
mod distributions;
mod edges;
mod evaluation_of_graphs;
mod evaluation_of_images;
mod evaluation_of_networks;
mod evaluation_of_structure;
mod fake_quantize;
mod from_output;
mod handles;
mod hardware_products;
mod helu;
mod hooks;
mod host;
mod images;
mod inverse;
mod layouts;
mod mistakes;
mod names;
mod norm_logits;
mod optimizers;
mod outside_operation;
mod prng;
mod products;
mod quantized_rows;
mod random_bits;
mod rounding;
mod row_wise;
mod scale;
mod scans;
mod second_derivatives;
mod shapes;
mod sizes;
mod streams;
mod text_form;
mod verifier;
