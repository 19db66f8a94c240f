"""Training loops of other libraries with Lessen's steps, beside their own."""

import copy

import lessen
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from lessen.integrations.transformers import Trainer

WORDS, LENGTH, EXAMPLES = 40, 10, 24


def model():
    sizes = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    dropout = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    torch.manual_seed(0)
    return transformers.BertForSequenceClassification(
        transformers.BertConfig(vocab_size=WORDS, max_position_embeddings=LENGTH, num_labels=2, **sizes, **dropout)
    )


def examples():
    torch.manual_seed(1)
    made = []
    for number in range(EXAMPLES):
        mask = (torch.arange(LENGTH) < 4 + number % 6).long()
        ids = torch.randint(3, WORDS, (LENGTH,)) * mask
        made.append({"input_ids": ids, "attention_mask": mask, "labels": int(ids.sum()) % 2})
    return made


def trainer(cls, folder, keys=None, **named):
    arguments = dict(
        per_device_train_batch_size=4,
        num_train_epochs=2,
        learning_rate=5e-3,
        weight_decay=0.1,
        warmup_steps=2,
        logging_steps=2,
        eval_strategy="epoch",
        save_strategy="epoch",
        seed=3,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    args = transformers.TrainingArguments(output_dir=str(folder), **arguments | named)
    data = examples()
    accuracy = lambda answers: {"accuracy": float((answers.predictions.argmax(-1) == answers.label_ids).mean())}
    return cls(model(), args, train_dataset=data, eval_dataset=data[:8], compute_metrics=accuracy, **keys or {})


def logged(own):
    left = ("runtime", "per_second", "total_flos", "train_loss", "model_preparation_time")
    return [{key: x for key, x in row.items() if not key.endswith(left)} for row in own.state.log_history]


def assert_same(one, other):
    for own, wanted in zip(logged(one), logged(other), strict=True):
        # Without clipping there is no norm.
        wanted = {key: wanted[key] for key in wanted if key != "grad_norm" or key in own}
        assert own == {key: pytest.approx(value, rel=1e-4, abs=1e-5) for key, value in wanted.items()}
    states = [own.model.state_dict() for own in (one, other)]
    for name, wanted in states[1].items():
        torch.testing.assert_close(states[0][name], wanted, rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.parametrize(
    "named",
    [
        {"max_grad_norm": 0.1, "load_best_model_at_end": True, "lr_scheduler_type": "cosine"},
        {"gradient_accumulation_steps": 2, "max_grad_norm": 0.0},
        {"label_smoothing_factor": 0.1, "optim": "sgd", "learning_rate": 0.1},
    ],
)
def test_a_trainer_logs_evaluates_and_ends_as_that_of_transformers(tmp_path, named):
    eager = trainer(transformers.Trainer, tmp_path / "eager", **named)
    if "gradient_accumulation_steps" in named:
        # Otherwise losses of accumulated batches are added, not averaged.
        eager.loss_is_scaled_for_ga = False
    own = trainer(Trainer, tmp_path / "own", {"budget": "64MiB"}, **named)
    eager.train()
    own.train()
    assert_same(own, eager)


def test_a_checkpoint_is_that_of_transformers_and_goes_on_in_either(tmp_path):
    whole = trainer(Trainer, tmp_path / "whole")
    whole.train()
    first = tmp_path / "whole" / "checkpoint-6"
    state = torch.load(first / "optimizer.pt")["state"]
    assert state[0]["step"] == 6 and state[0]["exp_avg"].any() and state[0]["exp_avg_sq"].any()
    for cls in (Trainer, transformers.Trainer):
        resumed = trainer(cls, tmp_path / cls.__module__)
        resumed.train(resume_from_checkpoint=str(first))
        assert_same(resumed, whole)


class Weighted(Trainer):
    """A loss of one's own."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        weight = torch.tensor([1.0, 3.0])
        loss = torch.nn.functional.cross_entropy(outputs.logits, labels, weight=weight)
        return (loss, outputs) if return_outputs else loss


def test_a_loss_that_a_subclass_computes_is_the_one_that_trains(tmp_path):
    own = trainer(Weighted, tmp_path / "own")
    eager = type("Eager", (transformers.Trainer,), {"compute_loss": Weighted.compute_loss})
    eager = trainer(eager, tmp_path / "eager")
    own.train()
    eager.train()
    assert_same(own, eager)


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ({"torch_compile": True}, r"torch_compile=True\) is not followed; Lessen compiles the step itself"),
        ({"optim": "adafactor"}, "the optimizer Adafactor is not traced"),
    ],
)
def test_arguments_that_are_not_followed_are_refused(tmp_path, named, sentence):
    with pytest.raises(lessen.Error, match=sentence):
        trainer(Trainer, tmp_path, **named).train()


def test_the_arguments_that_were_given_stay_as_they_are(tmp_path):
    args = transformers.TrainingArguments(
        output_dir=str(tmp_path), gradient_accumulation_steps=2, use_cpu=True, bf16=True, report_to=[]
    )
    before = copy.copy(args)
    own = Trainer(model(), args, train_dataset=examples())
    assert own.args.gradient_accumulation_steps == 1 and own.args.per_device_train_batch_size == 16
    assert args == before


def test_a_strategy_trains_logs_and_goes_on_as_lightning_does(tmp_path):
    lightning = pytest.importorskip("lightning")
    from lessen.integrations.lightning import Strategy

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))

        def training_step(self, batch, batch_idx):
            x, y = batch
            loss = torch.nn.functional.cross_entropy(self.net(x), y)
            self.log("train", loss)
            return loss

        def validation_step(self, batch, batch_idx):
            x, y = batch
            self.log("valid", torch.nn.functional.cross_entropy(self.net(x), y))

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=0.05)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]

    def run(folder, epochs, strategy, path=None):
        torch.manual_seed(0)
        module, data = Net(), torch.utils.data.TensorDataset(torch.randn(12, 6), torch.randint(0, 3, (12,)))
        loader = torch.utils.data.DataLoader(data, 4)
        own = lightning.Trainer(
            max_epochs=epochs,
            strategy=strategy,
            accelerator="cpu",
            gradient_clip_val=0.2,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
        )
        own.fit(module, loader, loader, ckpt_path=path, weights_only=False)
        return own, module

    eager, wanted = run(tmp_path / "eager", 3, "auto")
    half, _ = run(tmp_path / "own", 2, Strategy(budget="16MiB"))
    for strategy in (Strategy(), "auto"):
        resumed, module = run(tmp_path / "resumed", 3, strategy, half.checkpoint_callback.best_model_path)
        assert resumed.global_step == eager.global_step == 9
        for name, value in eager.callback_metrics.items():
            torch.testing.assert_close(resumed.callback_metrics[name], value, rtol=1e-4, atol=1e-5)
        for name, value in wanted.state_dict().items():
            torch.testing.assert_close(module.state_dict()[name], value, rtol=1e-4, atol=1e-5)
