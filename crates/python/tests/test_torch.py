"""``lessen.compile`` beside eager PyTorch."""

import copy
import gc
import re
from pathlib import Path

import lessen
import pytest

torch = pytest.importorskip("torch")
from torch import nn
from torch.nn import functional

GUIDE = Path(__file__).parents[3] / "docs" / "torch.md"
BATCH = 6


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


class Net(nn.Module):
    """A table that is the head, too, a norm, and a buffer that counts."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(12, 8)
        self.norm = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, 12, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        return self.head(functional.gelu(self.norm(self.words(ids).mean(1))))


def batch():
    return torch.randint(0, 12, (BATCH, 5)), torch.randint(0, 12, (BATCH,))


def close(one, other):
    for name, wanted in other.state_dict().items():
        torch.testing.assert_close(one.state_dict()[name], wanted, rtol=1e-4, atol=1e-5, msg=name)


def test_groups_and_schedulers_train_as_in_eager_pytorch():
    modules = [Net(), None]
    modules[1] = copy.deepcopy(modules[0])
    optimizers = []
    for module in modules:
        norm = {"params": list(module.norm.parameters()), "lr": 0.05, "weight_decay": 0.0}
        rest = [parameter for name, parameter in module.named_parameters() if not name.startswith("norm")]
        optimizers.append(torch.optim.AdamW([{"params": rest}, norm], lr=0.01))
    schedulers = [torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5) for optimizer in optimizers]
    ids, target = batch()
    compiled = lessen.compile(modules[0], (ids,), loss="cross_entropy", optimizer=optimizers[0])
    for _ in range(4):
        own = compiled.step(ids, target)
        schedulers[0].step()
        loss = functional.cross_entropy(modules[1](ids), target)
        optimizers[1].zero_grad()
        loss.backward()
        optimizers[1].step()
        schedulers[1].step()
        assert own == pytest.approx(loss.item(), rel=1e-5)
    compiled.sync()
    close(*modules)
    assert modules[0].norm.num_batches_tracked == 4
    modules[1].eval()
    torch.testing.assert_close(compiled.predict(ids), modules[1](ids), rtol=1e-4, atol=1e-5)
    wanted = functional.cross_entropy(modules[1](ids), target).item()
    assert compiled.evaluate([(ids, target)]) == pytest.approx(wanted, rel=1e-4)


def test_a_loss_by_a_function_and_clipping_train_as_in_eager_pytorch():
    module = nn.Linear(4, 3)
    other = copy.deepcopy(module)
    x, y, z = torch.randn(BATCH, 4), torch.randint(0, 3, (BATCH,)), torch.randn(BATCH)

    def loss(output, y, z):
        return functional.cross_entropy(output, y) + functional.mse_loss(output[:, 0], z)

    optimizers = [torch.optim.SGD(own.parameters(), lr=0.1) for own in (module, other)]
    compiled = lessen.compile(module, (x,), loss=loss, optimizer=optimizers[0], clip_value=0.01)
    for _ in range(2):
        compiled.step(x, y, z)
        optimizers[1].zero_grad()
        loss(other(x), y, z).backward()
        nn.utils.clip_grad_value_(other.parameters(), 0.01)
        optimizers[1].step()
    compiled.sync()
    close(module, other)


def test_another_batch_and_values_from_outside_are_taken_over(tmp_path):
    module, (ids, target) = Net(), batch()
    compiled = lessen.compile(module, (ids,), loss="cross_entropy", optimizer="sgd", lr=0.0)
    first = compiled.step(ids, target)
    assert compiled.step(ids[:4], target[:4]) != first
    with torch.no_grad():
        module.words.weight.zero_()
    assert compiled.step(ids, target) == pytest.approx(torch.tensor(12.0).log().item(), rel=1e-5)
    losses = compiled.fit([(ids, target), (ids[:4], target[:4])], epochs=2)
    assert len(losses) == 2
    compiled.save(tmp_path / "net.pt")
    assert not torch.load(tmp_path / "net.pt")["words.weight"].any()
    with torch.no_grad():
        module.words.weight.fill_(0.5)
    compiled.sync()
    assert module.words.weight.unique() == 0.5
    assert compiled.predict(ids).unique().numel() == 1


def other_dtype(module):
    module.norm.bias.data = module.norm.bias.data.double()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda module: setattr(module, "head", nn.Linear(8, 12)), "head"),
        (lambda module: setattr(module, "words", nn.Sequential(module.words, nn.Tanh())), "words"),
        (lambda module: setattr(module.norm, "eps", 0.5), "norm"),
        (lambda module: module.head.weight.requires_grad_(False), "words.weight"),
        (other_dtype, "norm.bias"),
    ],
)
def test_a_module_that_changes_between_steps_is_noticed(change, name):
    module, (ids, target) = Net(), batch()
    compiled = lessen.compile(module, (ids,), loss="cross_entropy", optimizer="sgd", lr=0.1)
    compiled.step(ids, target)
    change(module)
    with pytest.raises(lessen.Error, match=f"has changed since it was compiled, at `{name}"):
        compiled.step(ids, target)


def test_modules_in_turns_have_the_results_that_each_has_alone():
    modules, (ids, target) = [Net(), Net()], batch()
    wanted = []
    for module in copy.deepcopy(modules):
        compiled = lessen.compile(module, (ids,), loss="cross_entropy", optimizer="adamw", lr=0.1, threads=1)
        wanted.append([compiled.step(ids, target) for _ in range(3)])
    own = [lessen.compile(module, (ids,), loss="cross_entropy", optimizer="adamw", lr=0.1) for module in modules]
    losses = [[compiled.step(ids, target) for compiled in own] for _ in range(3)]
    assert [list(of_one) for of_one in zip(*losses, strict=True)] == wanted and wanted[0] != wanted[1]


def test_modules_that_are_dropped_leave_nothing():
    def count():
        x, y = torch.randn(BATCH, 4), torch.randn(BATCH, 3)
        for _ in range(4):
            lessen.compile(nn.Linear(4, 3), (x,), loss="mse", optimizer="adamw", lr=0.1, threads=1).step(x, y)
        gc.collect()
        return len(gc.get_objects())

    count()
    # PyTorch's bounded caches take some; an export leaves 1,500 objects unless they are freed.
    before = count()
    assert count() - before < 400


class Einsum(nn.Module):
    """Attention by ``einsum``, with a bias of the keys, which no result depends on."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        parts = [project(x).unflatten(-1, (2, 4)) for project in (self.query, self.key, self.value)]
        scores = torch.einsum("nqhd,nkhd->nhqk", parts[0], parts[1]) / 2
        return torch.einsum("nhqk,nkhd->nqhd", scores.softmax(-1), parts[2]).flatten(2)


