//! The table of kernels: one line for each operation that a CPU runs.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::LazyLock;

use lessen_graph::{Op, RowWise, ops};

use super::codes::{
    bits, fake_quantize, grouped_matmul, quantize, quantize_by_range, quantize_linear, quantized_matmul,
};
use super::elementwise::{activation, activation_from_output, cast, operators, random, rope};
use super::kernel::{Kernel, Types};
use super::movement::{combine_rows, gather, join};
use super::norms::{
    compressed_norm, cross_entropy, moments, norm, norm_from_output, norm_logits, scale_shift, scale_shift_from_output,
    softmax,
};
use super::products::{matmul, stack};
use super::row_function::row_function_kernel;
use super::sums::{histogram, reduce_axes};
use super::zeros::zeros;
use super::{attention, images, optimizer, recurrent};

/// Makes the kernel of an operation on these types, if there is one.
type Make = Box<dyn Fn(&dyn Op, &Types<'_>) -> Option<Kernel> + Send + Sync>;

/// An operation is recognized by its Rust type, which no other operation can take on: an entry's answers come from the
/// author of the kernel.
static TABLE: LazyLock<HashMap<TypeId, Make>> = LazyLock::new(|| {
    HashMap::from([
        of_f32::<ops::Adadelta, _>(optimizer::adadelta_kernel),
        entry::<ops::AddCodes, _>(quantize_linear::add_codes_kernel),
        entry::<ops::AddMatMul, _>(stack::add_matmul_kernel),
        of_f32::<ops::Adagrad, _>(optimizer::adagrad_kernel),
        of_f32::<ops::Adam, _>(optimizer::adam_kernel),
        of_f32::<ops::AdamW, _>(optimizer::adamw_kernel),
        of_f32::<ops::AdamW8bit, _>(optimizer::adamw_8bit_kernel),
        of_f32::<ops::AdamWRows, _>(optimizer::adamw_rows_kernel),
        of_f32::<ops::Attention, _>(attention::attention_kernel),
        of_f32::<ops::AttentionBackward, _>(attention::attention_backward_kernel),
        of_f32::<ops::Between, _>(activation::between_kernel),
        entry::<ops::Binary, _>(operators::binary_kernel),
        entry::<ops::Broadcast, _>(nothing),
        entry::<ops::Cast, _>(cast::cast_kernel),
        of_f32::<ops::Clamp, _>(activation::clamp_kernel),
        entry::<ops::Compare, _>(operators::compare_kernel),
        of_f32::<ops::CombineRows, _>(combine_rows::combine_rows_kernel),
        entry::<ops::Concat, _>(join::concat_kernel),
        entry::<ops::Constant, _>(nothing),
        entry::<ops::Conv2d, _>(images::conv2d_kernel),
        of_f32::<ops::CrmsNorm, _>(compressed_norm::crms_norm_kernel),
        of_f32::<ops::CrmsNormBackward, _>(compressed_norm::crms_norm_backward_kernel),
        entry::<ops::Conv2dGradInput, _>(images::conv2d_grad_input_kernel),
        entry::<ops::Conv2dGradWeight, _>(images::conv2d_grad_weight_kernel),
        of_f32::<ops::CrossEntropy, _>(cross_entropy::cross_entropy_kernel),
        of_f32::<ops::CrossEntropyBackward, _>(cross_entropy::cross_entropy_backward_kernel),
        entry::<ops::DequantizeGroups, _>(grouped_matmul::dequantize_groups_kernel),
        entry::<ops::DequantizeLinear, _>(quantize_linear::dequantize_linear_kernel),
        entry::<ops::DequantizeRows, _>(quantize::dequantize_rows_kernel),
        of_f32::<ops::Dropout, _>(random::dropout_kernel),
        of_f32::<ops::Elu, _>(activation::elu_kernel),
        of_f32::<ops::FakeQuantize, _>(fake_quantize::fake_quantize_kernel),
        entry::<ops::Full, _>(nothing),
        entry::<ops::Gather, _>(gather::gather_kernel),
        of_f32::<ops::Gelu, _>(activation::gelu_kernel),
        of_f32::<ops::GeluBackward, _>(activation::gelu_backward_kernel),
        of_f32::<ops::GeluBackwardFromOutput, _>(activation_from_output::gelu_kernel),
        entry::<ops::GroupedMatMul, _>(grouped_matmul::grouped_matmul_kernel),
        of_f32::<ops::Gru, _>(recurrent::gru_kernel),
        of_f32::<ops::GruBackward, _>(recurrent::gru_backward_kernel),
        of_f32::<ops::Helu, _>(activation::helu_kernel),
        of_f32::<ops::Histogram, _>(histogram::histogram_kernel),
        entry::<ops::Identity, _>(join::identity_kernel),
        entry::<ops::IntegerMatMul, _>(quantized_matmul::integer_matmul_kernel),
        entry::<ops::Iota, _>(nothing),
        of_f32::<ops::LayerNorm, _>(norm::layer_norm_kernel),
        of_f32::<ops::LayerNormBackward, _>(norm::layer_norm_backward_kernel),
        of_f32::<ops::LayerNormBackwardFromOutput, _>(norm_from_output::layer_norm_kernel),
        of_f32::<ops::LeakyRelu, _>(activation::leaky_relu_kernel),
        of_f32::<ops::Lion, _>(optimizer::lion_kernel),
        of_f32::<ops::LogSoftmax, _>(softmax::log_softmax_kernel),
        of_f32::<ops::Lstm, _>(recurrent::lstm_kernel),
        of_f32::<ops::LstmBackward, _>(recurrent::lstm_backward_kernel),
        entry::<ops::MatMul, _>(matmul::matmul_kernel),
        entry::<ops::MaxPool2d, _>(images::max_pool2d_kernel),
        entry::<ops::MaxPool2dGather, _>(images::max_pool2d_gather_kernel),
        entry::<ops::MaxPool2dScatter, _>(images::max_pool2d_scatter_kernel),
        entry::<ops::Moments, _>(moments::moments_kernel),
        of_f32::<ops::NormLogits, _>(norm_logits::norm_logits_kernel),
        of_f32::<ops::NormLogitsBackward, _>(norm_logits::norm_logits_backward_kernel),
        entry::<ops::PackBits, _>(bits::pack_bits_kernel),
        entry::<ops::Pad, _>(join::pad_kernel),
        entry::<ops::Permute, _>(nothing),
        entry::<ops::QuantizeByRange, _>(quantize_by_range::quantize_by_range_kernel),
        entry::<ops::QuantizeLinear, _>(quantize_linear::quantize_linear_kernel),
        entry::<ops::QuantizeRows, _>(quantize::quantize_rows_kernel),
        entry::<ops::QuantizedConv2d, _>(images::quantized_conv2d_kernel),
        entry::<ops::QuantizedMatMul, _>(quantized_matmul::quantized_matmul_kernel),
        entry::<ops::RandomBits, _>(random::random_bits_kernel),
        of_f32::<ops::Reduce, _>(reduce_axes::reduce_kernel),
        of_f32::<ops::Relu, _>(activation::relu_kernel),
        entry::<ops::Resample2d, _>(images::resample2d_kernel),
        entry::<ops::Resample2dGrad, _>(images::resample2d_grad_kernel),
        entry::<ops::Reshape, _>(nothing),
        of_f32::<ops::RmsNorm, _>(norm::rms_norm_kernel),
        of_f32::<ops::RmsNormBackward, _>(norm::rms_norm_backward_kernel),
        of_f32::<ops::RmsNormBackwardFromOutput, _>(norm_from_output::rms_norm_kernel),
        of_f32::<ops::RmsProp, _>(optimizer::rmsprop_kernel),
        of_f32::<ops::Rope, _>(rope::rope_kernel),
        entry::<ops::Scan, _>(nothing),
        entry::<ops::ScaleShift, _>(scale_shift::scale_shift_kernel),
        of_f32::<ops::ScaleShiftFromOutput, _>(scale_shift_from_output::scale_shift_kernel),
        entry::<ops::ScaleShiftSums, _>(scale_shift::scale_shift_sums_kernel),
        of_f32::<ops::ScaleShiftSumsFromOutput, _>(scale_shift_from_output::scale_shift_sums_kernel),
        of_f32::<ops::ScatterAdd, _>(gather::scatter_add_kernel),
        entry::<ops::Select, _>(operators::select_kernel),
        entry::<ops::StopGradient, _>(fake_quantize::stop_gradient_kernel),
        of_f32::<ops::Sgd, _>(optimizer::sgd_kernel),
        of_f32::<ops::Silu, _>(activation::silu_kernel),
        of_f32::<ops::SiluBackward, _>(activation::silu_backward_kernel),
        of_f32::<ops::SiluBackwardFromOutput, _>(activation_from_output::silu_kernel),
        entry::<ops::Slice, _>(nothing),
        of_f32::<ops::Softmax, _>(softmax::softmax_kernel),
        of_f32::<ops::SoftmaxBackward, _>(softmax::softmax_backward_kernel),
        entry::<ops::Split, _>(nothing),
        of_f32::<ops::Unary, _>(operators::unary_kernel),
        entry::<ops::UnpackBits, _>(bits::unpack_bits_kernel),
        entry::<ops::UpdateSlice, _>(join::update_slice_kernel),
    ])
});

fn entry<T: Op, K: Into<Option<Kernel>> + 'static>(make: fn(&T, &Types<'_>) -> K) -> (TypeId, Make) {
    let make = move |op: &dyn Op, types: &Types<'_>| make(op.downcast_ref::<T>()?, types).into();
    (TypeId::of::<T>(), Box::new(make))
}

