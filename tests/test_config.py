"""Configs: precedence, strictness, the shipped files, the paper's settings."""

import dataclasses
from typing import get_type_hints

import pytest
import yaml

from ms_biaten.spec.config import Config
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.loading import config_root, differences, dump, from_tree, load_config
from ms_biaten.spec.profiles import PROFILES, Profile

SHIPPED = sorted(path.stem for path in config_root().glob("*.yaml"))


def write(folder, text):
    path = folder / "mine.yaml"
    path.write_text(text)
    return str(path)


def test_precedence_defaults_profile_file_target_set(tmp_path):
    text = """
data: {benchmark: debug}
target: night
profile: official
loss: {gamma: 0.2}
train: {lr: 0.03, epochs: 7}
targets:
  night: {train: {lr: 0.04}}
  dawn: {train: {lr: 0.09}}
"""
    path = write(tmp_path, text)
    config = load_config(path, overrides=["train.epochs=9"])
    assert config.train.momentum == 0.9  # dataclass default
    assert config.profile.heads == "softmax_then_mean"  # profile
    assert config.loss.gamma == 0.2  # file
    assert config.train.lr == 0.04  # targets[target]
    assert config.train.epochs == 9  # --set
    assert load_config(path, target="dawn").train.lr == 0.09
    assert load_config(path, profile="paper").profile.heads == "mean_then_softmax"


def test_an_option_that_is_not_given_leaves_set_alone():
    overrides = ["method=aten", "target=dawn", "profile.name=official"]
    config = load_config("debug", overrides=overrides, settings={"method": None})
    assert (config.method.name, config.target, config.profile.name) == ("aten", "dawn", "official")


def test_a_file_may_change_one_choice_of_a_profile(tmp_path):
    path = write(tmp_path, "target: night\nprofile: {name: official, heads: mean_then_softmax}\n")
    profile = load_config(path).profile
    assert (profile.name, profile.heads, profile.gradient) == (
        "official",
        "mean_then_softmax",
        "detached",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tran: {lr: 1}", "unknown key 'tran'; did you mean 'train'?"),
        ("train: {lrr: 1}", "unknown key 'train.lrr'; did you mean 'lr'?"),
        ("train: {lr: fast}", "train.lr: expected a number, found 'fast'"),
        ("train: {lr: true}", "train.lr: expected a number, found True"),
        ("train: {lr: .nan}", "train.lr: expected a finite number"),
        ("train: {lr: 1e39}", "train.lr: '1e39' is too large for single precision"),
        ("train: {epochs: 1.5}", "train.epochs: expected a whole number, found 1.5"),
        ("train: {epochs: true}", "train.epochs: expected a whole number, found True"),
        ("loss: {im: 1}", "loss.im: expected true or false, found 1"),
        ("train: 5", "train: expected a section"),
        ("train: {lr: -1}", "train.lr: must be above 0, found -1.0"),
        ("train: {batch_size: 1}", "needs at least 2 samples"),
        ("train: {momentum: 1.0}", "train.momentum: must be below 1"),
        ("train: {epochs: 2, warmup_epochs: 2}", "must be below train.epochs (2)"),
        ("method: bi_atten", "'bi_atten' is not one of bi_aten, aten"),
        ("profile: papper", "profile 'papper' does not exist; did you mean 'paper'?"),
        ("profile: {heads: mean}", "profile.heads: 'mean' is not one of"),
        ("profile: [1]", "profile: expected a section"),
        ("target: nigth", "target 'nigth' is not a domain of debug; did you mean 'night'?"),
        ("targets: {nigth: {}}", "did you mean 'night'?"),
        ("targets: 3", "targets: expected a section"),
        ("data: {benchmark: domanet}", "benchmark 'domanet' does not exist"),
        ("- a\n- b", "expected 'key: value' lines, found a list"),
        ("a: [", "not valid YAML"),
    ],
)
def test_a_mistake_is_named(tmp_path, text, message):
    base = "" if text.startswith(("target:", "-", "a:")) else "target: night\n"
    with pytest.raises(UserError) as caught:
        load_config(write(tmp_path, base + text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_numbers_as_yaml_reads_them(tmp_path):
    """YAML takes 5e-4 for a text and 1 for an integer."""
    assert load_config(write(tmp_path, "target: night\ntrain: {lr: 5e-4}")).train.lr == 5e-4
    assert load_config(write(tmp_path, "target: night\ntrain: {lr: 1}")).train.lr == 1.0


@pytest.mark.parametrize("text", ["train.lr", "=1", "train.lr=[", "train.=1", "train.lr.x=1"])
def test_a_bad_assignment_is_refused(text):
    with pytest.raises(UserError, match="--set"):
        load_config("debug", overrides=[text])


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_resolved_config_runs_again(tmp_path, name, profile):
    config = load_config(name, profile=profile, target="mine" if name == "own" else None)
    text = dump(config)
    assert from_tree(yaml.safe_load(text), "saved") == config
    assert load_config(write(tmp_path, text)) == config


def test_differences_name_the_settings():
    one = load_config("debug")
    other = load_config("debug", overrides=["train.lr=0.5", "run.output=x"])
    assert differences(one, other, ignore=["run.output"]) == ["train.lr"]


def test_profiles_have_the_same_keys_in_the_same_order_each_with_a_source():
    fields = [name for name in get_type_hints(Profile) if name != "name"]
    for name in PROFILES:
        lines = (config_root() / "profiles" / f"{name}.yaml").read_text().splitlines()
        lines = [line for line in lines if line and not line.startswith("#")]
        assert [line.split(":")[0] for line in lines] == fields
        assert all("#" in line for line in lines)


def test_the_paper_profile_is_the_default():
    assert load_config("debug").profile == Profile()


# The supplement's table, "Optimal hyperparameters on DomainNet".
SUPPLEMENT = {
    "clipart": (0.2, 0.1, 30, 0.02),
    "infograph": (1.0, 0.5, 30, 0.02),
    "painting": (1.0, 0.1, 30, 0.02),
    "quickdraw": (1.0, 0.1, 500, 0.05),
    "real": (1.0, 0.1, 30, 0.02),
    "sketch": (0.2, 0.1, 30, 0.02),
}


@pytest.mark.parametrize("target", SUPPLEMENT)
def test_domainnet_carries_the_papers_settings(target):
    config = load_config("domainnet", target=target)
    loss, train = config.loss, config.train
    assert (loss.lambda_intra, loss.gamma, train.epochs, train.lr) == SUPPLEMENT[target]
    assert (train.batch_size, train.d_alter) == (64, 2)
    assert (config.attention.heads, config.attention.width) == (4, 512)
    assert (config.model.raw_width, config.model.width) == (1024, 256)


@pytest.mark.parametrize("name", ["office_home", "office_caltech"])
def test_office_carries_the_papers_settings(name):
    config = load_config(name)
    assert (config.train.batch_size, config.train.d_alter) == (32, 2)
    assert (config.attention.heads, config.attention.width) == (4, 512)
    assert config.model.width == 256


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_config_says_command_and_whether_it_was_run(name):
    head = (config_root() / f"{name}.yaml").read_text().split("target:")[0]
    assert "train" in head
    assert "# Run" in head


@pytest.mark.parametrize("name", [name for name in SHIPPED if name not in ("debug", "own")])
def test_every_setting_of_a_paper_config_has_a_source(name):
    lines = (config_root() / f"{name}.yaml").read_text().split("\nmodel:")[1].split("\ntargets:")[0]
    settings = [line for line in lines.splitlines() if line.startswith("  ")]
    assert settings
    assert all("#" in line for line in settings)


def test_config_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().method = "aten"
