//! Every operation: evaluation, derivatives of first and second order, decomposition, row-wise structure,
//! views, text form; and the verifier and the messages for a programmer's mistakes.

mod cases;
mod check;
mod decompositions;
mod derivatives;
mod edges;
mod evaluation_of_graphs;
mod evaluation_of_networks;
mod evaluation_of_structure;
mod layouts;
mod mistakes;
mod outside_operation;
mod prng;
mod products;
mod random_bits;
mod row_wise;
mod second_derivatives;
mod shapes;
mod text_form;
mod verifier;