/// An entry for types whose floats are all `f32`.
fn of_f32<T: Op, K: Into<Option<Kernel>> + 'static>(make: fn(&T, &Types<'_>) -> K) -> (TypeId, Make) {
    let (id, make) = entry(make);
    let make = move |op: &dyn Op, types: &Types<'_>| types.floats_are_f32().then(|| make(op, types))?;
    (id, Box::new(make))
}

/// For an operation that is always a view, or a constant, or whose body has kernels.
fn nothing<T: Op>(_: &T, _: &Types<'_>) -> Option<Kernel> {
    Some(Kernel::Nothing)
}

fn made(op: &dyn Op) -> Option<&'static Make> {
    TABLE.get(&(op as &dyn Any).type_id())
}

/// Whether there is a kernel for an operation on some types: one of the table, or one that the operation brings itself.
pub(crate) fn has_kernel(op: &dyn Op) -> bool {
    made(op).is_some() || op.row_kernel().is_some()
}

/// The most elements of an operand with a kernel: more than a machine can visit, and so few that sizes of scratch do
/// not overflow, which are a few hundred bytes for each of them.
const MOST_ELEMENTS: usize = 1 << 48;

/// The kernel of an operation on these types, if there is one. A row kernel is only given to an operation that works
/// row by row and whose operands have elements.
pub(crate) fn kernel(op: &dyn Op, types: &Types<'_>) -> Option<Kernel> {
    if types.most_elements()? > MOST_ELEMENTS {
        return None;
    }
    let Some(make) = made(op) else {
        return row_function_kernel(op, types);
    };
    match make(op, types)? {
        Kernel::Rows(_) if types.any_empty() => Some(Kernel::Whole(zeros(types))),
        Kernel::Rows(_) if op.row_wise(types.inputs, types.outputs) == RowWise::No => None,
        kernel => Some(kernel),
    }
}
