//! The table of kernels: one line for each operation that a CPU runs.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::LazyLock;

use lessen_graph::{Op, RowWise, ops};

use super::kernel::{Kernel, Types};
use super::zeros::zeros;
use super::{
    activation, activation_from_output, attention, bits, cast, combine_rows, compressed_norm, cross_entropy,
    elementwise, fake_quantize, gather, grouped_matmul, histogram, images, join, matmul, moments, norm,
    norm_from_output, norm_logits, optimizer, quantize, quantize_by_range, quantize_linear, quantized_matmul, random,
    recurrent, reduce_axes, rope, scale_shift, scale_shift_from_output, softmax, stack,
};

/// Makes the kernel of an operation on these types, if there is one.
type Make = Box<dyn Fn(&dyn Op, &Types<'_>) -> Option<Kernel> + Send + Sync>;

/// An operation is recognized by its Rust type, which no other operation can take on: an entry's answers come from the
/// author of the kernel.
static TABLE: LazyLock<HashMap<TypeId, Make>> = LazyLock::new(|| {
    HashMap::from([
        entry::<ops::Adadelta>(optimizer::adadelta_kernel),
        entry::<ops::AddMatMul>(stack::add_matmul_kernel),
        entry::<ops::Adagrad>(optimizer::adagrad_kernel),
        entry::<ops::Adam>(optimizer::adam_kernel),
        entry::<ops::AdamW>(optimizer::adamw_kernel),
        entry::<ops::AdamW8bit>(optimizer::adamw_8bit_kernel),
        entry::<ops::AdamWRows>(optimizer::adamw_rows_kernel),
        entry::<ops::Attention>(attention::attention_kernel),
        entry::<ops::AttentionBackward>(attention::attention_backward_kernel),
        entry::<ops::Between>(activation::between_kernel),
        entry::<ops::Binary>(elementwise::binary_kernel),
        entry::<ops::Broadcast>(nothing),
        entry::<ops::Cast>(cast::cast_kernel),
        entry::<ops::Clamp>(activation::clamp_kernel),
        entry::<ops::Compare>(elementwise::compare_kernel),
        entry::<ops::CombineRows>(combine_rows::combine_rows_kernel),
        entry::<ops::Concat>(join::concat_kernel),
        entry::<ops::Constant>(nothing),
        entry::<ops::Conv2d>(images::conv2d_kernel),
        entry::<ops::CrmsNorm>(compressed_norm::crms_norm_kernel),
        entry::<ops::CrmsNormBackward>(compressed_norm::crms_norm_backward_kernel),
        entry::<ops::Conv2dGradInput>(images::conv2d_grad_input_kernel),
        entry::<ops::Conv2dGradWeight>(images::conv2d_grad_weight_kernel),
        entry::<ops::CrossEntropy>(cross_entropy::cross_entropy_kernel),
        entry::<ops::CrossEntropyBackward>(cross_entropy::cross_entropy_backward_kernel),
        entry::<ops::DequantizeGroups>(grouped_matmul::dequantize_groups_kernel),
        entry::<ops::DequantizeLinear>(quantize_linear::dequantize_linear_kernel),
        entry::<ops::DequantizeRows>(quantize::dequantize_rows_kernel),
        entry::<ops::Dropout>(random::dropout_kernel),
        entry::<ops::Elu>(activation::elu_kernel),
        entry::<ops::FakeQuantize>(fake_quantize::fake_quantize_kernel),
        entry::<ops::Full>(nothing),
        entry::<ops::Gather>(gather::gather_kernel),
        entry::<ops::Gelu>(activation::gelu_kernel),
        entry::<ops::GeluBackward>(activation::gelu_backward_kernel),
        entry::<ops::GeluBackwardFromOutput>(activation_from_output::gelu_kernel),
        entry::<ops::GroupedMatMul>(grouped_matmul::grouped_matmul_kernel),
        entry::<ops::Gru>(recurrent::gru_kernel),
        entry::<ops::GruBackward>(recurrent::gru_backward_kernel),
        entry::<ops::Helu>(activation::helu_kernel),
        entry::<ops::Histogram>(histogram::histogram_kernel),
        entry::<ops::Identity>(join::identity_kernel),
        entry::<ops::IntegerMatMul>(quantized_matmul::integer_matmul_kernel),
        entry::<ops::Iota>(nothing),
        entry::<ops::LayerNorm>(norm::layer_norm_kernel),
        entry::<ops::LayerNormBackward>(norm::layer_norm_backward_kernel),
        entry::<ops::LayerNormBackwardFromOutput>(norm_from_output::layer_norm_kernel),
        entry::<ops::LeakyRelu>(activation::leaky_relu_kernel),
        entry::<ops::Lion>(optimizer::lion_kernel),
        entry::<ops::LogSoftmax>(softmax::log_softmax_kernel),
        entry::<ops::Lstm>(recurrent::lstm_kernel),
        entry::<ops::LstmBackward>(recurrent::lstm_backward_kernel),
        entry::<ops::MatMul>(matmul::matmul_kernel),
        entry::<ops::MaxPool2d>(images::max_pool2d_kernel),
        entry::<ops::MaxPool2dGather>(images::max_pool2d_gather_kernel),
        entry::<ops::MaxPool2dScatter>(images::max_pool2d_scatter_kernel),
        entry::<ops::Moments>(moments::moments_kernel),
        entry::<ops::NormLogits>(norm_logits::norm_logits_kernel),
        entry::<ops::NormLogitsBackward>(norm_logits::norm_logits_backward_kernel),
        entry::<ops::PackBits>(bits::pack_bits_kernel),
        entry::<ops::Pad>(join::pad_kernel),
        entry::<ops::Permute>(nothing),
        entry::<ops::QuantizeByRange>(quantize_by_range::quantize_by_range_kernel),
        entry::<ops::QuantizeLinear>(quantize_linear::quantize_linear_kernel),
        entry::<ops::QuantizeRows>(quantize::quantize_rows_kernel),
        entry::<ops::QuantizedConv2d>(images::quantized_conv2d_kernel),
        entry::<ops::QuantizedMatMul>(quantized_matmul::quantized_matmul_kernel),
        entry::<ops::RandomBits>(random::random_bits_kernel),
        entry::<ops::Reduce>(reduce_axes::reduce_kernel),
        entry::<ops::Relu>(activation::relu_kernel),
        entry::<ops::Resample2d>(images::resample2d_kernel),
        entry::<ops::Resample2dGrad>(images::resample2d_grad_kernel),
        entry::<ops::Reshape>(nothing),
        entry::<ops::RmsNorm>(norm::rms_norm_kernel),
        entry::<ops::RmsNormBackward>(norm::rms_norm_backward_kernel),
        entry::<ops::RmsNormBackwardFromOutput>(norm_from_output::rms_norm_kernel),
        entry::<ops::RmsProp>(optimizer::rmsprop_kernel),
        entry::<ops::Rope>(rope::rope_kernel),
        entry::<ops::ScaleShift>(scale_shift::scale_shift_kernel),
        entry::<ops::ScaleShiftFromOutput>(scale_shift_from_output::scale_shift_kernel),
        entry::<ops::ScaleShiftSums>(scale_shift::scale_shift_sums_kernel),
        entry::<ops::ScaleShiftSumsFromOutput>(scale_shift_from_output::scale_shift_sums_kernel),
        entry::<ops::ScatterAdd>(gather::scatter_add_kernel),
        entry::<ops::Select>(elementwise::select_kernel),
        entry::<ops::StopGradient>(fake_quantize::stop_gradient_kernel),
        entry::<ops::Sgd>(optimizer::sgd_kernel),
        entry::<ops::Silu>(activation::silu_kernel),
        entry::<ops::SiluBackward>(activation::silu_backward_kernel),
        entry::<ops::SiluBackwardFromOutput>(activation_from_output::silu_kernel),
        entry::<ops::Slice>(nothing),
        entry::<ops::Softmax>(softmax::softmax_kernel),
        entry::<ops::SoftmaxBackward>(softmax::softmax_backward_kernel),
        entry::<ops::Split>(nothing),
        entry::<ops::Unary>(elementwise::unary_kernel),
        entry::<ops::UnpackBits>(bits::unpack_bits_kernel),
        entry::<ops::UpdateSlice>(join::update_slice_kernel),
    ])
});

fn entry<T: Op>(make: fn(&T, &Types<'_>) -> Option<Kernel>) -> (TypeId, Make) {
    let make = move |op: &dyn Op, types: &Types<'_>| make(op.downcast_ref::<T>()?, types);
    (TypeId::of::<T>(), Box::new(make))
}

/// For an operation that is always a view, or a constant.
fn nothing<T: Op>(_: &T, _: &Types<'_>) -> Option<Kernel> {
    Some(Kernel::Nothing)
}

fn made(op: &dyn Op) -> Option<&'static Make> {
    TABLE.get(&(op as &dyn Any).type_id())
}

/// Whether there is a kernel for an operation on some types.
pub(crate) fn is_listed(op: &dyn Op) -> bool {
    made(op).is_some()
}

/// The most elements of an operand with a kernel: more than a machine can visit, and so few that sizes of scratch do
/// not overflow, which are a few hundred bytes for each of them.
const MOST_ELEMENTS: usize = 1 << 48;

/// The kernel of an operation on these types, if there is one. A row kernel is only given to an operation that works
/// row by row and whose operands have elements.
pub(crate) fn kernel(op: &dyn Op, types: &Types<'_>) -> Option<Kernel> {
    let make = made(op)?;
    if types.most_elements()? > MOST_ELEMENTS {
        return None;
    }
    match make(op, types)? {
        Kernel::Rows(_) if types.any_empty() => Some(Kernel::Whole(zeros(types))),
        Kernel::Rows(_) if op.row_wise(types.inputs, types.outputs) == RowWise::No => None,
        kernel => Some(kernel),
    }
}