@pytest.mark.parametrize("rule", ["sgd", "adamw"])
def test_attention_by_einsum_trains_as_in_f64_but_for_a_gradient_that_is_rounding(rule):
    module, x, y = Einsum(), torch.randn(BATCH, 5, 8), torch.randn(BATCH, 5, 8)
    wide = copy.deepcopy(module).double()
    compiled = lessen.compile(module, (x,), loss="mse", optimizer=rule, lr=0.01)
    optimizer = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[rule](wide.parameters(), lr=0.01)
    for _ in range(5):
        loss = functional.mse_loss(wide(x.double()), y.double())
        assert compiled.step(x, y) == pytest.approx(loss.item(), rel=1e-5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    compiled.sync()
    for name, wanted in wide.state_dict().items():
        # AdamW divides the gradient of this bias, which is 0 but for rounding, by its own magnitude.
        bound = 2 * 5 * 0.01 if (rule, name) == ("adamw", "key.bias") else 1e-4 * wanted.abs().max()
        assert (module.state_dict()[name] - wanted).abs().max() <= bound, name


def test_an_optimizer_goes_on_with_its_moments_and_gives_them_back():
    modules = [Net(), None]
    modules[1] = copy.deepcopy(modules[0])
    optimizers = [torch.optim.AdamW(module.parameters(), lr=0.05) for module in modules]
    ids, target = batch()

    def eager(module, optimizer):
        optimizer.zero_grad()
        functional.cross_entropy(module(ids), target).backward()
        optimizer.step()

    for module, optimizer in zip(modules, optimizers, strict=True):
        eager(module, optimizer)
    compiled = lessen.compile(modules[0], (ids,), loss="cross_entropy", optimizer=optimizers[0])
    compiled.step(ids, target)
    eager(modules[1], optimizers[1])
    compiled.sync(optimizer=True)
    eager(modules[0], optimizers[0])
    eager(modules[1], optimizers[1])
    close(*modules)
    assert modules[0].norm.num_batches_tracked == 3


def test_a_released_module_holds_no_parameters_until_they_are_asked_for(tmp_path):
    modules, (ids, target) = [Net(), None], batch()
    modules[1] = copy.deepcopy(modules[0])
    pair = [
        lessen.compile(own, (ids,), loss="cross_entropy", optimizer="adamw", lr=0.1, release=release)
        for own, release in zip(modules, (True, False), strict=True)
    ]

    def step():
        losses = [compiled.step(ids, target) for compiled in pair]
        assert losses[0] == losses[1]
        assert modules[0].words.weight.isnan().all()
        assert sum(own.untyped_storage().nbytes() for own in modules[0].parameters()) == 3 * 4

    def same():
        pair[1].sync()
        for own, wanted in zip(modules[0].parameters(), modules[1].parameters(), strict=True):
            assert torch.equal(own, wanted)

    step()
    assert torch.equal(*(compiled.predict(ids[:2]) for compiled in pair))
    step()
    pair[1].sync()
    assert torch.equal(*(module(ids) for module in modules))
    step()
    torch.save(modules[0].state_dict(), tmp_path / "state.pt")
    same()
    step()
    larger = {name: value * 1.5 for name, value in modules[0].state_dict().items() if value.is_floating_point()}
    for module in modules:
        module.load_state_dict(larger, strict=False)
    step()
    pair[0].sync()
    same()


def test_budgets_change_no_loss_and_are_refused_below_the_floor():
    layers = [layer for _ in range(6) for layer in (nn.Linear(16, 16), nn.Tanh())]
    module, x, y = nn.Sequential(*layers), torch.randn(512, 16), torch.randint(0, 16, (512,))
    losses, budget = [], None
    for _ in range(2):
        compiled = lessen.compile(
            copy.deepcopy(module), (x,), loss="cross_entropy", optimizer="adamw", budget=budget, threads=1
        )
        losses.append([compiled.step(x, y) for _ in range(3)])
        peak = compiled.plan()["peak_bytes"]
        assert budget is None or peak <= budget
        budget = peak * 4 // 5
    assert losses[0] == losses[1]
    with pytest.raises(lessen.Error, match="below the floor"):
        lessen.compile(module, (x,), loss="cross_entropy", optimizer="adamw", budget=1000).plan()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return 2 * x

    @staticmethod
    def backward(context, gradient):
        return gradient


class Own(nn.Linear):
    def forward(self, x):
        return Doubled.apply(super().forward(x))


class Selected(nn.Linear):
    def forward(self, x):
        return super().forward(x)[x[:, 0] > 0].mean()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda x: lessen.compile(Own(4, 3), (x,), loss="mse").plan(), r"`Doubled` at .*test_torch.py:\d+ is a torch"),
        (lambda x: lessen.compile(Selected(4, 3), (x,)), r"aten.index.Tensor` at .*test_torch.py:\d+: .* a mask"),
        (lambda x: lessen.compile(nn.Linear(4, 3).double(), (x,), loss="mse"), "call module.float"),
        (lambda x: lessen.compile(nn.Linear(4, 3), (x,), loss="mean"), "no loss 'mean'; choose one of"),
        (lambda x: lessen.compile(nn.Linear(4, 3), (x,), loss="mse", clip_nrm=1.0), "clip_norm is"),
        (lambda x: lessen.compile(nn.Linear(4, 3), (x,), loss="mse", optimizer="lion"), "no optimizer 'lion'"),
    ],
)
def test_what_is_not_taken_is_refused_with_its_place(make, sentence):
    with pytest.raises(lessen.Error, match=sentence):
        make(torch.randn(BATCH, 4))


def test_the_programs_of_the_page_run(capfd):
    programs = re.findall(r"^```python torch\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert programs
    for program in programs:
        exec(compile(program, str(GUIDE), "exec"), {"__name__": "page"})
